import { maxFaults, type Fault, DomainError, validationFailed } from '../errors.ts';
import { pointerTo, tokensOf, findUnstorableText } from '../text/json.ts';
import {
  columnLetters,
  readCell,
  type Cell,
  type FileColumn,
  fullNameColumn,
  noteColumn,
  parseCell,
} from './columns.ts';
import { countryCodes, phoneReader } from './phones.ts';
import { InvalidCell, quoted } from './read-value.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { maxBatchFaults } from '../schemas/batches.ts';
import { trimText } from '../text/fold.ts';
import * as encodings from './encodings.ts';
import { isIberian } from './header.ts';
import { recordHeader, type CsvLayout } from './layout.ts';
import { observe } from './settle-layout.ts';
import { faultTexts, type RawRecord } from './record-formats.ts';
import type { StoredRow } from './stored-rows.ts';
import { choicesBy, readValues, type ValueReader } from './values.ts';

type Json = Record<string, unknown>;

/**
 * Returns the value of a column in a record. Returns undefined for a value that exports omit (see `isNullable`,
 * `mayBeEmpty`).
 */
export function valueOf({ shown: [field, part], isNullable, mayBeEmpty }: FileColumn, record: Json): unknown {
  const whole = record[field];
  const value = part === undefined ? whole : ownMember(whole as Json, part);
  if (value === null && !isNullable) return undefined;
  return value === '' && !mayBeEmpty ? undefined : value;
}

const ownMember = (object: Json, name: string): unknown => (Object.hasOwn(object, name) ? object[name] : undefined);

export function itemOfRecord(columns: readonly FileColumn[], record: Json): Json {
  const values = columns.map((column) => [column, valueOf(column, record)] as const);
  return assemble(values.filter(([, value]) => value !== undefined));
}

/**
 * Converts the cells of a record to a request body (`item`), which is not validated yet. Returns a fault for each
 * unreadable cell, at most `maxFaults` + 1.
 */
export function itemOfCells(
  columns: readonly FileColumn[],
  cells: readonly (Cell | undefined)[],
): { item: Json; faults: Fault[] } {
  const values: [FileColumn, unknown][] = [];
  const faults: Fault[] = [];
  for (const [i, column] of columns.entries()) {
    try {
      const value = cells[i] && readCell(column.type, cells[i]);
      if (value !== undefined) values.push([column, value]);
    } catch (error) {
      if (!(error instanceof InvalidCell)) throw error;
      faults.push({ path: pointerTo(column.item.filter((token) => token !== undefined)), message: error.message });
      if (faults.length > maxFaults) break;
    }
  }
  const item = assemble(values);
  for (const field of ['company', 'company_id']) withoutNullParts(item, field);
  return { item, faults };
}

function assemble(values: (readonly [FileColumn, unknown])[]): Json {
  const item: Json = {};
  for (const [column, value] of values) {
    const [field, part] = column.item;
    if (part === undefined) item[field] = value;
    else ((item[field] ??= {}) as Json)[part] = value;
  }
  return item;
}

/**
 * Removes null values from the company in a field of the item. If all its values are null, sets the field to null,
 * which means no company.
 */
function withoutNullParts(item: Json, field: string): void {
  const company = item[field];
  if (typeof company !== 'object' || company === null) return;
  const given = Object.entries(company).filter(([, value]) => value !== null);
  item[field] = given.length > 0 ? Object.fromEntries(given) : null;
}

/**
 * Removes the value at a path. For a custom field, removes only its key. For other objects and arrays, removes the
 * whole field.
 */
export function removeValue(item: Json, [field = '', part, rest]: readonly string[]): void {
  const whole = item[field];
  const isKey = field === 'custom_fields' && part !== undefined && rest === undefined;
  if (!isKey || typeof whole !== 'object' || whole === null) return void delete item[field];
  const { [part]: _, ...others } = whole as Json;
  if (Object.keys(others).length > 0) item[field] = others;
  else delete item[field];
}

export interface FileRecord {
  /**
   * Request body that writes the record, before validation. A DomainError (`validation_failed`) if the record cannot be
   * read.
   */
  item: Record<string, unknown> | DomainError;
  shown: Record<string, unknown>;
  warnings: Fault[];
  line: number;
  note?: string;
}

export function survey(file: encodings.ImportFile, layout: CsvLayout | null, raw: RawRecord): void {
  refuseWholeFile(file, raw);
  if (layout && raw.fault === undefined && !isHeader(raw.cells, layout.headers)) observe(file, layout, raw);
  else if (layout?.tail) layout.tail.records = [];
}

export async function readRecords(
  file: encodings.ImportFile,
  layout: CsvLayout | null,
  rows: readonly StoredRow[],
): Promise<FileRecord[]> {
  const read = layout
    ? cellReader(file, layout, { codeOf: await countryCodes(), phones: await phoneReader() })
    : itemOfCell(file, 0);
  const skipsInvalid = encodings.invalidValuesOf(file) === 'skip';
  const hasNotes = layout?.columns.includes(noteColumn.name) === true;
  const records: FileRecord[] = [];
  const slice = new TimeSlice();
  for (const row of rows) {
    const record = readRecord(row, read, skipsInvalid);
    records.push(hasNotes ? withNote(record, file) : record);
    if (slice.isOver) await slice.pause();
  }
  return records;
}

/** Moves the note from the body to `note`. Drops the note if the import may not create notes. */
function withNote(record: FileRecord, { takesNotes }: encodings.ImportFile): FileRecord {
  if (record.item instanceof DomainError) return record;
  const { [noteColumn.name]: note, ...item } = record.item;
  return { ...record, item, ...(takesNotes && typeof note === 'string' && { note }) };
}

