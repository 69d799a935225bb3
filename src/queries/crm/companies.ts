import type { Locked, LockedId, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { requireMatch } from '../../text/etag.ts';
import { companySource } from '../../filters/columns.ts';
import { liveCompanies } from '../../filters/live.ts';
import { searchColumnsOfCompany } from '../../filters/search-columns.ts';
import { constant, type FragmentMaker } from '../../filters/sql.ts';
import { arrayLiteral } from '../../filters/terms.ts';
import { blankOf } from '../../schemas/base/field-table.ts';
import { Company, companyFields, type CompanyCreate, type CompanyPatch } from '../../schemas/companies.ts';
import { companyFileFields } from '../../schemas/files.ts';
import { normalise } from '../../text/normalise.ts';
import type { WrittenTable } from '../records/batch-rows.ts';
import { findByIds, inOrderOf, type CreateRecord, type FindRecords, type UpdateRecord } from '../records/finders.ts';
import { detachActivities, lastActivityAt } from '../memberships/activity-links.ts';
import { withLastWrites, type LastWrites, type Removal } from '../records/last-writes.ts';
import { findDeclared, mergeCustomFields, type Declared } from '../records/custom-fields.ts';
import { recordReads } from './record-reads.ts';

/** The columns of a company that callers can set. */
export type CompanyColumns = Pick<Company, (typeof companyFields)[number]>;

export const blankCompany: CompanyColumns = blankOf(Company, companyFields);

/** Columns of a company that only the service writes. */
export const serviceColumns = ['score', 'verification_status', 'last_verified'] as const;

/**
 * SQL columns of a company as responses show them. For a company that was never verified, `last_verified` is its
 * creation time.
 */
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
  list: listCompanies,
  count: countCompanies,
  countUpTo: countCompaniesUpTo,
  export: exportCompanies,
} = recordReads<Company>({ source: companySource, projection, fields: companyFileFields, title: 'Companies' });

export const findCompanies: FindRecords<Company> = (sql, customerId, ids) =>
  findByIds(
    sql,
    ids,
    sql`
      select ${projection(sql)}, ${lastActivityAt(sql, customerId, 'company', 'co.id')} as last_activity_at
      from ${liveCompanies(sql, customerId)}
        and co.id = wanted.id`,
  );

/**
 * Creates a company. Several companies may have the same name.
 * @returns the id of the new company
 */
export const createCompany: CreateRecord<CompanyCreate> = async (sql, customerId, body) => {
  const columns = patchedCompany(blankCompany, body, await findDeclared(sql, customerId, 'companies', [body]));
  const [company] = await sql<{ id: string }[]>`
    insert into companies ${sql({ customer_id: customerId, ...encodedCompany(sql, customerId, columns) })}
    returning id`;
  const { id } = company!;
  await withLastWrites(sql, customerId, async (last) => {
    last.count('companies', 1);
    last.created('company', { id, external_id: columns.external_id });
  });
  return id;
};

/**
 * Locks a company to which a contact will refer. Until the transaction ends, other transactions cannot change or delete
 * the company.
 * @param path JSON pointer to the company id in the request, for the error
 * @returns the company's id
 * @throws DomainError `not_found` if the customer has no such company
 */
export async function lockCompanyForContact(
  sql: Transaction,
  customerId: string,
  id: string,
  path: string,
): Promise<string> {
  const [company] = await sql<{ id: string }[]>`
    select co.id
    from ${liveCompanies(sql, customerId)}
      and co.id = ${id}
    for share`;
  if (!company) throw notFound('company', [path]);
  return company.id;
}

/**
 * Updates the fields of a company that `patch` contains. Locks the row first, so no concurrent update is lost.
 * @throws DomainError `not_found` if the customer has no such company
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the company's current ETag
 */
export const updateCompany: UpdateRecord<CompanyPatch> = async (sql, customerId, id, patch, ifMatch) => {
  const [{ id: _id, ...current }, declared] = await Promise.all([
    lockCompany(sql, customerId, id, 'no key update', ifMatch),
    findDeclared(sql, customerId, 'companies', [patch]),
  ]);
  if (Object.keys(patch).length === 0) return;
  const columns = patchedCompany(current, patch, declared);
  await sql`
    update companies
    set ${sql(encodedCompany(sql, customerId, columns))}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
  await withLastWrites(sql, customerId, async (last) =>
    last.updated('company', { id, external_id: columns.external_id }, current, columns),
  );
};

/**
 * Deletes companies, which are locked `for update`: no read finds them any more, also as the company of a contact or an
 * opportunity. Their rows, and these references, stay for `HISTORY_DAYS`.
 */
export async function removeCompanies(
  sql: Transaction,
  customerId: string,
  ids: readonly LockedId[],
  last: LastWrites,
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
    last.deleted('company', { id, external_id: values.external_id }, kept, { merged_into });
  }
  last.count('companies', -ids.length);
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

/**
 * Locks a company until the transaction ends, and returns its columns. With `strength = 'update'`, other transactions
 * also cannot add contacts or opportunities to the company.
 * @throws DomainError `not_found` if the customer has no such company
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the company's current ETag
 */
async function lockCompany(
  sql: Transaction,
  customerId: string,
  id: string,
  strength: 'update' | 'no key update',
  ifMatch: string | undefined,
): Promise<Locked<CompanyColumns>> {
  const [row] = await lockCompanyRows(sql, customerId, [id], strength);
  if (!row) throw notFound('company');
  if (ifMatch !== undefined) requireMatch(ifMatch, (await findCompanies(sql, customerId, [id]))[0]!);
  return row;
}

/**
 * Locks companies until the transaction ends, and returns their ids and columns. With `strength = 'update'`, other
 * transactions also cannot add contacts or opportunities to the companies.
 */
export const lockCompanyRows = (
  sql: Transaction,
  customerId: string,
  ids: readonly string[],
  strength: 'update' | 'no key update',
): Promise<Locked<CompanyColumns>[]> => sql<Locked<CompanyColumns>[]>`
  select co.id, ${sql(companyFields)}
  from ${liveCompanies(sql, customerId)}
    and co.id = any(${ids as string[]}::uuid[])
  order by co.id
  for ${sql.unsafe(strength)}`;

export function companyRow(customerId: string, columns: CompanyColumns) {
  const { folded, terms } = searchColumnsOfCompany(customerId, columns);
  return { ...columns, folded, terms: arrayLiteral(terms) };
}

export const companiesWritten: WrittenTable<ReturnType<typeof companyRow>> = {
  name: 'companies',
  columns: [...companyFields, 'folded', 'terms'],
};

export function encodedCompany(sql: Transaction, customerId: string, columns: CompanyColumns) {
  const row = companyRow(customerId, columns);
  return { ...row, custom_fields: sql.json(row.custom_fields), folded: sql.json(row.folded) };
}
