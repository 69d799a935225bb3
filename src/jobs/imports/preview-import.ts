import type { Database } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { FileRefused } from '../../files/file-refused.ts';
import { mapColumns, readHeader, type CsvLayout } from '../../files/layout.ts';
import { readRecords, type FileRecord } from '../../files/read-records.ts';
import { requireImportState, type ImportState, type VisibleImports } from '../../queries/imports/imports.ts';
import type { ImportPreview } from '../../schemas/imports.ts';
import { checkRecords } from './check-records.ts';
import { encodingOf, importFileOf, openSource, type ImportSource } from './import-source.ts';
import { requireUploaded } from './start-import.ts';

const shownRecords = 5;

/**
 * Returns the header line, the first records and their errors.
 * @throws DomainError `not_found`; `conflict` if no file is uploaded yet or the import has started
 */
export async function previewImport(
  db: Database,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<ImportPreview> {
  const found = await db.lookup((sql) => requireImportState(sql, customerId, id, visible));
  requireUploaded(found);
  const preview: ImportPreview = {
    headers: null,
    mapping: null,
    encoding: found.format === 'xlsx' ? null : encodingOf(found),
    separator: null,
    sheets: null,
    records: [],
    errors: [],
    warnings: [],
  };
  if (found.format === 'ndjson' && found.mapping)
    preview.warnings.push({ path: '/mapping', message: 'is left out, because the file is NDJSON' });
  if (found.format === 'auto') return preview;
  try {
    const source = await openSource(db, customerId, found);
    preview.sheets = source.sheets;
    const layout = found.format === 'ndjson' ? null : await addLayout(preview, found, source);
    await addRecords(preview, found, await firstRecords(found, source, layout));
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    preview.errors.push({ path: '', message: error.message });
  }
  return preview;
}

/**
 * Adds column names and errors of the header line to the preview.
 * @returns the header line, and the field of each column
 */
async function addLayout(preview: ImportPreview, found: ImportState, source: ImportSource): Promise<CsvLayout> {
  const header = await readHeader(found.format, source.partsFrom(0));
  const { columns, faults } = mapColumns(importFileOf(found), header.headers);
  preview.headers = header.headers;
  preview.separator = found.format === 'csv' ? header.separator : null;
  preview.mapping = Object.fromEntries(header.headers.map((name, i) => [name, columns[i] ?? null]));
  preview.errors.push(...faults);
  return { ...header, columns };
}

async function firstRecords(found: ImportState, source: ImportSource, layout: CsvLayout | null): Promise<FileRecord[]> {
  const from = layout?.start ?? { bytes: 0, line: 1 };
  const parts = source.partsFrom(from.bytes);
  const first: FileRecord[] = [];
  for await (const records of readRecords(importFileOf(found), layout, parts, from)) {
    first.push(...records.slice(0, shownRecords - first.length));
    if (first.length === shownRecords) break;
  }
  return first;
}

async function addRecords(preview: ImportPreview, found: ImportState, records: readonly FileRecord[]): Promise<void> {
  preview.records = records.map(({ shown }) => shown);
  for (const [i, checked] of (await checkRecords(found, records)).entries()) {
    const faults = checked instanceof DomainError ? checked.faults : [];
    preview.errors.push(...faults.map(({ path, message }) => ({ path: `/records/${i}${path}`, message })));
  }
}
