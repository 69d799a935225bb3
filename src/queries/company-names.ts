import type { Transaction } from '../database/db.ts';
import { searchColumnsOfCompany } from '../filters/search-columns.ts';
import type { Company } from '../schemas/companies.ts';
import { fold } from '../text/fold.ts';
import { normalise } from '../text/normalise.ts';
import type { CountChanges } from './counters.ts';

/** The name and industry of a company that a contact refers to by name. */
export type NamedCompany = Pick<Company, 'company_name' | 'industry'>;

/**
 * Returns the id of the customer's oldest company with this name, or creates the company. Case and accents in the name
 * do not matter; the industry is used only for a new company.
 * @param counts collects the change of the number of companies
 * @returns the company's id; the company stays locked until the transaction ends, so that nobody changes or deletes it
 */
export async function findOrCreateCompany(
  sql: Transaction,
  customerId: string,
  given: NamedCompany,
  counts: CountChanges,
): Promise<string> {
  const [id] = (await findOrCreateCompanies(sql, customerId, [given], counts)).values();
  return id!;
}

/**
 * Returns the ids of the customer's oldest companies with these names, and creates the missing companies. Case and
 * accents in a name do not matter; of two given companies with the same name, the first is used.
 * @param counts collects the change of the number of companies
 * @returns company ids by name in lower case, without accents
 */
export async function findOrCreateCompanies(
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
  // Otherwise two concurrent callers could both create the company. All callers lock in the same order.
  await lockNames(sql, customerId, missing());
  for (const [name, id] of await findOldestByName(sql, customerId, missing())) found.set(name, id);
  const unknown = missing().map((name) => wanted.get(name)!);
  for (const [name, id] of await insertCompanies(sql, customerId, unknown, counts)) found.set(name, id);
  return found;
}

/** Locks these company names until the transaction ends, so that nobody else creates companies with them. */
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
  const companies = given
    .map(normalise)
    .map((company) => ({ ...company, ...searchColumnsOfCompany(customerId, company) }));
  const rows = await sql<{ name: string; id: string }[]>`
    insert into companies (customer_id, company_name, industry, folded, terms)
    select ${customerId}, company_name, industry, folded, terms
    from jsonb_to_recordset(${sql.json(companies)}) as given (company_name text, industry text, folded jsonb, terms integer[])
    returning folded ->> 'company_name' as name, id`;
  counts.add('companies', rows.length);
  return new Map(rows.map(({ name, id }) => [name, id]));
}
