import type { Transaction } from '../../database/db.ts';
import type { Company } from '../../schemas/companies.ts';
import { assignExternalIds } from '../records/batch-external-ids.ts';
import { canonicalOf, companyTable, lockMatching, readBatch, type BatchRecords } from '../records/batch-matches.ts';
import { addEvents, setColumns, setUnchanged, writeItems } from '../records/batch-rows.ts';
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
  type CompanyColumns,
} from './companies.ts';
import { deleteCompanyItems } from './deletions.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { findDeclared } from '../records/custom-fields.ts';
import { lockBulk, lockNames } from '../records/bulk-lock.ts';

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
export async function writeCompanyBatch(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  last: LastWrites,
): Promise<Outcome[]> {
  await lockBulk(sql, customerId);
  return withRepeats(sql, last, async (attempt, own) => {
    const items = openItems<CompanyColumns>(batch, canonicalOf(batch.match));
    // Contacts create companies by their domain, too.
    if (batch.operation === 'upsert' && batch.match === 'domain') await lockNames(attempt, customerId);
    await lockMatching(attempt, customerId, companies, batch, items);
    if (batch.operation === 'delete') await deleteCompanyItems(attempt, customerId, batch, items, own);
    else {
      const bodies = alive(items).map(({ body }) => body);
      const declared = await findDeclared(attempt, customerId, 'companies', bodies);
      for (const item of alive(items))
        setColumns(companies, batch, item, (body, stored) =>
          withName(patchedCompany(stored ?? blankCompany, body, declared)),
        );
      await assignExternalIds(attempt, customerId, companies, batch, items);
      endIfAtomic(batch, items);
      await write(attempt, customerId, items, own);
    }
    return outcomesOf(items);
  });
}

/** A company that is created without a name is named by its domain. */
const withName = (columns: CompanyColumns): CompanyColumns =>
  columns.company_name === '' ? { ...columns, company_name: columns.domain! } : columns;

async function write(
  sql: Transaction,
  customerId: string,
  items: readonly CompanyItem[],
  last: LastWrites,
): Promise<void> {
  setUnchanged(items);
  const { created, changed } = await writeItems(sql, customerId, companiesWritten, items, (columns) =>
    companyRow(customerId, columns),
  );
  last.count('companies', created.length);
  addEvents(last, 'company', { created, changed });
}

export const readCompanyBatch = (
  sql: Transaction,
  customerId: string,
  batch: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Company>[]> => readBatch(sql, customerId, companies, batch);
