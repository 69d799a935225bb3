import type { Transaction } from '../db.ts';

/** Makes these the contacts of an opportunity that is locked; they are locked too. */
export async function setContacts(
  sql: Transaction,
  customerId: string,
  opportunityId: string,
  contactIds: string[],
): Promise<void> {
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and opportunity_id = ${opportunityId}`;
  await addContacts(sql, customerId, opportunityId, contactIds);
}

/** Adds contacts to an opportunity that has none. Duplicates collapse, the order is kept. */
export async function addContacts(
  sql: Transaction,
  customerId: string,
  opportunityId: string,
  contactIds: string[],
): Promise<void> {
  const distinct = [...new Set(contactIds.map((id) => id.toLowerCase()))];
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, ${opportunityId}, contact_id, position
    from unnest(${distinct}::uuid[]) with ordinality as given (contact_id, position)`;
}

/** Takes a contact that is about to be deleted, and is locked, out of its opportunities. */
export async function takeOutOfOpportunities(sql: Transaction, customerId: string, contactId: string): Promise<void> {
  await sql`
    with held as (
      select o.id
      from opportunities o
      where o.customer_id = ${customerId}
        and o.id in (
          select m.opportunity_id
          from opportunity_contacts m
          where m.customer_id = ${customerId}
            and m.contact_id = ${contactId}
        )
      order by o.id
      for no key update
    )
    update opportunities o
    -- Read once, when the first row is locked: who waited for another row is not to set its time back.
    set updated_at = greatest(o.updated_at, (select clock_timestamp()))
    from held
    where o.customer_id = ${customerId}
      and o.id = held.id`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = ${contactId}`;
}
