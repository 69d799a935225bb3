import type { LockedId, Transaction } from '../../database/db.ts';
import type { Fragment } from '../../filters/sql.ts';
import { countUpTo } from '../records/finders.ts';
import { placesOf, type PlaceInOpportunity } from './opportunity-contacts.ts';
import { maxMovedRecords } from '../../schemas/clean-data/merges.ts';

const countMoved = async (sql: Transaction, rows: Fragment): Promise<number> => {
  const [row] = await sql<[{ count: number }]>`select ${countUpTo(sql, rows, maxMovedRecords)} as count`;
  return row.count;
};

/** Returns in how many opportunities some of these contacts are. Stops counting one past `maxMovedRecords`. */
export const countOpportunitiesOfContacts = (
  sql: Transaction,
  customerId: string,
  contactIds: readonly string[],
): Promise<number> =>
  countMoved(
    sql,
    sql`from opportunity_contacts where customer_id = ${customerId} and contact_id = any(${contactIds as string[]}::uuid[])`,
  );

/** Returns how many contacts, or opportunities, these companies have. Stops counting one past `maxMovedRecords`. */
export const countOfCompanies = (
  sql: Transaction,
  customerId: string,
  table: 'contacts' | 'opportunities',
  companyIds: readonly string[],
): Promise<number> =>
  countMoved(
    sql,
    sql`from ${sql(table)} where customer_id = ${customerId} and company_id = any(${companyIds as string[]}::uuid[])`,
  );

/**
 * Replaces the contacts `from` by the contact `to` in all their opportunities, at the first position that one of them
 * has. Returns the places that they had, by contact.
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
  const gone = await sql<{ contact_id: string; opportunity_id: string; position: number }[]>`
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
  await touch(sql, customerId, ids);
  return placesOf(gone);
}

const touch = (sql: Transaction, customerId: string, ids: LockedId[]) => sql`
  update opportunities
  set updated_at = greatest(updated_at, (select clock_timestamp()))
  where customer_id = ${customerId}
    and id = any(${ids}::uuid[])`;

/** A record, and the company that it had. */
export interface MovedRecord {
  id: string;
  company_id: string;
}

export const byCompany = (moved: readonly MovedRecord[]): Map<string, string[]> =>
  new Map(
    Array.from(
      Map.groupBy(moved, ({ company_id }) => company_id),
      ([company, records]) => [company, records.map(({ id }) => id)],
    ),
  );

/** Gives the opportunities of companies to another company. Returns their ids, by company. */
export async function moveOpportunities(
  sql: Transaction,
  customerId: string,
  companyIds: readonly string[],
  to: LockedId,
): Promise<Map<string, string[]>> {
  const moved = await sql<MovedRecord[]>`
    with held as (
      select id, company_id
      from opportunities
      where customer_id = ${customerId}
        and company_id = any(${companyIds as string[]}::uuid[])
      order by id
      for no key update
    )
    update opportunities o
    set company_id = ${to}, updated_at = (select clock_timestamp())
    from held
    where o.customer_id = ${customerId}
      and o.id = held.id
    returning o.id, held.company_id`;
  return byCompany(moved);
}
