import type { LockedId, Transaction } from '../../database/db.ts';
import { constant, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import { maxMovedRecords } from '../../schemas/clean-data.ts';
import { clearValues } from '../records/journal.ts';
import { countUpTo, valuesBy } from '../records/finders.ts';
import type { DeferredWrites } from '../records/deferred-writes.ts';

const columns = { contact: 'contact_id', company: 'company_id', opportunity: 'opportunity_id' } as const;
type ActivityHolder = keyof typeof columns;

type ReferringTable = 'contacts' | 'opportunities' | 'activities';

const heldBy = (
  sql: Transaction,
  customerId: string,
  table: ReferringTable,
  column: string,
  ids: readonly string[],
) => sql`
  held as (
    select id, ${constant(sql, column)} as holder, now()
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and ${constant(sql, column)} = any(${ids as string[]}::uuid[])
    order by id
    for no key update
  )`;

/**
 * Removes records that are being deleted from their activities, and hides activities without another record. Writes no
 * events, because readers of the feed learn of it from the deletion of the record.
 * @param ids ids of locked records
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
    with ${heldBy(sql, customerId, 'activities', column, ids)}
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
 * Gives restored records their activities back. Skips activities that got another record meanwhile. Clears external ids
 * that another activity got meanwhile.
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

export async function countReferring(
  sql: Transaction,
  customerId: string,
  table: ReferringTable | 'opportunity_contacts',
  column: string,
  ids: readonly string[],
): Promise<number> {
  const rows = sql`
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and ${constant(sql, column)} = any(${ids as string[]}::uuid[])`;
  const [row] = await sql<[{ count: number }]>`select ${countUpTo(sql, rows, maxMovedRecords)} as count`;
  return row.count;
}

interface MovedRow {
  id: string;
  external_id: string | null;
  holder: string;
}

/**
 * Moves references: rows whose column holds the id of one of the records `from` get the id of the record `to`. Returns
 * these rows. Only activities become changed by that: contacts and opportunities keep `updated_at`, and have no event.
 */
export const moveReferring = (
  sql: Transaction,
  customerId: string,
  table: ReferringTable,
  column: string,
  { to, from }: { to: LockedId; from: readonly LockedId[] },
): Promise<MovedRow[]> => sql`
  with ${heldBy(sql, customerId, table, column, from)}
  update ${constant(sql, table)} r
  set
    ${constant(sql, column)} = ${to}
    ${table === 'activities' ? sql`, updated_at = (select clock_timestamp())` : sql``}
  from held
  where r.customer_id = ${customerId}
    and r.id = held.id
  returning r.id, r.external_id, held.holder`;

export const byHolder = (moved: readonly MovedRow[]): Map<string, string[]> =>
  valuesBy(moved, 'holder', ({ id }) => id);

export async function moveActivities(
  sql: Transaction,
  customerId: string,
  noun: ActivityHolder,
  move: { to: LockedId; from: readonly LockedId[] },
  deferred: DeferredWrites,
): Promise<void> {
  const column = columns[noun];
  const moved = await moveReferring(sql, customerId, 'activities', column, move);
  for (const { holder, ...activity } of moved.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
    deferred.updated('activity', activity, { [column]: holder }, { [column]: move.to });
}

/**
 * Deletes the activities of deleted contacts for good, with their values in the journal. An activity that another
 * record still shows gets a deletion event.
 */
export async function purgeActivitiesOf(
  sql: Transaction,
  customerId: string,
  contactIds: readonly string[],
  deferred: DeferredWrites,
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
  for (const { is_shown, ...activity } of purged) if (is_shown) deferred.deleted('activity', activity, undefined);
}

/**
 * Returns SQL for the time of a record's last activity, except activities in the future.
 * @param id SQL expression: the id of the record
 */
export const lastActivityAt = (
  sql: FragmentMaker,
  customerId: string,
  noun: ActivityHolder,
  id: string,
): Fragment => sql`(
  select max(a.occurred_at)
  from activities a
  where a.customer_id = ${customerId}::uuid
    and a.${constant(sql, columns[noun])} = ${constant(sql, id)}
    and a.occurred_at <= now()
)`;

export interface PlaceInOpportunity {
  id: string;
  position: number;
}

export async function removeFromOpportunities(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
): Promise<Map<string, PlaceInOpportunity[]>> {
  const opportunities = sql`
    select m.opportunity_id
    from opportunity_contacts m
    where m.customer_id = ${customerId}
      and m.contact_id = any(${contactIds as LockedId[]}::uuid[])`;
  // The opportunities are locked in order, so that two transactions that remove rows of the same ones do not deadlock.
  await sql`
    select o.id
    from opportunities o
    where o.customer_id = ${customerId}
      and o.id = any(array(${opportunities}))
    order by o.id
    for no key update`;
  const removed = await sql<RemovedLink[]>`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = any(${contactIds as LockedId[]}::uuid[])
    returning contact_id, opportunity_id, position`;
  return placesOf(removed);
}

interface RemovedLink {
  contact_id: string;
  opportunity_id: string;
  position: number;
}

const placesOf = (rows: readonly RemovedLink[]): Map<string, PlaceInOpportunity[]> =>
  valuesBy(rows, 'contact_id', ({ opportunity_id: id, position }) => ({ id, position }));

/**
 * Replaces the contacts `from` by the contact `to` in all their opportunities. `to` takes the first position that one
 * of them has. Returns the previous positions, by contact.
 */
export async function moveOpportunityContacts(
  sql: Transaction,
  customerId: string,
  { to, from }: { to: LockedId; from: readonly LockedId[] },
): Promise<Map<string, PlaceInOpportunity[]>> {
  const opportunities = await sql<{ id: LockedId }[]>`
    select o.id
    from opportunities o
    where o.customer_id = ${customerId}
      and o.id = any(array(
        select m.opportunity_id
        from opportunity_contacts m
        where m.customer_id = ${customerId}
          and m.contact_id = any(${from as LockedId[]}::uuid[])
      ))
    order by o.id
    for no key update`;
  if (opportunities.length === 0) return new Map();
  const ids = opportunities.map(({ id }) => id);
  const gone = await sql<RemovedLink[]>`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and opportunity_id = any(${ids}::uuid[])
      and contact_id = any(${[to, ...from]}::uuid[])
    returning contact_id, opportunity_id, position`;
  const positions = new Map<string, number>();
  for (const { opportunity_id: id, position } of gone)
    positions.set(id, Math.min(position, positions.get(id) ?? Infinity));
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, id, ${to}, position
    from unnest(${[...positions.keys()]}::uuid[], ${[...positions.values()]}::integer[]) as given (id, position)`;
  return placesOf(gone);
}
