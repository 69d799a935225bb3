import type { LockedId, Transaction } from '../../database/db.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import { countUpTo } from '../records/finders.ts';
import type { LastWrites } from '../records/last-writes.ts';

/** Replaces the contacts of an opportunity. The new contacts are locked. */
export async function setContacts(
  sql: Transaction,
  customerId: string,
  opportunityId: LockedId,
  contactIds: string[],
): Promise<void> {
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and opportunity_id = ${opportunityId}`;
  await addContacts(sql, customerId, opportunityId, contactIds);
}

/** Adds contacts in order, duplicates once, to an opportunity that has none yet. */
export async function addContacts(
  sql: Transaction,
  customerId: string,
  opportunityId: LockedId,
  contactIds: string[],
): Promise<void> {
  const distinct = [...new Set(contactIds)];
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, ${opportunityId}, contact_id, position
    from unnest(${distinct}::uuid[]) with ordinality as given (contact_id, position)`;
}

/** Rows of deleted contacts that one transaction removes; the rest is removed in the background. Takes about 30 ms. */
const maxAtOnce = 500;

/**
 * The contact of the row `m` of `opportunity_contacts` exists. All reads need it, because the rows of some deleted
 * contacts are removed later.
 */
export const isPresent = (sql: FragmentMaker, customerId: string): Fragment => sql`
  m.contact_id <> all(array(select r.contact_id from contact_removals r where r.customer_id = ${customerId}::uuid))`;

/**
 * Removes contacts from all opportunities before they are deleted. A contact in very many opportunities is hidden
 * from reads, and workers remove its rows later.
 */
export async function removeFromOpportunities(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
  last: LastWrites,
): Promise<void> {
  const { small, large } = await bySize(sql, customerId, contactIds);
  if (small.length > 0) await removeRows(sql, customerId, small);
  if (large.length === 0) return;
  last.enqueue('settle-companies');
  await sql`
    insert into contact_removals (customer_id, contact_id)
    select ${customerId}, id
    from unnest(${large}::uuid[]) as id`;
}

/**
 * Divides contacts into those that one transaction can remove, and others. Leaves out contacts without opportunities.
 */
async function bySize(
  sql: Transaction,
  customerId: string,
  contactIds: readonly string[],
): Promise<{ small: string[]; large: string[] }> {
  const rows = sql`from opportunity_contacts m where m.customer_id = ${customerId} and m.contact_id = given.id`;
  const contacts = await sql<{ id: string; opportunities: number }[]>`
    select given.id, ${countUpTo(sql, rows, maxAtOnce)} as opportunities
    from unnest(${contactIds as string[]}::uuid[]) as given (id)`;
  const [small, large] = [[] as string[], [] as string[]];
  let room = maxAtOnce;
  for (const { id, opportunities } of contacts) {
    if (opportunities === 0) continue;
    if (opportunities > room) large.push(id);
    else {
      small.push(id);
      room -= opportunities;
    }
  }
  return { small, large };
}

/**
 * Removes one deleted contact from its next opportunities, or ends its removal if none is left.
 * @param max how many opportunities, which stay locked until the transaction ends
 * @returns false if no deleted contact waits to be removed
 */
export async function removeNextRows(sql: Transaction, customerId: string, max: number): Promise<boolean> {
  const [removal] = await sql<{ contact_id: string }[]>`
    select contact_id
    from contact_removals
    where customer_id = ${customerId}
    order by contact_id
    limit 1`;
  if (!removal) return false;
  if ((await removeRows(sql, customerId, [removal.contact_id], max)) > 0) return true;
  await sql`
    delete from contact_removals r
    where r.customer_id = ${customerId}
      and r.contact_id = ${removal.contact_id}
      and not exists (
        select 1
        from opportunity_contacts m
        where m.customer_id = ${customerId}
          and m.contact_id = r.contact_id
      )`;
  return true;
}

/**
 * @param max how many opportunities; null means all
 * @returns how many
 */
async function removeRows(
  sql: Transaction,
  customerId: string,
  contactIds: string[],
  max: number | null = null,
): Promise<number> {
  const opportunities = await sql<{ id: string }[]>`
    with held as (
      select o.id
      from opportunities o
      where o.customer_id = ${customerId}
        and o.id = any(array(
          select m.opportunity_id
          from opportunity_contacts m
          where m.customer_id = ${customerId}
            and m.contact_id = any(${contactIds}::uuid[])
          limit ${max}
        ))
      order by o.id
      for no key update
    )
    update opportunities o
    -- The clock is read once, when the first row is locked. A row locked later can have a newer time, which stays.
    set updated_at = greatest(o.updated_at, (select clock_timestamp()))
    from held
    where o.customer_id = ${customerId}
      and o.id = held.id
    returning o.id`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = any(${contactIds}::uuid[])
      and opportunity_id = any(${opportunities.map(({ id }) => id)}::uuid[])`;
  return opportunities.length;
}
