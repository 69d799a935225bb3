import type { Locked, Transaction } from '../../database/db.ts';
import type { CompanyReference } from '../../schemas/contacts.ts';
import { fold } from '../../text/fold.ts';
import { externalIdsOf } from '../records/batch-external-ids.ts';
import { canonicalOf, companyTable, contactTable, lockedValuesOf, matchItems } from '../records/batch-matches.ts';
import { openItems } from '../records/batches.ts';
import { lockCompanyRows } from '../crm/companies.ts';
import { lockDependants } from '../crm/company-changes.ts';
import { lockCompanies } from '../crm/company-names.ts';
import { lockContactRows } from '../crm/contacts.ts';
import type { ImportSettings } from './imports.ts';
import { beginSettling } from '../memberships/company-settlements.ts';
import { lockRulesShared } from '../memberships/list-rules.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { lockValues } from '../records/value-locks.ts';

/**
 * Takes all locks that several batches of an import need, at once and in the order that value-locks.ts describes, to
 * avoid deadlocks.
 * @param items the valid items of all batches
 * @param last collects what the transaction writes last; undefined for a dry run, whose batches are rolled back one by
 * one, with their locks
 * @returns external ids of the stored records, by match value (such as an email)
 */
export async function lockForBatches(
  sql: Transaction,
  customerId: string,
  { object, match: given }: Pick<ImportSettings, 'object' | 'match'>,
  items: readonly object[],
  last?: LastWrites,
): Promise<Map<string, string>> {
  const match = given ?? 'id';
  const operation = given === null ? 'create' : 'read';
  const open = openItems({ operation, match, items }, canonicalOf(match));
  // `open` has a match value once, but a later item with the same one may bring another external id.
  const all = items.map((body) => ({ body: body as Record<string, unknown>, value: undefined }));
  const values = [...lockedValuesOf(match, open), ...externalIdsOf(all)];
  const companies = companiesOf(items);
  // Also the names of companies that exist: one that is renamed now is missing for a later batch, which then locks its
  // name, and must not have to wait for it.
  values.push(...companies.names.map((value) => ({ kind: 'company_name' as const, value })));
  const rulesVersion = await lockRulesShared(sql, customerId);
  if (object === 'contacts') await lockCompanies(sql, customerId, { ...companies, values });
  else await lockValues(sql, customerId, values);
  if (given === null) return new Map();
  const table = object === 'contacts' ? contactTable : companyTable;
  const matched = await matchItems(sql, customerId, table, { match, creates: true }, open);
  const ids = [...matched.values()];
  const rows: Locked<{ external_id: string | null }>[] =
    object === 'contacts'
      ? await lockContactRows(sql, customerId, ids)
      : await lockCompanyRows(sql, customerId, ids, 'no key update');
  if (object === 'companies' && rulesVersion !== undefined && last)
    await lockDependantsOfAll(sql, customerId, rows, last);
  const externalIds = new Map<string, string | null>(rows.map(({ id, external_id }) => [id, external_id]));
  return new Map(
    [...matched].flatMap(([value, id]) => {
      const externalId = externalIds.get(id) ?? null;
      return externalId === null ? [] : [[value, externalId]];
    }),
  );
}

/**
 * Locks the contacts of companies that several batches may change. Workers settle the large ones: a batch with only some
 * of them could take them for small, and would lock their contacts after those of others.
 */
async function lockDependantsOfAll(
  sql: Transaction,
  customerId: string,
  companies: readonly Locked<unknown>[],
  last: LastWrites,
): Promise<void> {
  const ids = companies.map(({ id }) => id);
  const { large } = await lockDependants(sql, customerId, ids);
  if (large.size > 0) await beginSettling(sql, customerId, [...large], { isDeletion: false }, last);
}

function companiesOf(items: readonly object[]): { names: string[]; ids: string[] } {
  const references = items.flatMap((item) => (item as { company?: CompanyReference | null }).company ?? []);
  return {
    names: [...new Set(references.flatMap(({ name }) => (name === undefined ? [] : [fold(name)])))],
    ids: [...new Set(references.flatMap(({ id }) => id ?? []))],
  };
}
