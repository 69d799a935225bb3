import type { Sql, Transaction } from '../../database/db.ts';
import { companyBatches, fileCompanies } from '../../schemas/batches.ts';
import type { Company } from '../../schemas/companies.ts';
import { assignExternalIds, externalIdsOf } from '../records/batch-external-ids.ts';
import {
  canonicalOf,
  companyTable,
  lockedValuesOf,
  lockMatching,
  matchItems,
  readMatched,
} from '../records/batch-matches.ts';
import { isUnchanged, setColumns, without, writeItems } from '../records/batch-rows.ts';
import {
  alive,
  bodyOf,
  endIfAtomic,
  fail,
  lacksRequired,
  openItems,
  outcomesOf,
  withRepeats,
  type Batch,
  type Item,
  type Outcome,
  type ReadOutcome,
} from '../records/batches.ts';
import { removeCompanies, updateDependants, type ChangedCompany } from './company-changes.ts';
import {
  blankCompany,
  companiesWritten,
  companyRow,
  findCompanies,
  lockCompanyRows,
  patchedCompany,
  type CompanyColumns,
} from './companies.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { lockAndReadRules } from '../memberships/list-rules.ts';
import { lockValues } from '../records/value-locks.ts';

type CompanyItem = Item<CompanyColumns>;

/**
 * Writes a batch of companies. The result is the same as if the items were sent one by one, with one exception: if two
 * items identify the same company, the later item fails. Runs in the caller's transaction, which should not hold other
 * locks.
 * @param last collects what the transaction writes last
 * @throws the error of the first failed item if the batch is atomic
 * @throws DomainError `unavailable` if other requests keep changing the same companies
 */
export const writeCompanyBatch = (
  sql: Transaction,
  customerId: string,
  batch: Batch,
  last: LastWrites,
): Promise<Outcome[]> =>
  withRepeats(sql, last, async (attempt, own) => {
    const items = openItems<CompanyColumns>(batch, canonicalOf(batch.match));
    const rules = await lockAndReadRules(attempt, customerId);
    await lockValues(attempt, customerId, [...lockedValuesOf(batch.match, items), ...externalIdsOf(items)]);
    await lockCompanies(attempt, customerId, batch, items);
    if (batch.operation !== 'delete') await setAllColumns(attempt, customerId, batch, items);
    endIfAtomic(batch, items);
    if (batch.operation === 'delete') await removeCompanies(attempt, customerId, rules, noteDeleted(items, own), own);
    else await updateDependants(attempt, customerId, rules, await write(attempt, customerId, items, own), own);
    return outcomesOf(items);
  });

/** Locks the companies that the items identify, and saves them in `item.stored`. */
const lockCompanies = (
  sql: Transaction,
  customerId: string,
  { operation, match }: Batch,
  items: readonly CompanyItem[],
): Promise<void> => {
  const strength = operation === 'delete' ? 'update' : 'no key update';
  const lock = (ids: string[]) => lockCompanyRows(sql, customerId, ids, strength);
  return lockMatching(sql, customerId, companyTable, { match, creates: operation === 'upsert', lock }, items);
};

/**
 * Computes the new company columns for each item. An item fails if it lacks a required field, or if another company has
 * its external id.
 */
async function setAllColumns(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  items: readonly CompanyItem[],
): Promise<void> {
  for (const item of alive(items)) setColumnsOf(batch, item);
  await assignExternalIds(sql, customerId, companyTable, items);
}

/** Computes the new company columns for one item. The item fails if it creates a company but lacks a required field. */
function setColumnsOf(batch: Batch, item: CompanyItem): void {
  const { match, isFromFile } = batch;
  const lacks = item.stored ? undefined : lacksRequired(isFromFile ? fileCompanies : companyBatches, item.body);
  if (lacks) return fail(item, lacks);
  return setColumns(item, () =>
    item.stored
      ? patchedCompany(without('id', item.stored), without(match, bodyOf(batch, item)))
      : patchedCompany(blankCompany, item.body),
  );
}

/** Sets the result of each item to `deleted`. Returns the ids of the companies to delete. */
function noteDeleted(items: readonly CompanyItem[], last: LastWrites): string[] {
  return alive(items).map((item) => {
    const { id, external_id } = item.stored!;
    item.outcome = { status: 'deleted', id };
    last.deleted('company', { id, external_id });
    return id;
  });
}

/** Inserts or updates the company of each item that has not failed. Returns the updated companies. */
async function write(
  sql: Transaction,
  customerId: string,
  items: readonly CompanyItem[],
  last: LastWrites,
): Promise<ChangedCompany[]> {
  for (const item of alive(items))
    if (item.stored && isUnchanged(item.stored, item.columns!))
      item.outcome = { status: 'unchanged', id: item.stored.id };
  const { created, changed } = await writeItems(sql, customerId, companiesWritten, items, (columns) =>
    companyRow(customerId, columns),
  );
  last.count('companies', created.length);
  for (const item of created) last.created('company', toldOf(item));
  for (const item of changed) last.updated('company', toldOf(item), item.stored!, item.columns!);
  return changed.map(({ stored, columns }) => ({ id: stored!.id, before: stored!, after: columns! }));
}

const toldOf = ({ outcome, columns }: CompanyItem) => ({
  id: (outcome as { id: string }).id,
  external_id: columns!.external_id,
});

/** Reads the companies that the items identify. Returns one result for each item. */
export async function readCompanyBatch(
  sql: Sql,
  customerId: string,
  { match, items: given }: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Company>[]> {
  const items = openItems<never>({ operation: 'read', match, items: given }, canonicalOf(match));
  const matched = await matchItems(sql, customerId, companyTable, { match, creates: false }, items);
  return readMatched(companyTable, match, items, matched, await findCompanies(sql, customerId, [...matched.values()]));
}
