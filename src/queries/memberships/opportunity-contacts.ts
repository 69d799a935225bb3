import type { LockedId, Transaction } from '../../database/db.ts';

/** Where a contact stands in an opportunity. */
export interface PlaceInOpportunity {
  id: string;
  /** Among its contacts. */
  position: number;
}

/** Removes contacts from all opportunities before they are deleted. Returns their places, by contact. */
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
  const removed = await sql<{ contact_id: string; opportunity_id: string; position: number }[]>`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = any(${contactIds as LockedId[]}::uuid[])
    returning contact_id, opportunity_id, position`;
  return placesOf(removed);
}

/** Returns the places of contacts in opportunities, by contact. */
export const placesOf = (
  rows: readonly { contact_id: string; opportunity_id: string; position: number }[],
): Map<string, PlaceInOpportunity[]> =>
  new Map(
    Array.from(
      Map.groupBy(rows, ({ contact_id }) => contact_id),
      ([contact, places]) => [contact, places.map(({ opportunity_id: id, position }) => ({ id, position }))],
    ),
  );