/**
 * Checks a record for faults that reject the whole file: invalid bytes and an open quote.
 * @throws FileRefused
 */
export function refuseWholeFile({ format }: encodings.ImportFile, { fault, faultLine }: RawRecord): void {
  // Of NDJSON no other encoding can be named.
  const advice = format === 'ndjson' ? 'NDJSON is UTF-8: save it in this encoding' : undefined;
  if (fault === 'invalid bytes') throw encodings.invalidBytes('utf-8', faultLine, advice);
  if (fault === 'open quote') throw new encodings.FileRefused(faultTexts[fault], faultLine);
}

/**
 * Returns true if the record must fail without this value, because its other values would mean something else. Example:
 * the currency of a price.
 */
export const isDecisive = ({ path }: Fault, item: object): boolean =>
  /^\/(?:currency|products)(?:\/|$)/.test(path) || (path === '/price' && Object.hasOwn(item, 'currency'));

interface ReadItem {
  item: Record<string, unknown>;
  faults: Fault[];
  invalid?: Fault[];
}

type ReadItemOf = (row: StoredRow) => ReadItem;

function readRecord(row: StoredRow, read: ReadItemOf, skipsInvalid: boolean): FileRecord {
  const { line, fault } = row;
  const {
    item,
    faults,
    invalid = [],
  } = fault === undefined || fault === 'too many cells' ? read(row) : recordFault(faultTexts[fault]);
  const unstorable = row.mayBeUnstorable && faults.length === 0 ? findUnstorableText(item) : [];
  const all = [...invalid, ...unstorable];
  if (!skipsInvalid || unstorable.some(({ path }) => path === '') || all.some((one) => isDecisive(one, item)))
    faults.push(...all);
  else for (const { path } of unstorable) removeValue(item, tokensOf(path));
  const warnings = skipsInvalid ? all : [];
  return { item: faults.length === 0 ? item : errorOf(faults), shown: item, warnings, line };
}

function errorOf(faults: Fault[]): DomainError {
  const error = validationFailed(faults);
  if (faults.length <= maxBatchFaults.ofItem) return error;
  // The message counts all faults.
  return new DomainError(error.code, error.message, { faults: faults.slice(0, maxBatchFaults.ofItem) });
}

const recordFault = (message: string): ReadItem => ({ item: {}, faults: [{ path: '', message }] });

function cellReader(
  file: encodings.ImportFile,
  { headers, columns: fields, types, decimalMarks }: CsvLayout,
  values: ValueReader,
): ReadItemOf {
  // An errors file of NDJSON: each record is a line of that file.
  if (fields.includes(recordHeader)) return itemOfCell(file, fields.indexOf(recordHeader));
  const places = [...fields.keys()].filter((i) => fields[i] !== null);
  const columns = places.map((i) => {
    const column = encodings.importColumn(file.object, fields[i]!)!;
    if (column === fullNameColumn) return { ...column, hasTwoFamilyNames: isIberian(headers) };
    const customType = column.type === 'custom' ? (types?.[i] ?? 'text') : column.customType;
    if (customType === undefined) return column;
    const type = file.format === 'xlsx' && customType === 'number' ? 'sheet number' : 'custom';
    // Layouts without marks are of earlier versions, which read `1.200` with a decimal point.
    const choices = encodings.declaredColumn(file, fields[i]!)?.choices ?? []; // of a built-in field, its column has them
    return {
      ...column,
      type,
      customType,
      ...(choices.length > 0 && { choices: choicesBy(choices) }),
      decimalMark: decimalMarks ? (decimalMarks[i] ?? undefined) : '.',
    } as const;
  });
  return ({ cells, line, fault }) => {
    if (fault !== undefined || cells.slice(headers.length).some(isFilled))
      return recordFault(`has more cells than the header line, which has ${headers.length}`);
    if (isHeader(cells, headers)) return recordFault('repeats the header line');
    const broken = places.flatMap((i, at) => (cells[i]?.broken ? brokenFault(columns[at]!, cells[i], i, line) : []));
    const wanted = places.map((i) => (cells[i]?.broken ? undefined : cells[i]));
    const { item: raw, faults } = itemOfCells(columns, wanted);
    const read = readValues(
      values,
      columns,
      raw,
      wanted.map((cell) => cell?.text),
    );
    return { item: read.item, faults: [], invalid: [...broken, ...faults, ...read.faults] };
  };
}

const isFilled = ({ text, broken }: Cell): boolean => broken !== undefined || trimText(text) !== '';

function brokenFault({ item }: FileColumn, { text, broken }: Cell, column: number, row: number): Fault {
  const what = broken === 'error' ? `the error ${quoted(text)}` : 'a formula without a stored value';
  const advice = broken === 'error' ? '' : ': open the file in a spreadsheet program and save it again';
  const path = pointerTo(item.filter((token) => token !== undefined));
  return { path, message: `the cell ${columnLetters(column)}${row} has ${what}${advice}` };
}

// Files that were appended to each other contain the header line again.
const isHeader = (cells: readonly Cell[], headers: readonly string[]): boolean =>
  cells.length === headers.length && cells.every(({ text }, i) => text === headers[i] || text.trim() === headers[i]);

function itemOfCell(file: encodings.ImportFile, place: number): ReadItemOf {
  const ignored = encodings.ignoredFields(file);
  return ({ cells }) => {
    const { value, fault } = parseCell(cells[place]?.text ?? '');
    if (fault !== undefined) return recordFault(fault);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return recordFault('is not a JSON object');
    const item = value as Record<string, unknown>;
    for (const name of ignored) if (Object.hasOwn(item, name)) delete item[name];
    return { item, faults: [] };
  };
}
