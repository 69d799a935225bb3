import type { Transaction, Locked, LockedId } from '../../database/db.ts';
import { RecordsChanged } from '../../errors.ts';
import { isLive, liveCompanies, constant, type FragmentMaker } from '../../filters/sql.ts';
import { searchColumnsOf } from '../../filters/to-sql.ts';
import { Company, companyFields, type CompanyPatch } from '../../schemas/companies.ts';
import type { CompanyReference } from '../../schemas/contacts.ts';
import { fold, normalise } from '../../text/fold.ts';
import type { LockedCompanies } from '../records/batches.ts';
import { type DeferredWrites, lockNames, type Removal } from '../records/deferred-writes.ts';
import { findSuccessors } from '../records/merged-records.ts';
import { companySource } from '../../filters/columns.ts';
import { blankOf } from '../../schemas/wire.ts';
import { companyFileFields } from '../../schemas/files.ts';
import type { WrittenTable } from '../records/batch-rows.ts';
import { countUpTo, finderOf, inOrderOf } from '../records/finders.ts';
import { detachActivities, lastActivityAt } from './links.ts';
import { mergeCustomFields, type Declared } from '../records/custom-fields.ts';
import { recordReads } from './record-pages.ts';

export type NamedCompany = Pick<Company, 'company_name' | 'industry'> & { domain?: string | null };

export const namedCompanyOf = ({ name, domain, industry = '' }: CompanyReference): NamedCompany | undefined => {
  const company_name = name ?? domain;
  return company_name === undefined ? undefined : { company_name, industry, domain: domain ?? null };
};

/**
 * Returns the key by which a company is found: its domain with a blank in front, or its name (lower case, no accents)
 * if it has no domain.
 */
export const companyKey = ({ company_name, domain }: NamedCompany): string =>
  domain ? ` ${domain}` : fold(company_name);

/**
 * Locks companies to which contacts will refer, in the order of their ids, to avoid deadlocks. If a key has no company,
 * also locks the names of companies, so that no other transaction creates the missing one.
 * @throws RecordsChanged if a company with one of the keys was merged into another one meanwhile
 */
export async function lockCompanies(
  sql: Transaction,
  customerId: string,
  { keys, ids = [] }: { keys: readonly string[]; ids?: readonly string[] },
): Promise<LockedCompanies> {
  if (keys.length + ids.length === 0) return { byKey: new Map(), byId: new Set() };
  const found = await findOldest(sql, customerId, keys);
  const missing = keys.filter((key) => !found.has(key));
  if (missing.length > 0) await lockNames(sql, customerId);
  // Keys with a company are not looked up again, because other transactions may have renamed it.
  const rows = await sql.unsafe<{ key: string | null; id: string; is_deleted: boolean }[]>(
    lockStatement,
    [customerId, ...valuesOf(missing), ids as string[], [...found.keys()], [...found.values()]],
    { prepare: true },
  );
  const byKey = new Map<string, string | null>([...found.keys()].map((key) => [key, null]));
  for (const { key, id, is_deleted } of rows) if (key !== null) byKey.set(key, is_deleted ? null : id);
  const byId = new Set(rows.flatMap(({ key, id, is_deleted }) => (key === null && !is_deleted ? id : [])));
  const gone = rows.flatMap(({ key, id, is_deleted }) => (key !== null && is_deleted ? id : []));
  // The contacts of a company that was merged meanwhile belong to another one now.
  if ((await findSuccessors(sql, customerId, gone)).size > 0) throw new RecordsChanged();
  return { byKey, byId };
}

async function findOldest(sql: Transaction, customerId: string, keys: readonly string[]): Promise<Map<string, string>> {
  if (keys.length === 0) return new Map();
  const rows = await sql.unsafe<{ key: string; id: string }[]>(oldest, [customerId, ...valuesOf(keys)], {
    prepare: true,
  });
  return new Map(rows.map(({ key, id }) => [key, id]));
}

const valuesOf = (keys: readonly string[]): [names: string[], domains: string[]] => [
  keys.filter((key) => !key.startsWith(' ')),
  keys.flatMap((key) => (key.startsWith(' ') ? key.slice(1) : [])),
];

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
 * Returns the ids of companies by key (see `companyKey`). Creates a company for each key that has none.
 * @param wanted companies whose keys `lockCompanies` has locked. Of several with the same key, the first is created
 */
export async function findOrCreateNamed(
  sql: Transaction,
  customerId: string,
  { byKey }: LockedCompanies,
  wanted: readonly NamedCompany[],
  deferred: DeferredWrites,
): Promise<LockedCompanies['byKey']> {
  const missing = new Map<string, NamedCompany>();
  for (const company of wanted) {
    const keys = [companyKey(company), fold(company.company_name)];
    if (byKey.has(keys[0]!) || missing.has(keys[0]!)) continue;
    for (const key of keys) if (!byKey.has(key) && !missing.has(key)) missing.set(key, company);
  }
  const ids = await insertCompanies(sql, customerId, [...new Set(missing.values())], deferred);
  return new Map([...byKey, ...[...missing].map(([key, company]) => [key, ids.get(companyKey(company))!] as const)]);
}

