import type { Fault } from '../errors.ts';
import { pointerTo } from '../text/json-pointer.ts';
import type { Cell } from './cells.ts';
import { invalidBytes } from './encodings.ts';
import { FileRefused } from './file-refused.ts';
import { ignoredFields, importColumn, matchOf, type ImportFile } from './import-file.ts';
import { faultTexts, maxRecordBytes, type FilePosition, type RawRecord } from './raw-records.ts';
import { csvFormat, rowFormat, type RecordFormat } from './record-formats.ts';
import { RecordScanner } from './record-scanner.ts';
import { textBlocks } from './text-blocks.ts';

/** Detected from the header line. */
const separators = [',', ';', '\t', '|'] as const;
type Separator = (typeof separators)[number];

export interface CsvHeader {
  /** Of the errors file, for XLSX. */
  separator: Separator;
  headers: string[];
  /** Of the first record. */
  start: FilePosition;
}

export interface CsvLayout extends CsvHeader {
  /** By column, such as `company.name`; null if it is left out. */
  columns: (string | null)[];
}

const maxColumns = 10_000;

/**
 * Returns null for an NDJSON file, which has no header line.
 * @throws FileRefused if there is no header line, or if the columns cannot be mapped to fields
 */
export async function readLayout(file: ImportFile, chunks: AsyncIterable<Buffer>): Promise<CsvLayout | null> {
  if (file.format === 'ndjson' || file.format === 'auto') return null;
  const header = await readHeader(file.format, chunks);
  const { columns, faults } = mapColumns(file, header.headers);
  if (faults.length > 0) throw new FileRefused(`cannot be imported: ${summary(faults)}`);
  return { ...header, columns };
}

const maxSummarised = 10;

function summary(faults: Fault[]): string {
  const messages = faults.slice(0, maxSummarised).map(({ message }) => message);
  const others = faults.length - messages.length;
  return others > 0 ? `${messages.join('; ')}; and ${others} more` : messages.join('; ');
}

/**
 * Reads the first line that is not blank.
 * @param chunks of the file from its start (of XLSX its rows); only about the first MiB is read
 * @throws FileRefused if there is no such line, or if it is too long or not valid CSV
 */
export async function readHeader(format: ImportFile['format'], chunks: AsyncIterable<Buffer>): Promise<CsvHeader> {
  const beginning = await readBeginning(chunks);
  const other = otherFormats.find(([start]) => beginning.text.startsWith(start));
  if (other) throw new FileRefused('is not CSV', undefined, other[1]);
  if (beginning.text.trim() === '') throw new FileRefused('has no header line');
  const { separator, record } = bestOf(
    format === 'xlsx'
      ? [readFirst(beginning, ',', rowFormat)]
      : separators.map((separator) => readFirst(beginning, separator, csvFormat(separator, maxColumns))),
  );
  const { cells, cellCount, line, next, fault } = record;
  if (fault === 'invalid bytes') throw invalidBytes('utf-8', record.faultLine);
  if (fault !== undefined) throw new FileRefused(`has a header line that ${faultTexts[fault]}`, line);
  if (cellCount > maxColumns) throw new FileRefused(`has more than ${maxColumns} columns`, line);
  if (cells.some(({ text }) => text.includes('\0'))) throw new FileRefused('has a NUL character in a header', line);
  return { separator, headers: cells.map(headerOf), start: next };
}

/** The first bytes of other files, read as text. */
const otherFormats: readonly (readonly [start: string, advice: string])[] = [
  ['PK\x03\x04', 'it is a ZIP file: for an Excel file, say `format` xlsx or leave it out'],
  ['\xd0\xcf\x11\xe0', 'it is an old Excel file, or one with a password: save it as XLSX without a password'],
];

interface Beginning {
  text: string;
  isWholeFile: boolean;
}

