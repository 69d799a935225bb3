import type { Transaction } from '../../database/db.ts';
import { isLive } from '../../filters/live.ts';
import { searchColumnsOfCompany } from '../../filters/search-columns.ts';
import type { Company } from '../../schemas/companies.ts';
import type { CompanyReference } from '../../schemas/contacts.ts';
import { fold } from '../../text/fold.ts';
import { normalise } from '../../text/normalise.ts';
import { RecordsChanged, type LockedCompanies } from '../records/batches.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { findSuccessors } from '../records/merged-records.ts';
import { lockNames } from '../records/bulk-lock.ts';

/** A company that is found by its domain, or if it has none, by its name, and is created if there is none. */
export type NamedCompany = Pick<Company, 'company_name' | 'industry'> & { domain?: string | null };

/** Returns the company that a contact's body names by name or domain. A company without a name is named by its domain. */
export const namedCompanyOf = ({ name, domain, industry = '' }: CompanyReference): NamedCompany | undefined => {
  const company_name = name ?? domain;
  return company_name === undefined ? undefined : { company_name, industry, domain: domain ?? null };
};

/**
 * Returns that by which the company is found: its name in lower case, without accents; or a blank and its domain, because
 * no such name begins with a blank.
 */
export const companyKey = ({ company_name, domain }: NamedCompany): string =>
  domain ? ` ${domain}` : fold(company_name);

/**
 * Finds the customer's oldest company with a given name or domain, or creates a company. Case and accents in the name are
 * ignored. The industry is used only for a new company. The company stays locked until the transaction ends, so other
 * transactions cannot change or delete it.
 * @param last collects what the transaction writes last
 * @returns the company's id; null if another transaction deleted the company while this transaction waited for the lock.
 * If it was merged into another one meanwhile, the id of that one, which is locked too
 */
export async function findOrCreateCompany(
  sql: Transaction,
  customerId: string,
  company: NamedCompany,
  last: LastWrites,
): Promise<string | null> {
  const key = companyKey(company);
  // Usually the company exists. While it does not, no row is locked yet, so it is not too late to lock the names.
  const { byKey, gone } = await lockRows(sql, customerId, { keys: [key] });
  if (gone.length > 0) return lockSuccessor(sql, customerId, gone[0]!);
  const found = byKey.get(key);
  if (found !== undefined) return found;
  const locked = await lockCompanies(sql, customerId, { keys: [key] });
  return (await findOrCreateNamed(sql, customerId, locked, [company], last)).get(key)!;
}

/**
 * @returns the id of the company into which another one was merged, or null if that one was deleted
 * @throws RecordsChanged if it was deleted or merged in turn
 */
async function lockSuccessor(sql: Transaction, customerId: string, merged: string): Promise<string | null> {
  const id = (await findSuccessors(sql, customerId, [merged])).get(merged);
  if (id === undefined) return null;
  const { byId } = await lockRows(sql, customerId, { keys: [], ids: [id] });
  if (!byId.has(id)) throw new RecordsChanged();
  return id;
}

interface Wanted {
  /** See `companyKey`. */
  keys: readonly string[];
  ids?: readonly string[];
}

/**
 * Locks companies to which contacts will refer, so that other transactions cannot change or delete them. If no company
 * has a given key, locks the names of companies, so that no other transaction creates this company by its name or domain.
 * @throws RecordsChanged if a company with one of the keys was merged into another one meanwhile
 */
export async function lockCompanies(
  sql: Transaction,
  customerId: string,
  { keys, ids = [] }: Wanted,
): Promise<LockedCompanies> {
  const found = await findOldest(sql, customerId, keys);
  const missing = keys.filter((key) => !found.has(key));
  if (missing.length > 0) await lockNames(sql, customerId);
  const { gone, ...locked } = await lockRows(sql, customerId, { keys: missing, ids, found });
  // The contacts of a company that was merged meanwhile belong to another one now.
  if ((await findSuccessors(sql, customerId, gone)).size > 0) throw new RecordsChanged();
  return locked;
}

async function findOldest(sql: Transaction, customerId: string, keys: readonly string[]): Promise<Map<string, string>> {
  if (keys.length === 0) return new Map();
  const rows = await sql.unsafe<{ key: string; id: string }[]>(oldest, [customerId, ...valuesOf(keys)], {
    prepare: true,
  });
  return new Map(rows.map(({ key, id }) => [key, id]));
}

/** Returns the names and the domains in keys. */
const valuesOf = (keys: readonly string[]): [names: string[], domains: string[]] => [
  keys.filter((key) => !key.startsWith(' ')),
  keys.flatMap((key) => (key.startsWith(' ') ? key.slice(1) : [])),
];

