import type { Transaction } from '../db.ts';
import { foldCompany } from '../filters/fields.ts';
import { fold } from '../fold.ts';
import { normalise } from '../normalise.ts';
import type { Company } from '../schemas/companies.ts';
import type { CountChanges } from './counters.ts';

/** A company as a contact names it. */
export type NamedCompany = Pick<Company, 'company_name' | 'industry'>;

/**
 * The oldest company of the same folded name, or a new one; `industry` is ignored when one was found. Two callers at once
 * make one company: the second waits for the first at a lock of the name.
 * @returns the company's id; it is held as by `holdCompany`
 */
export async function findOrMakeCompany(
  sql: Transaction,
  customerId: string,
  given: NamedCompany,
  counts: CountChanges,
): Promise<string> {
  const [id] = (await findOrMakeCompanies(sql, customerId, [given], counts)).values();
  return id!;
}

/**
 * The same for any number of names at once; of the same folded name the first one counts. Nobody waits for another in a
 * circle: locks of names are taken in one order, and who holds one waits for no company that another has found.
 * @returns ids by folded name
 */
export async function findOrMakeCompanies(
  sql: Transaction,
  customerId: string,
  given: readonly NamedCompany[],
  counts: CountChanges,
): Promise<Map<string, string>> {
  const wanted = new Map<string, NamedCompany>();
  for (const company of given) {
    const name = fold(company.company_name);
    if (!wanted.has(name)) wanted.set(name, company);
  }
  const found = await findOldestByName(sql, customerId, [...wanted.keys()]);
  const missing = () => [...wanted.keys()].filter((name) => !found.has(name));
  if (missing().length === 0) return found;
  await lockNames(sql, customerId, missing());
  for (const [name, id] of await findOldestByName(sql, customerId, missing())) found.set(name, id);
  const unknown = missing().map((name) => wanted.get(name)!);
  for (const [name, id] of await insertCompanies(sql, customerId, unknown, counts)) found.set(name, id);
  return found;
}

/** Until the transaction ends nobody else makes companies of these names. */
async function lockNames(sql: Transaction, customerId: string, names: string[]): Promise<void> {
  await sql`
    select pg_advisory_xact_lock(name.key)
    from (
      select distinct hashtextextended(${`company:${customerId}:`} || folded, 0) as key
      from unnest(${names}::text[]) as folded
      order by key
    ) name`;
}

async function findOldestByName(sql: Transaction, customerId: string, names: string[]): Promise<Map<string, string>> {
  const rows = await sql<{ name: string; id: string }[]>`
    select wanted.name, oldest.id
    from unnest(${names}::text[]) as wanted (name)
    cross join lateral (
      select id
      from companies
      where customer_id = ${customerId}
        and (folded ->> 'company_name') collate "C" = wanted.name
        and deleted_at is null
      order by id
      limit 1
      for share
    ) oldest`;
  return new Map(rows.map(({ name, id }) => [name, id]));
}

async function insertCompanies(
  sql: Transaction,
  customerId: string,
  given: readonly NamedCompany[],
  counts: CountChanges,
): Promise<Map<string, string>> {
  if (given.length === 0) return new Map();
  const companies = given.map(normalise).map((company) => ({ ...company, folded: foldCompany(company) }));
  const rows = await sql<{ name: string; id: string }[]>`
    insert into companies (customer_id, company_name, industry, folded)
    select ${customerId}, company_name, industry, folded
    from jsonb_to_recordset(${sql.json(companies)}) as given (company_name text, industry text, folded jsonb)
    returning folded ->> 'company_name' as name, id`;
  counts.add('companies', rows.length);
  return new Map(rows.map(({ name, id }) => [name, id]));
}
