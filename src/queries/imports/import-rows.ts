import type { LockedId, Queryable, Transaction } from '../../database/db.ts';

/** A record of an import's file. */
export interface ImportRecord {
  line: number;
  /** As `toStored` writes them. */
  cells: string;
  error: string | null;
  warning: string | null;
}

/**
 * Stores records of a file. Those that are stored already keep what is said of them.
 * @param records with their cells as `toStored` writes them
 */
export async function insertRows(
  sql: Transaction,
  customerId: string,
  importId: LockedId,
  records: readonly Pick<ImportRecord, 'line' | 'cells'>[],
): Promise<void> {
  const cells = records.map((record) => record.cells).join('\n'); // JSON has no line breaks of its own
  await sql`
    insert into import_rows (customer_id, import_id, line, cells)
    select ${customerId}, ${importId}, line, cells::json
    from unnest(${records.map(({ line }) => line)}::integer[], string_to_array(${cells}, E'\\n')) as given (line, cells)
    on conflict (customer_id, import_id, line) do update set cells = excluded.cells`;
}

/** Size of the records that `readRows` returns (bytes). A single one can be larger. */
const maxBytes = 4 * 1024 * 1024;

/**
 * Returns the next records in the order of the file.
 * @param part `after`: line after which to begin; `limit`: most records; `failed`: only those with an error or a warning
 */
export const readRows = (
  sql: Queryable,
  customerId: string,
  importId: string,
  {
    after,
    limit,
    failed = false,
    bytes = maxBytes,
  }: { after: number; limit: number; failed?: boolean; bytes?: number },
): Promise<ImportRecord[]> => sql<ImportRecord[]>`
  select line, cells, error, warning
  from (
    select line, cells, error, warning, sum(octet_length(cells)) over (order by line) - octet_length(cells) as before
    from (
      select line, cells::text as cells, error, warning
      from import_rows
      where customer_id = ${customerId}
        and import_id = ${importId}
        and line > ${after}
        ${failed ? sql`and (error is not null or warning is not null)` : sql``}
      order by line
      limit ${limit}
    ) next
  ) measured
  where before < ${bytes}
  order by line`;

/** What is to be said of a record, and of a dry run the value that names the stored record. */
export interface RowNotes {
  line: number;
  error?: string | undefined;
  warning?: string | undefined;
  match?: string | undefined;
}

/** Stores what became of records. The others have neither an error nor a warning. */
export async function saveNotes(
  sql: Transaction,
  customerId: string,
  importId: LockedId,
  notes: readonly RowNotes[],
): Promise<void> {
  if (notes.length === 0) return;
  await sql`
    update import_rows r
    set error = given.error, warning = given.warning, match_hash = hashtextextended(given.match, 0)
    from unnest(
      ${notes.map(({ line }) => line)}::integer[],
      ${notes.map(({ error }) => error ?? null)}::text[],
      ${notes.map(({ warning }) => warning ?? null)}::text[],
      ${notes.map(({ match }) => match ?? null)}::text[]
    ) as given (line, error, warning, match)
    where r.customer_id = ${customerId}
      and r.import_id = ${importId}
      and r.line = given.line`;
}

/** Records that one statement deletes at most. A million in one would take longer than a statement may. */
export const mostDeleted = 100_000;

/**
 * Deletes the first records of an import.
 * @param part `after`, `upTo`: only those behind one line, up to another; `isDone`: only those of which nothing is to be
 *   said; `limit`: at most so many
 * @returns how many
 */
export async function deleteRows(
  sql: Transaction,
  customerId: string,
  importId: string,
  {
    after = 0,
    upTo = lastLine,
    isDone = false,
    limit = mostDeleted,
  }: { after?: number; upTo?: number; isDone?: boolean; limit?: number } = {},
): Promise<number> {
  const chosen = sql`
    from import_rows
    where customer_id = ${customerId}
      and import_id = ${importId}
      and line > ${after}
      and line <= ${upTo}
      ${isDone ? sql`and error is null and warning is null` : sql``}`;
  const { count } = await sql`
    delete ${chosen}
      and line <= coalesce((select line ${chosen} order by line offset ${limit - 1} limit 1), ${lastLine})`;
  return count;
}

const lastLine = 2_147_483_647;

/**
 * Deletes the records of an import that has ended, but for those of which something is to be said. What is left of very
 * many is overdue then.
 * @returns true if some are left
 */
export async function dropRows(sql: Transaction, customerId: string, id: LockedId): Promise<boolean> {
  const isMore = (await deleteRows(sql, customerId, id, { isDone: true })) === mostDeleted;
  await sql`
    update imports
    set rows_kept_until = ${isMore ? sql`(select clock_timestamp())` : null}
    where customer_id = ${customerId}
      and id = ${id}`;
  return isMore;
}

/** Returns how many values name the stored record of several records. */
export async function countRepeated(sql: Transaction, customerId: string, importId: string): Promise<number> {
  const [row] = await sql<[{ repeated: number }]>`
    select count(*) as repeated
    from (
      select match_hash
      from import_rows
      where customer_id = ${customerId}
        and import_id = ${importId}
        and match_hash is not null
      group by match_hash
      having count(*) > 1
    ) values`;
  return row.repeated;
}

/** Forgets what a dry run has found. */
export async function clearMessages(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    update import_rows
    set error = null, warning = null
    where customer_id = ${customerId}
      and import_id = ${importId}
      and (error is not null or warning is not null)`;
}
