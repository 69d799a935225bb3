import type { LockedId, Queryable, Transaction } from '../../database/db.ts';
import { constant, type Fragment } from '../../filters/sql.ts';
import { maxMovedRecords } from '../../schemas/clean-data/merges.ts';
import { clearValues } from '../events/purge.ts';
import { countUpTo } from '../records/finders.ts';
import type { LastWrites } from '../records/last-writes.ts';

/** The kinds of records that have activities, with the column that names them. */
const columns = { contact: 'contact_id', company: 'company_id', opportunity: 'opportunity_id' } as const;
type ActivityHolder = keyof typeof columns;

/** Locks the activities of records in the order of their ids, as part of a `with`. */
const heldBy = (sql: Transaction, customerId: string, column: string, ids: readonly string[]) => sql`
  held as (
    select id, ${constant(sql, column)} as holder, now()
    from activities
    where customer_id = ${customerId}
      and ${constant(sql, column)} = any(${ids as string[]}::uuid[])
    order by id
    for no key update
  )`;

/**
 * Takes records that are being deleted from their activities. Those that have no other reference are hidden. They are
 * not told: readers know it from the deletion of the record.
 * @param ids locked ones
 */
export async function detachActivities(
  sql: Transaction,
  customerId: string,
  noun: ActivityHolder,
  ids: readonly string[],
): Promise<void> {
  const column = columns[noun];
  const others = Object.values(columns).filter((other) => other !== column);
  await sql`
    with ${heldBy(sql, customerId, column, ids)}
    update activities a
    set
      ${constant(sql, `deleted_${column}`)} = held.holder,
      ${constant(sql, column)} = null,
      hidden_at = case
        when num_nonnulls(${constant(sql, others.map((other) => `a.${other}`).join(', '))}) = 0
        then held.now
      end
    from held
    where a.customer_id = ${customerId}
      and a.id = held.id`;
}

/**
 * Gives restored records their activities back, unless these have another one by now. An external id that another activity
 * has by now is left out.
 */
export async function reattachActivities(
  sql: Transaction,
  customerId: string,
  noun: ActivityHolder,
  ids: readonly string[],
): Promise<void> {
  const column = columns[noun];
  const isOfThese = (alias: string) =>
    sql`${constant(sql, `${alias}.deleted_${column}`)} = any(${ids as string[]}::uuid[])`;
  await sql`
    update activities a
    set external_id = null
    where a.customer_id = ${customerId}
      and ${isOfThese('a')}
      and a.hidden_at is not null
      and a.external_id is not null
      and exists (
        select 1
        from activities other
        where other.customer_id = ${customerId}
          and other.external_id = a.external_id
          and (other.hidden_at is null or (${isOfThese('other')} and other.id > a.id))
      )`;
  await sql`
    with held as (
      select a.id, ${constant(sql, `a.deleted_${column}`)} as holder
      from activities a
      where a.customer_id = ${customerId}
        and ${isOfThese('a')}
        and ${constant(sql, `a.${column}`)} is null
      order by a.id
      for no key update
    )
    update activities a
    set ${constant(sql, column)} = held.holder, ${constant(sql, `deleted_${column}`)} = null, hidden_at = null
    from held
    where a.customer_id = ${customerId}
      and a.id = held.id`;
}

/** Returns how many activities some records have. Stops counting one past `maxMovedRecords`. */
export async function countActivitiesOf(
  sql: Transaction,
  customerId: string,
  noun: ActivityHolder,
  ids: readonly string[],
): Promise<number> {
  const rows = sql`
    from activities
    where customer_id = ${customerId}
      and ${constant(sql, columns[noun])} = any(${ids as string[]}::uuid[])`;
  const [row] = await sql<[{ count: number }]>`select ${countUpTo(sql, rows, maxMovedRecords)} as count`;
  return row.count;
}

/** Gives the activities of the records `from` to the record `to`, in a merge. */
export async function moveActivities(
  sql: Transaction,
  customerId: string,
  noun: ActivityHolder,
  { to, from }: { to: LockedId; from: readonly LockedId[] },
  last: LastWrites,
): Promise<void> {
  const column = columns[noun];
  const moved = await sql<{ id: string; external_id: string | null; holder: string }[]>`
    with ${heldBy(sql, customerId, column, from)}
    update activities a
    set ${constant(sql, column)} = ${to}, updated_at = (select clock_timestamp())
    from held
    where a.customer_id = ${customerId}
      and a.id = held.id
    returning a.id, a.external_id, held.holder`;
  for (const { holder, ...activity } of moved.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
    last.updated('activity', activity, { [column]: holder }, { [column]: to });
}

/**
 * Removes the activities of deleted contacts for good, and their values in the journal, also of those that were deleted
 * before. Those that another record shows are told as deleted.
 */
export async function purgeActivitiesOf(
  sql: Transaction,
  customerId: string,
  contactIds: readonly string[],
  last: LastWrites,
): Promise<void> {
  const purged = await sql<{ id: string; external_id: string | null; is_shown: boolean }[]>`
    delete from activities
    where customer_id = ${customerId}
      and deleted_contact_id = any(${contactIds as string[]}::uuid[])
    returning id, external_id, hidden_at is null as is_shown`;
  const deleted = await sql<{ id: string }[]>`
    select record_id as id
    from journal
    where customer_id = ${customerId}
      and type = 'activity.deleted'
      and before ->> 'contact_id' = any(${contactIds as string[]}::text[])`;
  await clearValues(
    sql,
    customerId,
    [...purged, ...deleted].map(({ id }) => id),
  );
  for (const { is_shown, ...activity } of purged) if (is_shown) last.deleted('activity', activity, undefined);
}

/**
 * SQL expression: when the last activity of a record was, without those in the future.
 * @param id SQL expression: the id of the record
 */
export const lastActivityAt = (sql: Queryable, customerId: string, noun: ActivityHolder, id: string): Fragment => sql`(
  select max(a.occurred_at)
  from activities a
  where a.customer_id = ${customerId}::uuid
    and a.${constant(sql, columns[noun])} = ${constant(sql, id)}
    and a.occurred_at <= now()
)`;
