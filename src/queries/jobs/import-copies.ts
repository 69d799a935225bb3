import type { Queryable, Sql } from '../../database/db.ts';
import type { Import } from '../../schemas/imports.ts';

/* Imports that take their records from another import, so that nobody uploads them again. */

/** `anew`: to create the records without the match field. `again`: to change how the records of a check are read. */
type CopyPurpose = 'anew' | 'again';

/** Returns the fingerprint of an import that is made of records of this one. */
export const copyMark = (id: string, purpose: CopyPurpose): Buffer => Buffer.from(`copy of ${id} ${purpose}`);

const mark = (sql: Queryable) => sql`encode(i.fingerprint, 'escape')`;

/** Returns the SQL of the copy of the import `i`. Leaves out copies that have failed. */
const liveCopy = (sql: Queryable, customerId: string, purpose: CopyPurpose) => sql`
  select c.id, c.status, c.created
  from imports c
  where c.customer_id = ${customerId}
    and c.fingerprint = convert_to('copy of ' || i.id || ${` ${purpose}`}, 'UTF8')
    and c.status not in ('CANCELLED', 'FAILED')
  order by c.id desc
  limit 1`;

export type ImportCopy = Pick<Import, 'id' | 'status' | 'created'>;

/**
 * Returns the latest import that was made of records of this one.
 * @param purpose `anew`: leaves out imports that have failed; `again`: leaves out imports that have started
 */
export async function findCopy(sql: Sql, customerId: string, id: string, purpose: CopyPurpose) {
  const [copy] = await sql<{ id: string }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and fingerprint = ${copyMark(id, purpose)}
      and ${purpose === 'anew' ? sql`status not in ('CANCELLED', 'FAILED')` : sql`status = 'UPLOADED'`}
    order by id desc
    limit 1`;
  return copy?.id;
}

export interface CopyState {
  /** Number of records that come after another one of the file that creates their record, by the counts that have them. */
  repeats: Partial<Record<'created' | 'updated' | 'unchanged', number>>;
  /** Id of the import from which the records are. Null: they are from an upload. */
  copy_of: string | null;
  copied_for: CopyPurpose | null;
  /** Import that creates the records without the match field. Null: there is none. */
  anew: ImportCopy | null;
}

export const copyColumns = (sql: Queryable, customerId: string) => sql`
  i.repeats,
  substring(${mark(sql)} from '^copy of (.{36}) ') as copy_of,
  substring(${mark(sql)} from '^copy of .{36} (.+)') as copied_for,
  (select to_json(copy) from (${liveCopy(sql, customerId, 'anew')}) copy) as anew`;

/**
 * Returns the SQL condition that a list shows another import in place of the import `i`: a copy of this check, or the
 * import from which the records of this copy are.
 */
export const isFolded = (sql: Queryable, customerId: string) => sql`(
  i.status = 'COMPLETED' and coalesce(${mark(sql)} ~ '^copy of .{36} anew$', false)
  or i.dry_run and exists (${liveCopy(sql, customerId, 'again')}) and not exists (${liveCopy(sql, customerId, 'anew')})
)`;
