import type { Locked, Transaction } from '../../database/db.ts';
import type { CompanyReference } from '../../schemas/contacts.ts';
import { fold } from '../../text/fold.ts';
import { externalIdsOf } from '../records/batch-external-ids.ts';
import { canonicalOf, companyTable, contactTable, lockedValuesOf, matchItems } from '../records/batch-matches.ts';
import { openItems, type LockedCompanies } from '../records/batches.ts';
import { lockCompanyRows } from '../crm/companies.ts';
import { lockCompanies } from '../crm/company-names.ts';
import { lockContactRows } from '../crm/contacts.ts';
import type { ImportSettings } from './imports.ts';
import { lockValues } from '../records/value-locks.ts';

/** What is known of the records that several batches of an import write, while all their locks are held. */
export interface HeldLocks {
  /** Undefined for an import of companies. */
  companies: LockedCompanies | undefined;
  externalIds: Map<string, string>;
}

/**
 * Takes all locks that several batches of an import need, at once and in the order that value-locks.ts describes, to
 * avoid deadlocks.
 * @param items the valid items of all batches
 * @returns the companies to which contacts refer, and external ids of the stored records, by match value (such as an
 * email)
 */
export async function lockForBatches(
  sql: Transaction,
  customerId: string,
  { object, match: given }: Pick<ImportSettings, 'object' | 'match'>,
  items: readonly object[],
): Promise<HeldLocks> {
  const match = given ?? 'id';
  const operation = given === null ? 'create' : 'read';
  const open = openItems({ operation, match, items }, canonicalOf(match));
  // `open` has a match value once, but a later item with the same one may bring another external id.
  const all = items.map((body) => ({ body: body as Record<string, unknown>, value: undefined }));
  const values = [...lockedValuesOf(match, open), ...externalIdsOf(all)];
  const wanted = companiesOf(items);
  // Also the names of companies that exist: one that is renamed now is missing for a later batch, which then locks its
  // name, and must not have to wait for it.
  values.push(...wanted.names.map((value) => ({ kind: 'company_name' as const, value })));
  let companies: LockedCompanies | undefined;
  if (object === 'contacts') companies = await lockCompanies(sql, customerId, { ...wanted, values });
  else await lockValues(sql, customerId, values);
  if (given === null) return { companies, externalIds: new Map() };
  const table = object === 'contacts' ? contactTable : companyTable;
  const matched = await matchItems(sql, customerId, table, { match, creates: true }, open);
  const ids = [...matched.values()];
  const rows: Locked<{ external_id: string | null }>[] =
    object === 'contacts'
      ? await lockContactRows(sql, customerId, ids)
      : await lockCompanyRows(sql, customerId, ids, 'no key update');
  const byId = new Map<string, string | null>(rows.map(({ id, external_id }) => [id, external_id]));
  const externalIds = new Map(
    [...matched].flatMap(([value, id]) => {
      const externalId = byId.get(id) ?? null;
      return externalId === null ? [] : [[value, externalId] as const];
    }),
  );
  return { companies, externalIds };
}

function companiesOf(items: readonly object[]): { names: string[]; ids: string[] } {
  const references = items.flatMap((item) => (item as { company?: CompanyReference | null }).company ?? []);
  return {
    names: [...new Set(references.flatMap(({ name }) => (name === undefined ? [] : [fold(name)])))],
    ids: [...new Set(references.flatMap(({ id }) => id ?? []))],
  };
}
