import type { Transaction } from '../../database/db.ts';
import { lockCompanyRows } from '../../queries/crm/companies.ts';
import { writeCompanyBatch } from '../../queries/crm/company-batches.ts';
import { lockCompaniesOf, writeContactBatch } from '../../queries/crm/contact-batches.ts';
import { lockContactRows } from '../../queries/crm/contacts.ts';
import {
  companyTable,
  contactTable,
  opportunityTable,
  productTable,
  type RecordTable,
} from '../../queries/records/batch-matches.ts';
import type { WriteBatch } from '../../queries/records/batches.ts';
import { lockNames } from '../../queries/records/bulk-lock.ts';
import { lockOpportunities, lockReferred, writeOpportunityBatch } from '../../queries/sales/opportunities.ts';
import { lockProducts, writeProductBatch } from '../../queries/sales/products.ts';
import type { MatchField } from '../../schemas/batches.ts';
import type { ImportObject } from '../../schemas/imports.ts';

/** How the records of files are written. */
interface ImportedRecords {
  table: RecordTable;
  write: WriteBatch;
  /** Locks what these bodies refer to. */
  lockReferences?: (
    sql: Transaction,
    customerId: string,
    bodies: readonly object[],
    match: MatchField | null,
  ) => Promise<unknown>;
  lockRows: (sql: Transaction, customerId: string, ids: string[]) => Promise<unknown>;
}

export const importedRecords: Record<ImportObject, ImportedRecords> = {
  contacts: {
    table: contactTable,
    write: writeContactBatch,
    lockReferences: lockCompaniesOf,
    lockRows: lockContactRows,
  },
  companies: {
    table: companyTable,
    write: writeCompanyBatch,
    lockReferences: async (sql, customerId, _bodies, match) => {
      if (match === 'domain') await lockNames(sql, customerId);
    },
    lockRows: (sql, customerId, ids) => lockCompanyRows(sql, customerId, ids, 'no key update'),
  },
  products: { table: productTable, write: writeProductBatch, lockRows: lockProducts },
  opportunities: {
    table: opportunityTable,
    write: writeOpportunityBatch,
    lockReferences: lockReferred,
    lockRows: lockOpportunities,
  },
};
