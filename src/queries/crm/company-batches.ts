import type { Transaction } from '../../database/db.ts';
import type { Company } from '../../schemas/companies.ts';
import { assignExternalIds, externalIdsOf } from '../records/batch-external-ids.ts';
import {
  canonicalOf,
  companyTable,
  lockedValuesOf,
  lockMatching,
  readBatch,
  type BatchRecords,
} from '../records/batch-matches.ts';
import { isUnchanged, setColumns, setDeleted, toldOf, writeItems } from '../records/batch-rows.ts';
import {
  alive,
  endIfAtomic,
  openItems,
  outcomesOf,
  withRepeats,
  type Batch,
  type Item,
  type Outcome,
  type ReadOutcome,
} from '../records/batches.ts';
import {
  blankCompany,
  companiesWritten,
  companyRow,
  findCompanies,
  lockCompanyRows,
  patchedCompany,
  removeCompanies,
  type CompanyColumns,
} from './companies.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { lockValues } from '../records/value-locks.ts';

const companies: BatchRecords<CompanyColumns, Company> = {
  ...companyTable,
  lock: (sql, customerId, ids, operation) =>
    lockCompanyRows(sql, customerId, ids, operation === 'delete' ? 'update' : 'no key update'),
  find: findCompanies,
};

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
    await lockValues(attempt, customerId, [...lockedValuesOf(batch.match, items), ...externalIdsOf(items)]);
    await lockMatching(attempt, customerId, companies, batch, items);
    if (batch.operation !== 'delete') {
      for (const item of alive(items))
        setColumns(companies, batch, item, (body, stored) => patchedCompany(stored ?? blankCompany, body));
      await assignExternalIds(attempt, customerId, companies, items);
    }
    endIfAtomic(batch, items);
    if (batch.operation === 'delete') await removeCompanies(attempt, customerId, setDeleted(items), own);
    else await write(attempt, customerId, items, own);
    return outcomesOf(items);
  });

async function write(
  sql: Transaction,
  customerId: string,
  items: readonly CompanyItem[],
  last: LastWrites,
): Promise<void> {
  for (const item of alive(items))
    if (item.stored && isUnchanged(item.stored, item.columns!))
      item.outcome = { status: 'unchanged', id: item.stored.id };
  const { created, changed } = await writeItems(sql, customerId, companiesWritten, items, (columns) =>
    companyRow(customerId, columns),
  );
  last.count('companies', created.length);
  for (const item of created) last.created('company', toldOf(item));
  for (const item of changed) last.updated('company', toldOf(item), item.stored!, item.columns!);
}

export const readCompanyBatch = (
  sql: Transaction,
  customerId: string,
  batch: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Company>[]> => readBatch(sql, customerId, companies, batch);
