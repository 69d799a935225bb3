import { createHash } from 'node:crypto';
import type { LockedId, Queryable, Transaction } from '../../database/db.ts';
import { liveCompanies, constant } from '../../filters/sql.ts';
import type { BatchKind } from '../../schemas/batches.ts';
import type { RecordTable } from './batches.ts';
import { valuesBy } from './finders.ts';

const remembered = '400 days';

interface MergedRecord {
  id: LockedId;
  external_id: string | null;
  prospect_id?: string | null;
}

/**
 * Stores that records were merged into another one, and that earlier merges into them now lead there. Also stores an
 * external id that the remaining record loses. The caller deletes the merged records.
 * @param kept the record that stays, as it was before the merge
 * @param after its external id after the merge
 * @returns the ids of earlier merged records, by the id of the record into which they were merged
 */
export async function rememberMerge(
  sql: Transaction,
  customerId: string,
  noun: BatchKind['noun'],
  { id: keptId, external_id: before }: MergedRecord,
  merged: readonly MergedRecord[],
  after: string | null,
): Promise<Map<string, string[]>> {
  const gone = merged.map(({ id, external_id, prospect_id }) => ({ id, external_id, prospect_id }));
  const lost = before === null || before === after ? [] : [{ id: lostIdOf(keptId, before), external_id: before }];
  const moved = await sql<{ id: string; merged_into: string }[]>`
    with held as (
      select id, merged_into
      from merged_records
      where customer_id = ${customerId}
        and merged_into = any(${merged.map(({ id }) => id)}::uuid[])
    )
    update merged_records m
    set merged_into = ${keptId}
    from held
    where m.customer_id = ${customerId}
      and m.id = held.id
    returning m.id, held.merged_into`;
  await sql`
    insert into merged_records (customer_id, id, noun, merged_into, external_id, prospect_id)
    select ${customerId}, id, ${noun}, ${keptId}, external_id, prospect_id
    from jsonb_to_recordset(${sql.json([...gone, ...lost] as never)}) as given (id uuid, external_id text, prospect_id uuid)
    on conflict (customer_id, id) do update
    set merged_into = excluded.merged_into, merged_at = excluded.merged_at`;
  return valuesBy(moved, 'merged_into', ({ id }) => id);
}

/**
 * Returns the id under which an external id is stored after a record has lost it. It differs from the record's own id,
 * because the record itself can be merged later.
 */
export const lostIdOf = (id: string, externalId: string): string =>
  createHash('sha256').update(`${id} ${externalId}`).digest('hex').slice(0, 32);

/**
 * Undoes a part of a merge: records that had been merged into the restored record lead to it again, instead of to
 * `from`. Leaves out records that now lead to another record.
 * @param from the record that the merge kept
 */
export async function takeBackMerged(
  sql: Transaction,
  customerId: string,
  id: string,
  { merged = [], from }: { merged?: readonly string[]; from: string },
): Promise<void> {
  if (merged.length === 0) return;
  await sql`
    update merged_records
    set merged_into = ${id}
    where customer_id = ${customerId}
      and id = any(${merged as string[]}::uuid[])
      and merged_into = ${from}`;
}

/**
 * Returns the ids of the given records into which other records were merged after the position `last` in the journal.
 * Ignores merges that were undone.
 */
export async function findMergedSince(
  sql: Transaction,
  customerId: string,
  records: readonly { id: string; last: number }[],
): Promise<string[]> {
  if (records.length === 0) return [];
  const rows = await sql<{ id: string }[]>`
    select distinct given.id
    from unnest(
      ${records.map(({ id }) => id)}::uuid[],
      ${records.map(({ last }) => last)}::bigint[]
    ) as given (id, position)
    join merged_records m
      on m.customer_id = ${customerId}
      and m.merged_into = given.id
    join journal j
      on j.customer_id = ${customerId}
      and j.record_id = m.id
      and j.position > given.position
      and j.data ->> 'merged_into' = given.id::text`;
  return rows.map(({ id }) => id);
}

export async function purgeMerged(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await sql`
    delete from merged_records
    where customer_id = ${customerId}
      and (id = any(${ids as string[]}::uuid[]) or merged_into = any(${ids as string[]}::uuid[]))`;
}

/** Deletes the stored merges of restored records, and of external ids that a record got back (see `lostIdOf`). */
export async function forgetMerged(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await sql`
    delete from merged_records
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
}

/**
 * Returns the ids of the records that replace merged records, by the id of the merged record. Leaves out deleted
 * replacements.
 */
export async function findSuccessors(
  sql: Queryable,
  customerId: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<{ id: string; merged_into: string }[]>`
    select m.id, m.merged_into
    from merged_records m
    where m.customer_id = ${customerId}
      and m.id = any(${ids as string[]}::uuid[])
      and m.merged_at > now() - ${remembered}::interval
      and (
        exists (select 1 from contacts c where c.customer_id = ${customerId} and c.id = m.merged_into)
        or exists (
          select 1
          from ${liveCompanies(sql, customerId)}
            and co.id = m.merged_into
        )
      )`;
  return new Map(rows.map(({ id, merged_into }) => [id, merged_into]));
}

/**
 * Finds the records that replace merged records with these external ids. If several had the same external id, the last
 * merge counts.
 * @returns the id and the external id of the record, by the external id of the merged record
 */
export async function findByMergedExternalId(
  sql: Queryable,
  customerId: string,
  { kind, table, visible }: RecordTable,
  externalIds: readonly string[],
): Promise<Map<string, { id: string; external_id: string | null }>> {
  if (externalIds.length === 0) return new Map();
  const rows = await sql<{ value: string; id: string; external_id: string | null }[]>`
    select m.external_id as value, found.id, found.external_id
    from merged_records m
    cross join lateral (
      select r.id, r.external_id
      from ${constant(sql, table)} r
      where r.customer_id = ${customerId}
        and r.id = m.merged_into
        and ${constant(sql, visible)}
      offset 0
    ) found
    where m.customer_id = ${customerId}
      and m.noun = ${kind.noun}
      and m.external_id = any(${externalIds as string[]}::text[])
      and m.merged_at > now() - ${remembered}::interval
    order by m.merged_at, m.id`;
  return new Map(rows.map(({ value, ...record }) => [value, record]));
}

export async function findByMergedProspect(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
): Promise<{ prospect_id: string; merged_into: string }[]> {
  if (prospectIds.length === 0) return [];
  return sql<{ prospect_id: string; merged_into: string }[]>`
    select prospect_id, merged_into
    from merged_records
    where customer_id = ${customerId}
      and prospect_id is not null
      and prospect_id = any(${prospectIds as string[]}::uuid[])
      and merged_at > now() - ${remembered}::interval
    order by merged_at, id`;
}

export async function forgetOldMerges(sql: Transaction): Promise<number> {
  const old = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from merged_records
    where merged_at <= now() - ${remembered}::interval
    order by merged_at
    limit 1000`;
  for (const [customerId, ids] of valuesBy(old, 'customer_id', ({ id }) => id))
    await forgetMerged(sql, customerId, ids);
  return old.length;
}
