import type { Requester } from '../../credentials/requester.ts';
import type { Database } from '../../database/db.ts';
import { DomainError, type Fault } from '../../errors.ts';
import { FileRefused } from '../../files/file-refused.ts';
import { layoutOf, mappedFieldOf, planColumns, type ColumnPlan, type CsvLayout } from '../../files/layout/layout.ts';
import { fileWarnings } from '../../files/layout/file-warnings.ts';
import { misreadText } from '../../files/layout/misread.ts';
import { leftOut, observe, settleLayout } from '../../files/layout/settle-layout.ts';
import { readRecords, type FileRecord } from '../../files/read-records.ts';
import { requireImportState, type ImportState, type VisibleImports } from '../../queries/imports/imports.ts';
import { keepRememberedMapping } from '../../queries/imports/remembered-mappings.ts';
import type { CustomType, ImportPreview } from '../../schemas/imports.ts';
import { pointerTo } from '../../text/json-pointer.ts';
import { checkRecords } from './check-records.ts';
import { encodingOf, importFileOf, readSource, type ImportSource } from './import-source.ts';
import { requireUploaded } from './start-import.ts';

const shownRecords = 5;
/** Cells of each column. */
const shownSamples = 3;

/** A column of a file, for pages. */
export interface PreviewColumn {
  header: string;
  /** The first filled cells. */
  samples: string[];
  /** Of a custom field: as given, or as the first records show it. */
  type: CustomType | null;
  isTypeGiven: boolean;
}

/** Also with the columns in their order, which can have the same header. */
export interface DetailedPreview extends ImportPreview {
  columns: PreviewColumn[];
}

/**
 * Returns the header line, the first records and their errors.
 * @throws DomainError `not_found`; `conflict` if no file is uploaded yet or the import has started
 */
export async function previewImport(
  db: Database,
  requester: Requester,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<DetailedPreview> {
  const { customerId } = requester;
  const found = await db.lookup((sql) => requireImportState(sql, customerId, id, visible));
  requireUploaded(found);
  const preview: DetailedPreview = {
    headers: null,
    mapping: null,
    mapping_from: null,
    encoding: found.format === 'xlsx' ? null : encodingOf(found),
    separator: null,
    sheets: null,
    records: [],
    errors: [],
    warnings: [],
    columns: [],
  };
  if (found.format === 'ndjson' && found.mapping)
    preview.warnings.push({ path: '/mapping', message: 'is left out, because the file is NDJSON' });
  if (found.format === 'auto' || (found.format === 'xlsx' && found.file_bytes === 0)) return preview;
  try {
    const records = await readSource(db, requester, found, async (source) => {
      preview.sheets = source.sheets;
      const layout = found.format === 'ndjson' ? null : await addLayout(db, customerId, { preview, found, source });
      return firstRecords(found, source, layout);
    });
    await addRecords(preview, found, records);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    preview.errors.push({ path: '', message: error.message });
  }
  return preview;
}

/**
 * Adds column names, and errors and warnings of the header line to the preview.
 * @returns how the columns are read, as far as the first records show it
 */
async function addLayout(
  db: Database,
  customerId: string,
  { preview, found, source }: { preview: DetailedPreview; found: ImportState; source: ImportSource },
): Promise<CsvLayout> {
  const file = importFileOf(found);
  const plan = await planColumns(file, source.partsFrom(0), (headers) =>
    db.transaction((sql) => keepRememberedMapping(sql, customerId, found.id, headers)),
  );
  const { layout, faults } = layoutOf(file, plan);
  preview.headers = layout.headers;
  preview.separator = found.format === 'csv' ? layout.separator : null;
  preview.mapping = byHeader(layout, (i) => mappedFieldOf(layout, i));
  preview.mapping_from = byHeader(layout, (i) => layout.origins?.[i] ?? null);
  preview.errors.push(...faults);
  if (layout.misread !== undefined) preview.warnings.push({ path: '/encoding', message: misreadText(layout.misread) });
  for (const record of plan.beginning.records) observe(file, layout, record);
  // Only the end of the file shows whether it has a footer.
  if (!plan.beginning.isWhole) delete layout.tail;
  const settled = settleSample(preview, found, layout);
  preview.columns = columnsOf(plan, layout, settled);
  preview.warnings.push(
    ...leftOut(settled).map((i) => leftOutWarning(layout.headers[i]!)),
    ...fileWarnings(settled).map((message) => ({ path: '', message })),
  );
  return settled;
}

/** The first records show what the first reading will find, as far as they go. */
function settleSample(preview: ImportPreview, found: ImportState, layout: CsvLayout): CsvLayout {
  try {
    return settleLayout(importFileOf(found), layout);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    preview.errors.push({ path: '', message: error.message });
    return settleLayout({ ...importFileOf(found), ignoreUnknown: true }, layout);
  }
}

/** Of columns with the same header, the first that is read decides. */
function byHeader<T>({ headers, columns }: CsvLayout, valueOf: (i: number) => T): Record<string, T> {
  const order = [...headers.keys()].toSorted((a, b) => Number(columns[b] === null) - Number(columns[a] === null));
  return Object.fromEntries(order.toReversed().map((i) => [headers[i]!, valueOf(i)]));
}

const columnsOf = ({ beginning }: ColumnPlan, layout: CsvLayout, settled: CsvLayout): PreviewColumn[] =>
  layout.headers.map((header, i) => ({
    header,
    samples: beginning.sample
      .flatMap((cells) => cells[i]?.text.trim() || [])
      .slice(0, shownSamples)
      .map((text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text)),
    type: settled.types?.[i] ?? null,
    isTypeGiven: layout.types?.[i] !== null,
  }));

const leftOutWarning = (header: string): Fault => ({
  path: pointerTo(['mapping', header]),
  message: `the column ${JSON.stringify(header.slice(0, 100))} is left out: it is read as no field`,
});

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
  const checked = await checkRecords(found, records);
  preview.records = records.map(({ shown }) => shown);
  for (const [i, { warnings }] of records.entries()) {
    const place = ({ path, message }: Fault): Fault => ({ path: `/records/${i}${path}`, message });
    const item = checked[i];
    if (!(item instanceof DomainError)) preview.warnings.push(...warnings.map(place));
    else preview.errors.push(...[...warnings, ...item.faults].map(place));
  }
}
