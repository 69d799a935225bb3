import type { LockedId, Queryable, Sql, Transaction } from '../../database/db.ts';
import type { Fragment } from '../../filters/sql.ts';

/**
 * SQL clauses for the end of a `select` of contacts: they lock the selected rows, in the order of their ids, until the
 * transaction ends. All transactions lock contacts in this order, to avoid deadlocks.
 */
export const lockedInOrder = (sql: Queryable): Fragment => sql`
    order by id
    for no key update`;

export async function findContactIds(sql: Sql, customerId: string, ids: readonly string[]): Promise<string[]> {
  const contacts = await sql<{ id: string }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
  return contacts.map(({ id }) => id);
}

export async function lockContacts(sql: Transaction, customerId: string, ids: readonly string[]): Promise<LockedId[]> {
  if (ids.length === 0) return [];
  const contacts = await sql<{ id: LockedId }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
    ${lockedInOrder(sql)}`;
  return contacts.map(({ id }) => id);
}

export async function lockContactsOfCompanies(
  sql: Transaction,
  customerId: string,
  companyIds: readonly string[],
): Promise<LockedId[]> {
  const contacts = await sql<{ id: LockedId }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and company_id = any(${companyIds as string[]}::uuid[])
    ${lockedInOrder(sql)}`;
  return contacts.map(({ id }) => id);
}