async function insertCompanies(
  sql: Transaction,
  customerId: string,
  given: readonly NamedCompany[],
  deferred: DeferredWrites,
): Promise<Map<string, string>> {
  if (given.length === 0) return new Map();
  const companies = given
    .map(normalise)
    .map((company) => ({ ...company, ...searchColumnsOf(companySource, customerId, company) }));
  const rows = await sql<(NamedCompany & { id: string })[]>`
    insert into companies (customer_id, company_name, domain, industry, folded, terms)
    select ${customerId}, company_name, domain, industry, folded, terms
    from jsonb_to_recordset(${sql.json(companies)}) as given (company_name text, domain text, industry text, folded jsonb, terms integer[])
    returning company_name, domain, industry, id`;
  deferred.count('companies', rows.length);
  for (const { id } of rows) deferred.created('company', { id, external_id: null });
  return new Map(rows.map(({ id, ...company }) => [companyKey(company), id]));
}

export type CompanyColumns = Pick<Company, (typeof companyFields)[number]>;

export const blankCompany: CompanyColumns = blankOf(Company, companyFields);

export const serviceColumns = ['score', 'verification_status', 'last_verified'] as const;

const shown = `
  co.id,
  ${companyFields.map((column) => `co.${column}`).join(', ')},
  coalesce(co.last_verified, co.created_at) as last_verified,
  co.verification_status,
  co.score,
  co.created_at,
  co.updated_at`;
const projection = (sql: FragmentMaker) => constant(sql, shown);

export const {
  find: findCompanies,
  list: listCompanies,
  count: countCompanies,
  countUpTo: countCompaniesUpTo,
  export: exportCompanies,
} = recordReads<Company>({
  source: companySource,
  projection,
  detailed: (sql, customerId) => sql`
    ${projection(sql)}, ${lastActivityAt(sql, customerId, 'company', 'co.id')} as last_activity_at`,
  fields: companyFileFields,
  title: 'Companies',
});

export const maxOfCompany = 200;

export interface CompanyCounts {
  id: string;
  contacts: number;
  open_opportunities: number;
  last_activity_at: string | null;
}

/** Counts contacts and open opportunities of companies, up to `maxOfCompany` + 1, and returns their last activity. */
export const countsOfCompanies = finderOf<CompanyCounts>((sql, customerId) => {
  const contacts = sql`from contacts c where c.customer_id = ${customerId} and c.company_id = wanted.id`;
  const opportunities = sql`
    from opportunities o
    where o.customer_id = ${customerId}
      and o.company_id = wanted.id
      and o.stage_id in (select s.id from stages s where s.customer_id = ${customerId} and s.status = 'OPEN')`;
  return sql`
    select
      wanted.id,
      ${countUpTo(sql, contacts, maxOfCompany)} as contacts,
      ${countUpTo(sql, opportunities, maxOfCompany)} as open_opportunities,
      ${lastActivityAt(sql, customerId, 'company', 'wanted.id')} as last_activity_at`;
});

/**
 * Deletes companies that the caller has locked `for update`. No read finds them any more, but their rows, and
 * references to them, stay for `HISTORY_DAYS`.
 */
export async function removeCompanies(
  sql: Transaction,
  customerId: string,
  ids: readonly LockedId[],
  deferred: DeferredWrites,
  { merged_into, moved, isPurged = false }: Removal = {},
): Promise<void> {
  if (ids.length === 0) return;
  await detachActivities(sql, customerId, 'company', ids);
  const removed = await sql<(CompanyColumns & { id: string })[]>`
    update companies
    set deleted_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = any(${ids as LockedId[]}::uuid[])
    returning id, ${constant(sql, [...companyFields, ...serviceColumns].join(', '))}`;
  for (const { id, ...values } of inOrderOf(ids, removed)) {
    const kept = isPurged ? undefined : { ...values, ...moved?.get(id) };
    deferred.deleted('company', { id, external_id: values.external_id }, kept, { merged_into });
  }
  deferred.count('companies', -ids.length);
}

export function patchedCompany(
  current: CompanyColumns,
  { custom_fields, ...fields }: CompanyPatch,
  declared: Declared,
): CompanyColumns {
  return {
    ...current,
    ...normalise(fields),
    ...(custom_fields ? { custom_fields: mergeCustomFields(current.custom_fields, custom_fields, declared) } : {}),
  };
}

export const lockCompanyRows = (
  sql: Transaction,
  customerId: string,
  ids: readonly string[],
  strength: 'update' | 'no key update',
): Promise<Locked<CompanyColumns>[]> => sql`
  select co.id, ${sql(companyFields)}
  from ${liveCompanies(sql, customerId)}
    and co.id = any(${ids as string[]}::uuid[])
  order by co.id
  for ${sql.unsafe(strength)}`;

export const companyRow = <Columns extends CompanyColumns>(customerId: string, columns: Columns) => ({
  ...columns,
  ...searchColumnsOf(companySource, customerId, columns),
});

export const companiesWritten: WrittenTable<ReturnType<typeof companyRow<CompanyColumns>>> = {
  name: 'companies',
  columns: [...companyFields, 'folded', 'terms'],
};

export type WholeCompany = CompanyColumns &
  Pick<Company, 'score' | 'verification_status'> & { last_verified: string | null };

export const wholeCompanies: WrittenTable<ReturnType<typeof companyRow<WholeCompany>>> = {
  name: 'companies',
  columns: [...companiesWritten.columns, ...serviceColumns],
};