/**
 * Locks companies by key and by id, in the order of their ids, to avoid deadlocks.
 * @param found companies that were found by key before. Their keys are not looked up again: if another transaction
 *   has renamed a company meanwhile, the name would seem free, although it is not locked.
 * @returns `gone`: ids of companies that were found by key, and that other transactions deleted meanwhile
 */
async function lockRows(
  sql: Transaction,
  customerId: string,
  { keys, ids = [], found = new Map() }: Wanted & { found?: ReadonlyMap<string, string> | undefined },
): Promise<LockedCompanies & { gone: string[] }> {
  const byKey = new Map<string, string | null>([...found.keys()].map((key) => [key, null]));
  const byId = new Set<string>();
  const gone: string[] = [];
  if (keys.length + ids.length + found.size === 0) return { byKey, byId, gone };
  const rows = await sql.unsafe<{ key: string | null; id: string; is_deleted: boolean }[]>(
    lockStatement,
    [customerId, ...valuesOf(keys), ids as string[], [...found.keys()], [...found.values()]],
    { prepare: true },
  );
  for (const { key, id, is_deleted } of rows) {
    if (key !== null) byKey.set(key, is_deleted ? null : id);
    else if (!is_deleted) byId.add(id);
    if (key !== null && is_deleted) gone.push(id);
  }
  return { byKey, byId, gone };
}

// Lateral subqueries, no joins, for the reason that `lookUp` gives.
const oldestBy = (value: string, values: string, key: string): string => `
  select ${key} as key, oldest.id
  from unnest(${values}::text[]) as wanted (value)
  cross join lateral (
    select r.id
    from companies r
    where r.customer_id = $1::uuid
      and ${value} = wanted.value
      and ${isLive('r')}
    order by r.id
    limit 1
  ) oldest`;
const oldest = `
  ${oldestBy(`(r.folded ->> 'company_name') collate "C"`, '$2', 'wanted.value')}
  union all
  ${oldestBy('r.domain', '$3', `' ' || wanted.value`)}`;

const lockStatement = `
  select wanted.key, co.id, co.is_deleted
  from (
    select given.key, given.id
    from (
      (${oldest})
      union all
      select * from unnest($5::text[], $6::uuid[])
      union all
      select null, unnest($4::uuid[])
    ) given
    order by given.id
  ) wanted
  cross join lateral (
    select co.id, not (${isLive('co')}) as is_deleted
    from companies co
    where co.customer_id = $1::uuid
      and co.id = wanted.id
    for share
  ) co`;

/**
 * Returns the ids of companies by key: of those that are locked, and of those that are created, because no company had
 * the key.
 * @param wanted companies for whose keys `lockCompanies` was called. If several have one key, the first of them may be
 *   created. One that is created by its domain is then found by its name, too
 * @param last collects what the transaction writes last
 */
export async function findOrCreateNamed(
  sql: Transaction,
  customerId: string,
  { byKey }: LockedCompanies,
  wanted: readonly NamedCompany[],
  last: LastWrites,
): Promise<LockedCompanies['byKey']> {
  const missing = new Map<string, NamedCompany>();
  for (const company of wanted) {
    const keys = [companyKey(company), fold(company.company_name)];
    if (byKey.has(keys[0]!) || missing.has(keys[0]!)) continue;
    for (const key of keys) if (!byKey.has(key) && !missing.has(key)) missing.set(key, company);
  }
  const ids = await insertCompanies(sql, customerId, [...new Set(missing.values())], last);
  return new Map([...byKey, ...[...missing].map(([key, company]) => [key, ids.get(companyKey(company))!] as const)]);
}

async function insertCompanies(
  sql: Transaction,
  customerId: string,
  given: readonly NamedCompany[],
  last: LastWrites,
): Promise<Map<string, string>> {
  if (given.length === 0) return new Map();
  const companies = given
    .map(normalise)
    .map((company) => ({ ...company, ...searchColumnsOfCompany(customerId, company) }));
  const rows = await sql<(NamedCompany & { id: string })[]>`
    insert into companies (customer_id, company_name, domain, industry, folded, terms)
    select ${customerId}, company_name, domain, industry, folded, terms
    from jsonb_to_recordset(${sql.json(companies)}) as given (company_name text, domain text, industry text, folded jsonb, terms integer[])
    returning company_name, domain, industry, id`;
  last.count('companies', rows.length);
  for (const { id } of rows) last.created('company', { id, external_id: null });
  return new Map(rows.map(({ id, ...company }) => [companyKey(company), id]));
}
