import type { Transaction } from '../database/db.ts';

/** Replaces the contacts of an opportunity. The caller must have locked the opportunity and the new contacts. */
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

/** Adds contacts, in the given order, to an opportunity that has no contacts yet. Duplicate ids are added once. */
export async function addContacts(
  sql: Transaction,
  customerId: string,
  opportunityId: string,
  contactIds: string[],
): Promise<void> {
  const distinct = [...new Set(contactIds)];
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, ${opportunityId}, contact_id, position
    from unnest(${distinct}::uuid[]) with ordinality as given (contact_id, position)`;
}

/**
 * Removes contacts from all their opportunities, before the contacts are deleted. The caller must have locked the
 * contacts.
 */
export async function removeFromOpportunities(
  sql: Transaction,
  customerId: string,
  contactIds: readonly string[],
): Promise<void> {
  await sql`
    with held as (
      select o.id
      from opportunities o
      where o.customer_id = ${customerId}
        and o.id in (
          select m.opportunity_id
          from opportunity_contacts m
          where m.customer_id = ${customerId}
            and m.contact_id = any(${contactIds as string[]}::uuid[])
        )
      order by o.id
      for no key update
    )
    update opportunities o
    -- The clock is read once, when the first row is locked. A row locked later can have a newer time, which stays.
    set updated_at = greatest(o.updated_at, (select clock_timestamp()))
    from held
    where o.customer_id = ${customerId}
      and o.id = held.id`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = any(${contactIds as string[]}::uuid[])`;
}
