import type { Database } from '../database/db.ts';
import { DomainError, type Fault } from '../errors.ts';
import { FileRefused, readLayout, readRecords, type CsvLayout, type FileRecord } from '../files/import-records.ts';
import { requireImportState, type ImportState, type VisibleImports } from '../queries/imports.ts';
import { companyBatches, contactBatches } from '../schemas/batches.ts';
import type { ImportPreview } from '../schemas/imports.ts';
import { checkItems } from '../validation/batch-items.ts';
import { importFileOf, partsOf, storedFileOf } from './import-source.ts';
import { requireUploaded } from './start-import.ts';

/** Number of records in a preview. */
const shownRecords = 5;

/**
 * Reads the beginning of an import's file, as the import would read it.
 * @throws not_found; conflict if the import does not wait for its start
 */
export async function previewImport(
  db: Database,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<ImportPreview> {
  const found = await db.lookup((sql) => requireImportState(sql, customerId, id, visible));
  requireUploaded(found);
  const preview: ImportPreview = { headers: null, mapping: null, records: [], errors: [] };
  try {
    const layout = await readLayout(importFileOf(found), partsOf(db, customerId, storedFileOf(found), 0));
    if (layout) Object.assign(preview, describe(layout));
    await addRecords(preview, found, await firstRecords(db, customerId, found, layout));
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    preview.errors.push({ path: '', message: error.message });
  }
  return preview;
}

const describe = ({ headers, columns }: CsvLayout): Pick<ImportPreview, 'headers' | 'mapping'> => ({
  headers,
  mapping: Object.fromEntries(headers.map((header, i) => [header, columns[i] ?? null])),
});

async function firstRecords(
  db: Database,
  customerId: string,
  found: ImportState,
  layout: CsvLayout | null,
): Promise<FileRecord[]> {
  const from = layout?.start ?? { bytes: 0, line: 1 };
  const parts = partsOf(db, customerId, storedFileOf(found), from.bytes);
  const first: FileRecord[] = [];
  for await (const records of readRecords(importFileOf(found), layout, parts, from)) {
    first.push(...records.slice(0, shownRecords - first.length));
    if (first.length === shownRecords) break;
  }
  return first;
}

/** Adds records to a preview: their items, and what is wrong with them. */
async function addRecords(
  preview: ImportPreview,
  { object, mode, match }: ImportState,
  records: readonly FileRecord[],
): Promise<void> {
  const kind = object === 'contacts' ? contactBatches : companyBatches;
  const rules = { kind, operation: mode, match: match ?? 'id', mayBeUnstorable: true } as const;
  for (const [i, { item }] of records.entries()) {
    const isReadable = !Array.isArray(item);
    preview.records.push(isReadable ? item : {});
    const [error] = isReadable ? await checkItems(rules, [item]) : [];
    const faults: Fault[] = isReadable ? (error instanceof DomainError ? error.faults : []) : item;
    preview.errors.push(...faults.map(({ path, message }) => ({ path: `/records/${i}${path}`, message })));
  }
}
