import type postgres from 'postgres';

interface Totals {
  contacts?: number;
  companies?: number;
}

/** Adds to the totals of a customer. For records that were inserted with SQL. */
export const addTotals = (owner: postgres.Sql, customerId: string, { contacts = 0, companies = 0 }: Totals) =>
  owner.begin(async (sql) => {
    await sql`
      update journal
      set contacts = contacts + ${contacts}::integer, companies = companies + ${companies}::integer
      where customer_id = ${customerId}`;
    await sql`
      insert into journal_ends as ends (customer_id, position, contacts, companies)
      values (${customerId}, 0, ${contacts}, ${companies})
      on conflict (customer_id) do update
      set contacts = ends.contacts + excluded.contacts, companies = ends.companies + excluded.companies`;
  });

/** Removes all rows of a customer's journal, as truncations do. */
export const truncateJournalOf = (owner: postgres.Sql, customerId: string) =>
  owner.begin(async (sql) => {
    await sql`
      insert into journal_ends as ends (customer_id, position, id, contacts, companies)
      select customer_id, position, id, contacts, companies
      from journal
      where customer_id = ${customerId}
      order by position desc
      limit 1
      on conflict (customer_id) do update
      set position = excluded.position, id = excluded.id, contacts = excluded.contacts, companies = excluded.companies`;
    await sql`delete from journal where customer_id = ${customerId}`;
  });

/** Reads what a customer's journal has, the oldest first. */
export const readJournal = (owner: postgres.Sql, customerId: string, source?: string) =>
  owner<{ type: string; source: string; data: Record<string, unknown>; before: object; after: object }[]>`
    select type, source, data, before, after
    from journal
    where customer_id = ${customerId}
      and (${source ?? null}::text is null or source = ${source ?? null})
    order by position`;

/** Returns the totals that the service has of a customer. */
export async function readTotalsOf(owner: postgres.Sql, customerId: string): Promise<Required<Totals>> {
  const [row] = await owner<Required<Totals>[]>`
    select contacts::integer, companies::integer
    from (
      select position, contacts, companies from journal where customer_id = ${customerId}
      union all
      select position, contacts, companies from journal_ends where customer_id = ${customerId}
    ) rows
    order by position desc
    limit 1`;
  return row ?? { contacts: 0, companies: 0 };
}
