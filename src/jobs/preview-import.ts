import { countContactsUpTo } from '../queries/crm/contacts.ts';
import { listDeclared } from '../queries/records/custom-fields.ts';
import type { Requester } from '../access/credentials.ts';
import type { Database } from '../database/db.ts';
import { DomainError, type Fault } from '../errors.ts';
import { FileRefused } from '../files/encodings.ts';
import { readLines, sampledRecords, type Beginning } from '../files/header.ts';
import { layoutOf, mappedFieldOf, readHeaderOf, fileWarnings, misreadText } from '../files/layout.ts';
import type { CsvLayout } from '../files/layout.ts';
import { leftOut, observe, settleLayout } from '../files/settle-layout.ts';
import type { RawRecord } from '../files/record-formats.ts';
import type { ReadType } from '../files/values.ts';
import { readRecords, refuseWholeFile } from '../files/read-records.ts';
import { fromStored, toStored } from '../files/stored-rows.ts';
import { requireImportState, seesRecords, type ImportRef, type ImportState } from '../queries/jobs/imports.ts';
import { keepRememberedMapping } from '../queries/jobs/import-rows.ts';
import { bulkWriters } from '../queries/records/deferred-writes.ts';
import type { ImportPreview } from '../schemas/imports.ts';
import type { DeclaredField } from '../schemas/wire.ts';
import { pointerTo } from '../text/json.ts';
import { encodingOf, readSource, requireUploaded } from './start-import.ts';
import { planRecords, tryRecords, type PlannedRecord } from './write-records.ts';

const shownRecords = 5;
const shownSamples = 3;

export interface PreviewColumn {
  header: string;
  samples: string[];
  /** Type of the column's values: given, declared, or found in the first records. Null if the field needs none. */
  type: ReadType | null;
}

export interface DetailedPreview extends ImportPreview {
  columns: PreviewColumn[];
  /** Lines of the first records that name the same stored record. */
  repeatedLines: number[][];
  /** Number of the first records that were read. */
  read: number;
  /** Number of the first records that lack the value by which the import finds stored records. */
  unmatched: number;
  /** Number of these that could be created. */
  creatable: number;
  /** Number of e-mail addresses that stored contacts share with the first records, though all are created anew. */
  known: number;
  declared: readonly DeclaredField[];
}

/**
 * Returns the header line of an uploaded file, its first records and their errors.
 * @param options `isTried`: also returns what the records would change, by writing them and rolling back
 * @throws DomainError `not_found`; `conflict` if no file was uploaded yet or the import has started
 */
export async function previewImport(
  db: Database,
  requester: Requester,
  { id, visible, isTried = false, mayNote = true }: ImportRef & { isTried?: boolean; mayNote?: boolean },
): Promise<DetailedPreview> {
  const { customerId } = requester;
  const state = await db.lookup((sql) => requireImportState(sql, customerId, id, visible));
  requireUploaded(state);
  const declared = await db.lookup((sql) => listDeclared(sql, customerId, state.object));
  // As if whoever looks at it started it: see `allowNotes`.
  const found = { ...state, declared, takesNotes: mayNote };
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
    changes: [],
    repeated: 0,
    columns: [],
    repeatedLines: [],
    read: 0,
    unmatched: 0,
    creatable: 0,
    known: 0,
    declared,
  };
  if (found.format === 'ndjson' && found.mapping)
    preview.warnings.push({ path: '/mapping', message: 'is left out, because the file is NDJSON' });
  if (found.format === 'auto' || (found.format === 'xlsx' && found.file_bytes === 0)) return preview;
  let planned: PlannedRecord[] = [];
  try {
    await readSource(db, requester, found, async ({ sheets, content }) => {
      preview.sheets = sheets;
      if ('texts' in content && found.format === 'ndjson') {
        planned = await addRecords(preview, found, null, await firstOf(readLines(content.texts)));
        return;
      }
      const beginning = await readHeaderOf(found, content);
      const layout = await addLayout(db, customerId, { preview, found, beginning });
      planned = await addRecords(preview, found, layout, beginning.records);
    });
    preview.repeatedLines = findRepeated(planned);
    preview.repeated = preview.repeatedLines.length;
    const lacking = planned.filter(({ item }) => lacks(item, found.match)).map(({ record }) => record);
    const anew = await planRecords({ ...found, mode: 'create', match: null, dry_run: true }, lacking);
    preview.read = planned.length;
    preview.unmatched = lacking.length;
    preview.creatable = anew.filter(({ item }) => !(item instanceof DomainError)).length;
    if (isTried && planned.length > 0 && seesRecords(visible, found.object) && found.mode !== 'create')
      preview.changes = await findChanges(db, { ...found, customer_id: customerId }, planned);
    const emails = planned.flatMap(({ item }) => (item as { work_email?: string | null }).work_email ?? []);
    if (isTried && emails.length > 0 && seesRecords(visible, found.object) && found.mode === 'create')
      preview.known = await countContactsUpTo(db, customerId, { work_email: emails }, sampledRecords);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    preview.errors.push({ path: '', message: error.message });
  }
  return preview;
}

