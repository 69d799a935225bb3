import type { Transaction } from '../../database/db.ts';
import { isLive } from '../../filters/live.ts';
import { searchColumnsOfCompany } from '../../filters/search-columns.ts';
import type { Company } from '../../schemas/companies.ts';
import { fold } from '../../text/fold.ts';
import { normalise } from '../../text/normalise.ts';
import { RecordsChanged, type LockedCompanies } from '../records/batches.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { findSuccessors } from '../records/merged-records.ts';
import { lockValues, type LockedValue } from '../records/value-locks.ts';

export type NamedCompany = Pick<Company, 'company_name' | 'industry'>;

/**
 * Finds the customer's oldest company with a given name, or creates a company. Case and accents in the name are
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
  const name = fold(company.company_name);
  // Usually the company exists. While it does not, no row is locked yet, so it is not too late to lock its name.
  const { byName, gone } = await lockRows(sql, customerId, { names: [name] });
  if (gone.length > 0) return lockSuccessor(sql, customerId, gone[0]!);
  const found = byName.get(name);
  if (found !== undefined) return found;
  const locked = await lockCompanies(sql, customerId, { names: [name] });
  return (await findOrCreateNamed(sql, customerId, locked, [company], last)).get(name)!;
}

/**
 * @returns the id of the company into which another one was merged, or null if that one was deleted
 * @throws RecordsChanged if it was deleted or merged in turn
 */
async function lockSuccessor(sql: Transaction, customerId: string, merged: string): Promise<string | null> {
  const id = (await findSuccessors(sql, customerId, [merged])).get(merged);
  if (id === undefined) return null;
  const { byId } = await lockRows(sql, customerId, { names: [], ids: [id] });
  if (!byId.has(id)) throw new RecordsChanged();
  return id;
}

interface Wanted {
  /** Names of companies in lower case, without accents. */
  names: readonly string[];
  ids?: readonly string[];
  /** Values other than names that the transaction locks, together with the names. */
  values?: readonly LockedValue[];
}

/**
 * Locks companies to which contacts will refer, so that other transactions cannot change or delete them. If no company
 * has a given name, locks the name, so that other transactions cannot create this company. Case and accents in a name
 * are ignored.
 * @throws RecordsChanged if a company with one of the names was merged into another one meanwhile
 */
export async function lockCompanies(
  sql: Transaction,
  customerId: string,
  { names, ids = [], values = [] }: Wanted,
): Promise<LockedCompanies> {
  const found = await findOldest(sql, customerId, names);
  const missing = names.filter((name) => !found.has(name));
  await lockValues(sql, customerId, [...missing.map((value) => ({ kind: 'company_name' as const, value })), ...values]);
  const { gone, ...locked } = await lockRows(sql, customerId, { names: missing, ids, found });
  // The contacts of a company that was merged meanwhile belong to another one now.
  if ((await findSuccessors(sql, customerId, gone)).size > 0) throw new RecordsChanged();
  return locked;
}

const hasName = `
  r.customer_id = $1::uuid
  and (r.folded ->> 'company_name') collate "C" = wanted.name
  and ${isLive('r')}`;

async function findOldest(
  sql: Transaction,
  customerId: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  if (names.length === 0) return new Map();
  const rows = await sql.unsafe<{ name: string; id: string }[]>(oldest, [customerId, names as string[]], {
    prepare: true,
  });
  return new Map(rows.map(({ name, id }) => [name, id]));
}

/**
 * Locks companies by name and by id, in the order of their ids, to avoid deadlocks.
 * @param found companies that were found by name before. Their names are not looked up again: if another transaction
 *   has renamed a company meanwhile, the name would seem free, although it is not locked.
 * @returns `gone`: ids of companies that were found by name, and that other transactions deleted meanwhile
 */
async function lockRows(
  sql: Transaction,
  customerId: string,
  {
    names,
    ids = [],
    found = new Map(),
  }: Pick<Wanted, 'names' | 'ids'> & { found?: ReadonlyMap<string, string> | undefined },
): Promise<LockedCompanies & { gone: string[] }> {
  const byName = new Map<string, string | null>([...found.keys()].map((name) => [name, null]));
  const byId = new Set<string>();
  const gone: string[] = [];
  if (names.length + ids.length + found.size === 0) return { byName, byId, gone };
  const rows = await sql.unsafe<{ name: string | null; id: string; is_deleted: boolean }[]>(
    lockStatement,
    [customerId, names as string[], ids as string[], [...found.keys()], [...found.values()]],
    { prepare: true },
  );
  for (const { name, id, is_deleted } of rows) {
    if (name !== null) byName.set(name, is_deleted ? null : id);
    else if (!is_deleted) byId.add(id);
    if (name !== null && is_deleted) gone.push(id);
  }
  return { byName, byId, gone };
}

// Lateral subqueries, no joins, for the reason that `lookUp` gives.
const oldest = `
  select wanted.name, oldest.id
  from unnest($2::text[]) as wanted (name)
  cross join lateral (
    select r.id
    from companies r
    where ${hasName}
    order by r.id
    limit 1
  ) oldest`;

const lockStatement = `
  select wanted.name, co.id, co.is_deleted
  from (
    select given.name, given.id
    from (
      (${oldest})
      union all
      select * from unnest($4::text[], $5::uuid[])
      union all
      select null, unnest($3::uuid[])
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
 * Returns the ids of companies by name (in lower case, without accents): of those that are locked, and of those that
 * are created, because no company had the locked name.
 * @param wanted companies whose names are locked. If several have one name, the first of them may be created
 * @param last collects what the transaction writes last
 */
export async function findOrCreateNamed(
  sql: Transaction,
  customerId: string,
  { byName }: LockedCompanies,
  wanted: readonly NamedCompany[],
  last: LastWrites,
): Promise<LockedCompanies['byName']> {
  const missing = new Map<string, NamedCompany>();
  for (const company of wanted) {
    const name = fold(company.company_name);
    if (!byName.has(name) && !missing.has(name)) missing.set(name, company);
  }
  return new Map([...byName, ...(await insertCompanies(sql, customerId, [...missing.values()], last))]);
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
  const rows = await sql<{ name: string; id: string }[]>`
    insert into companies (customer_id, company_name, industry, folded, terms)
    select ${customerId}, company_name, industry, folded, terms
    from jsonb_to_recordset(${sql.json(companies)}) as given (company_name text, industry text, folded jsonb, terms integer[])
    returning folded ->> 'company_name' as name, id`;
  last.count('companies', rows.length);
  for (const { id } of rows) last.created('company', { id, external_id: null });
  return new Map(rows.map(({ name, id }) => [name, id]));
}