/** Reads about as many bytes as the longest allowed record. */
async function readBeginning(chunks: AsyncIterable<Buffer>): Promise<Beginning> {
  let text = '';
  for await (const block of textBlocks(chunks)) {
    text += block;
    if (text.length > maxRecordBytes) return { text, isWholeFile: false };
  }
  return { text, isWholeFile: true };
}

/** Parsed with one of the possible separators. */
interface FirstRecord {
  separator: Separator;
  record: RawRecord;
}

function readFirst({ text, isWholeFile }: Beginning, separator: Separator, format: RecordFormat): FirstRecord {
  const scanner = new RecordScanner(format, fileStart);
  for (const record of scanner.scan(text)) return { separator, record };
  if (isWholeFile) for (const record of scanner.end()) return { separator, record };
  return { separator, record: tooLong };
}

const fileStart: FilePosition = { bytes: 0, line: 1 };
const tooLong: RawRecord = {
  cells: [],
  cellCount: 0,
  line: 1,
  next: fileStart,
  endsWithCr: false,
  fault: 'too long',
  faultLine: 1,
};

/** Returns the first record with the most cells, a faulty one only if all are. */
const bestOf = (records: FirstRecord[]): FirstRecord => records.toSorted((a, b) => rank(b) - rank(a))[0]!;

const rank = ({ record }: FirstRecord): number => (record.fault === undefined ? record.cellCount : 0);

/** Trims an unquoted header. */
const headerOf = ({ text, isQuoted }: Cell): string => (isQuoted ? text : text.trim());

/**
 * @returns `columns`: the field of each, or null if it is ignored; `faults`: e.g. an unknown field, two columns for the
 * same field, or none for the field that identifies the records
 */
export function mapColumns(file: ImportFile, headers: string[]): { columns: (string | null)[]; faults: Fault[] } {
  const ignored = ignoredFields(file);
  const given = new Map(Object.entries(file.mapping ?? {}));
  const named = headers.map((header) => (given.has(header) ? given.get(header)! : header));
  const unknown = named.map((name) => name !== null && importColumn(file.object, name) === undefined);
  const columns = named.map((name, i) => (name === null || unknown[i] || ignored.has(name) ? null : name));
  return {
    columns,
    faults: [
      ...(file.ignoreUnknown ? [] : headers.filter((_, i) => unknown[i]).map(unknownHeader)),
      ...clashes(headers, columns),
      ...missingMatch(file, columns),
    ],
  };
}

const unknownHeader = (header: string): Fault => faultOf(header, `${quoted(header)} is not the name of a field`);

/**
 * Returns a fault for each two columns with the same field, or with a field (`company`) and a part of it
 * (`company.id`).
 */
function clashes(headers: string[], columns: (string | null)[]): Fault[] {
  const first = new Map<string, number>();
  const faults: Fault[] = [];
  for (const [i, field] of columns.entries()) {
    if (field === null) continue;
    const other = first.get(field);
    if (other === undefined) first.set(field, i);
    else faults.push(clash(headers[other]!, headers[i]!, field));
  }
  for (const [field, i] of first) {
    const whole = field.slice(0, field.indexOf('.'));
    const other = field.includes('.') ? first.get(whole) : undefined;
    if (other !== undefined) faults.push(clash(headers[other]!, headers[i]!, whole));
  }
  return faults;
}

const clash = (first: string, second: string, field: string): Fault =>
  faultOf(second, `the columns ${quoted(first)} and ${quoted(second)} are both for the field ${quoted(field)}`);

function missingMatch(file: ImportFile, columns: (string | null)[]): Fault[] {
  const match = matchOf(file);
  if (match === undefined || columns.includes(match)) return [];
  return [{ path: '', message: `no column is for the field ${quoted(match)}, which identifies the records` }];
}

const faultOf = (header: string, message: string): Fault => ({ path: pointerTo(['mapping', header]), message });

const maxQuoted = 100;

const quoted = (name: string): string =>
  JSON.stringify(name.length > maxQuoted ? `${name.slice(0, maxQuoted - 1).toWellFormed()}…` : name);