/**
 * Adds the columns, and errors and warnings about them, to the preview. Returns the layout according to the first
 * records.
 */
async function addLayout(
  db: Database,
  customerId: string,
  { preview, found, beginning }: { preview: DetailedPreview; found: ImportState; beginning: Beginning },
): Promise<CsvLayout> {
  const { layout, faults } = await layoutOf(found, beginning, (headers) =>
    db.transaction((sql) => keepRememberedMapping(sql, customerId, found.id, headers)),
  );
  preview.headers = layout.headers;
  preview.separator = found.format === 'csv' ? layout.separator : null;
  preview.mapping = byHeader(layout, (i) => mappedFieldOf(layout, i));
  preview.mapping_from = byHeader(layout, (i) => layout.origins?.[i] ?? null);
  preview.errors.push(...faults);
  if (layout.misread !== undefined) preview.warnings.push({ path: '/encoding', message: misreadText(layout.misread) });
  for (const record of beginning.records) if (record.fault === undefined) observe(found, layout, record);
  // Only the end of the file shows whether it has a footer.
  if (!beginning.isWhole) delete layout.tail;
  const settled = completeFromSample(preview, found, layout);
  preview.columns = columnsOf(beginning, settled);
  preview.warnings.push(
    ...leftOut(settled)
      .map((i) => leftOutWarning(layout.headers[i]!))
      .filter(({ path }) => preview.errors.every((error) => error.path !== path)),
    ...fileWarnings(settled).map((message) => ({ path: '', message })),
  );
  return settled;
}

function completeFromSample(preview: ImportPreview, found: ImportState, layout: CsvLayout): CsvLayout {
  try {
    return settleLayout(found, layout);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    preview.errors.push({ path: '', message: error.message });
    return settleLayout({ ...found, ignore_unknown: true }, layout);
  }
}

/**
 * Returns a value for each header. If several columns have the same header, the first one with a field determines the
 * value.
 */
function byHeader<T>({ headers, columns }: CsvLayout, valueOf: (i: number) => T): Record<string, T> {
  const order = [...headers.keys()].toSorted((a, b) => Number(columns[a] === null) - Number(columns[b] === null));
  return Object.fromEntries(order.toReversed().map((i) => [headers[i]!, valueOf(i)]));
}

const columnsOf = ({ records }: Beginning, layout: CsvLayout): PreviewColumn[] =>
  layout.headers.map((header, i) => ({
    header,
    samples: records
      .flatMap(({ cells }) => cells[i]?.text.trim() || [])
      .slice(0, shownSamples)
      .map((text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text)),
    type: layout.types?.[i] ?? null,
  }));

const leftOutWarning = (header: string): Fault => ({
  path: pointerTo(['mapping', header]),
  message: `the column ${JSON.stringify(header.slice(0, 100))} is left out: it is read as no field`,
});

async function firstOf(read: AsyncGenerator<RawRecord[]>): Promise<RawRecord[]> {
  const first: RawRecord[] = [];
  for await (const records of read) {
    first.push(...records);
    if (first.length >= sampledRecords) break;
  }
  return first;
}

async function addRecords(
  preview: ImportPreview,
  found: ImportState,
  layout: CsvLayout | null,
  raw: readonly RawRecord[],
): Promise<PlannedRecord[]> {
  const footerLine = layout?.footer?.[0]?.line ?? Infinity;
  const below = raw.slice(0, sampledRecords).filter(({ line }) => line < footerLine);
  for (const one of below.slice(0, shownRecords)) refuseWholeFile(found, one);
  const records = await readRecords(
    found,
    layout,
    below.map((one) => fromStored(one.line, toStored(one))),
  );
  const planned = await planRecords({ ...found, dry_run: true }, records);
  for (const [i, { item, record }] of planned.slice(0, shownRecords).entries()) {
    const place = ({ path, message }: Fault): Fault => ({ path: `/records/${i}${path}`, message });
    preview.records.push(record.shown);
    if (!(item instanceof DomainError)) preview.warnings.push(...record.warnings.map(place));
    else preview.errors.push(...[...record.warnings, ...item.faults].map(place));
  }
  return planned;
}

const lacks = (item: object, match: string | null): boolean =>
  match !== null &&
  item instanceof DomainError &&
  item.faults.some(({ path, message }) => path === `/${match}` && message === 'is missing');

const findRepeated = (planned: readonly PlannedRecord[]): number[][] =>
  [...Map.groupBy(planned, ({ match }) => match)]
    .filter(([match, some]) => match !== undefined && some.length > 1)
    .map(([, some]) => some.map(({ record }) => record.line));

const findChanges = (db: Database, settings: Parameters<typeof tryRecords>[1], planned: readonly PlannedRecord[]) =>
  bulkWriters.run({ customerId: settings.customer_id }, () =>
    db.transaction((sql) => tryRecords(sql, settings, planned)),
  );
