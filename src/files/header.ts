import type { TObject } from '@sinclair/typebox';
import type { ImportObject } from '../schemas/imports.ts';
import type { FieldTable } from '../schemas/wire.ts';
import { companyTable } from '../schemas/companies.ts';
import { contactTable } from '../schemas/contacts.ts';
import { OpportunityCreate, opportunityTable } from '../schemas/opportunities.ts';
import { ProductCreate, productTable } from '../schemas/products.ts';
import { words, wordSet, trimText } from '../text/fold.ts';
import { yieldToEventLoop } from '../process/event-loop.ts';
import type { Cell } from './columns.ts';
import usual from './headers.json' with { type: 'json' };
import { invalidBytes, FileRefused, NothingToRead } from './encodings.ts';
import { faultTexts, maxColumns, maxRecordBytes, maxSurplus, csvFormat, lineFormat } from './record-formats.ts';
import type { RawRecord, RecordFormat } from './record-formats.ts';
import { RecordScanner, scanRecords } from './record-scanner.ts';

/** Returns a unique name for each column. A repeated header gets a number, such as `Phone (2)`. */
export function columnNames(headers: readonly string[]): string[] {
  const taken = new Set(headers);
  const counts = new Map<string, number>();
  return headers.map((header) => {
    let number = (counts.get(header) ?? 0) + 1;
    while (number > 1 && taken.has(`${header} (${number})`)) number += 1;
    counts.set(header, number);
    const name = number === 1 ? header : `${header} (${number})`;
    taken.add(name);
    return name;
  });
}

export const firstColumns = (headers: readonly string[]): ReadonlyMap<string, number> =>
  new Map(headers.map((header, i) => [header, i] as const).toReversed());

/** A header such as `Name`, which means `field` only if each field of `beside` has a column, and none of `without`. */
interface OpenName {
  keys: readonly string[];
  field: string;
  beside?: readonly string[];
  without?: readonly string[];
}

export const headerKey = (header: string): string => words(header).join('');

const keysOf = (names: string): string[] => names.split('|').map(headerKey);

/** Open names of contacts. The other objects have none. */
export const openNames: readonly OpenName[] = [
  { keys: keysOf('Nombre'), field: 'first_name', beside: ['last_name'] },
  { keys: keysOf('Name|Nom'), field: 'last_name', beside: ['first_name'] },
  { keys: keysOf('Name|Nom|Nombre'), field: 'full_name', without: ['first_name', 'last_name'] },
  // Beside a job title, it is a salutation.
  { keys: keysOf('Title|Titel|Titre'), field: 'job_title' },
];

const iberian = wordSet(
  'nombre nombres apellido apellidos correo pais ciudad puesto direccion telefono movil sobrenome apelido telefone celular cidade endereco',
);

export const isIberian = (headers: readonly string[]): boolean =>
  headers.slice(0, 200).some((header) => words(header.slice(0, 200)).some((word) => iberian.has(word)));

/** Field that a header names. `rank`: 0 for the preferred header, higher for less usual ones. */
interface KnownName {
  field: string;
  rank: number;
}

/** Returns what each header means. Of several fields with the same header, the first counts. */
function knownNames(fields: readonly [field: string, headers: string][]): ReadonlyMap<string, KnownName> {
  const known = new Map<string, KnownName>();
  for (const [field, headers] of fields)
    for (const [rank, key] of keysOf(headers).entries())
      if (key !== '' && !known.has(key)) known.set(key, { field, rank });
  return known;
}

// Files that this service has exported for people have its own titles.
/**
 * @param headers names of each field's column in other programs' files, separated by `|`. Case, accents, white space and
 *   punctuation do not matter. If a file has several of the columns, the first name counts
 */
const usualNames = (table: FieldTable, headers: Readonly<Record<string, string>>): ReadonlyMap<string, KnownName> =>
  knownNames(Object.entries(headers).map(([field, names]) => [field, [field, names, table[field]!.label].join('|')]));

const byNameAndLabel = (table: FieldTable, { properties }: TObject): ReadonlyMap<string, KnownName> =>
  knownNames(Object.keys(properties).flatMap((name) => (table[name] ? [[name, `${name}|${table[name].label}`]] : [])));

export const namesOfFields: Record<ImportObject, ReadonlyMap<string, KnownName>> = {
  contacts: usualNames(contactTable, usual.contacts),
  companies: usualNames(companyTable, usual.companies),
  products: byNameAndLabel(productTable, ProductCreate),
  opportunities: new Map([
    ...byNameAndLabel(opportunityTable, OpportunityCreate),
    ...knownNames([
      ['pipeline', 'Pipeline'],
      ['stage', 'Stage|Phase|Deal stage'],
      ['user.email', 'user.email|Owner|Deal owner|Assigned to'],
    ]),
  ]),
};

const separators = [',', ';', '\t', '|'] as const;
type Separator = (typeof separators)[number];

export interface CsvHeader {
  /** Separator of the file's cells. For XLSX, the separator of its errors file (CSV). */
  separator: Separator;
  headers: string[];
}

export interface Beginning extends CsvHeader {
  line: number;
  /**
   * First records below the header, at most `sampledRecords`. If `isWhole` is true, they are all records of the file.
   */
  records: readonly RawRecord[];
  isWhole: boolean;
  /** Yields all records below the header, including `records`. Must be called only once. */
  readOn(): AsyncGenerator<RawRecord[]>;
}

export type Content = { texts: AsyncGenerator<string> } | { rows: AsyncGenerator<RawRecord[]> };

export const sampledRecords = 200;

const maxNotes = 10;

const comparedRecords = 20;

type IsNote = (cell: string) => boolean;

/**
 * Reads the header line and the first records. Skips blank lines, notes, and a first line such as `sep=;`.
 * @param hasHeader false: the first line is a record, and columns are named `Column 1`, `Column 2` …
 * @throws FileRefused if the header is missing, too long or not valid CSV
 */
export function readHeader(content: Content, hasHeader: boolean, isNote: IsNote): Promise<Beginning> {
  const isSkipped = hasHeader ? isNote : () => false;
  return 'rows' in content
    ? headerOfRows(content.rows, hasHeader, isSkipped)
    : headerOfText(content.texts, hasHeader, isSkipped);
}

export const readLines = (texts: AsyncGenerator<string>): AsyncGenerator<RawRecord[]> => scanRecords(texts, lineFormat);

async function headerOfText(texts: AsyncGenerator<string>, hasHeader: boolean, isNote: IsNote): Promise<Beginning> {
  const text = await readText(texts);
  const other = otherFormats.find(([start]) => start.test(text.text));
  if (other) throw new FileRefused('is not CSV', undefined, other[1]);
  if (text.text.trim() === '') throw new FileRefused('has no header line');
  const { format, from, ...best } = bestOf(candidatesOf(text, isNote));
  requireReadable(best.header);
  await yieldToEventLoop();
  return beginningOf(best, hasHeader, {
    first: recordsOf(text, format, from, mostFirst),
    isWhole: text.isWholeFile,
    readOn: (headers) => {
      const own = csvFormat(best.separator, headers.length + maxSurplus);
      return scanRecords(followed(text.blocks, from.index, texts), own, from.line);
    },
  });
}

async function headerOfRows(rows: AsyncGenerator<RawRecord[]>, hasHeader: boolean, isNote: IsNote): Promise<Beginning> {
  const first: RawRecord[] = [];
  let isWhole = false;
  while (first.length < mostFirst && !isWhole) {
    const { value, done } = await rows.next();
    if (done) isWhole = true;
    else first.push(...value);
  }
  if (first.length === 0) throw new NothingToRead();
  const header = headerIn(first.slice(0, maxNotes + 1), isNote);
  requireReadable(header);
  return beginningOf({ separator: ',', header }, hasHeader, {
    first,
    isWhole,
    async *readOn() {
      yield first;
      yield* rows;
    },
  });
}

function requireReadable({ cells, cellCount, line, fault, faultLine }: RawRecord): void {
  if (fault === 'invalid bytes') throw invalidBytes('utf-8', faultLine);
  if (fault !== undefined) throw new FileRefused(`has a header line that ${faultTexts[fault]}`, line);
  if (cellCount > maxColumns) throw new FileRefused(`has more than ${maxColumns} columns`, line);
  if (cells.some(({ text: name }) => name.includes('\0')))
    throw new FileRefused('has a NUL character in a header', line);
  // XLSX can write one as an escape sequence.
  if (cells.some(({ text: name }) => !name.isWellFormed()))
    throw new FileRefused('has a half of a character (a lone surrogate) in a header', line);
}

const mostFirst = maxNotes + 1 + sampledRecords;

interface FirstRecords {
  first: readonly RawRecord[];
  isWhole: boolean;
  readOn(headers: readonly string[]): AsyncGenerator<RawRecord[]>;
}

function beginningOf(
  { separator, header: { cells, line } }: Pick<Candidate, 'separator' | 'header'>,
  hasHeader: boolean,
  { first, isWhole, readOn }: FirstRecords,
): Beginning {
  const isNamed = hasHeader || cells[0]?.text === columnName(0);
  const isBelow = (record: RawRecord): boolean => !isNamed || record.line > line;
  const records = first.filter(isBelow).slice(0, sampledRecords);
  const width = Math.min(maxColumns, Math.max(...records.map((record) => record.cells.length), 1));
  const headers = isNamed ? cells.map(headerOf) : Array.from({ length: width }, (_, i) => columnName(i));
  return {
    separator,
    headers,
    line,
    records,
    isWhole: isWhole && first.length < mostFirst,
    async *readOn() {
      for await (const some of readOn(headers)) yield some.filter(isBelow);
    },
  };
}

async function* followed(
  blocks: readonly string[],
  skipped: number,
  rest: AsyncIterable<string>,
): AsyncGenerator<string> {
  for (const [i, block] of blocks.entries()) yield i === 0 ? block.slice(skipped) : block;
  yield* rest;
}

const columnName = (i: number): string => `Column ${i + 1}`;

const otherFormats: readonly (readonly [start: RegExp, advice: string])[] = [
  [/^PK\p{Cc}\p{Cc}/u, 'it is a ZIP file: for an Excel file, say `format` xlsx or leave it out'],
  [/^\xd0\xcf\p{Cc}\xe0/u, 'it is an old Excel file, or one with a password: save it as XLSX without a password'],
  [
    /^\s*<(?:!doctype|html|head|body|table|\?xml)[\s>]/i,
    'it is a page of HTML or XML, as some programs write for Excel: open it in a spreadsheet program and save it as XLSX',
  ],
  [/^\s*\[\s*(?:\{|\])/, 'it is a JSON array: write one object on each line (NDJSON)'],
  [/^%PDF-/, 'it is a PDF: export the records as CSV or XLSX'],
  [/^.PNG\r|^GIF8\da|^.{0,40}\0\0/s, 'it is a picture or another file without text: export the records as CSV or XLSX'],
];

interface FirstText {
  blocks: readonly string[];
  text: string;
  isWholeFile: boolean;
}

/** Reads the start of a file: at least as much as the longest allowed record. */
async function readText(texts: AsyncGenerator<string>): Promise<FirstText> {
  const blocks: string[] = [];
  let isWholeFile = false;
  for (let length = 0; length <= maxRecordBytes && !isWholeFile;) {
    const { value, done } = await texts.next();
    if (done) isWholeFile = true;
    else {
      blocks.push(value);
      length += value.length;
    }
  }
  return { blocks, text: blocks.join(''), isWholeFile };
}

interface Candidate {
  separator: Separator;
  format: RecordFormat;
  header: RawRecord;
  records: readonly RawRecord[];
  from: TextStart;
}

interface TextStart {
  index: number;
  line: number;
}

const fileStart: TextStart = { index: 0, line: 1 };

const separatorLine = /^\ufeff?sep=([,;\t|])\r?\n/i;

function candidatesOf(text: FirstText, isNote: IsNote): Candidate[] {
  const candidate = (separator: Separator, records: RecordFormat, from = fileStart): Candidate => {
    const first = recordsOf(text, records, from, maxNotes + 1 + comparedRecords);
    const header = headerIn(first.slice(0, maxNotes + 1), isNote);
    return { separator, format: records, header, records: first.slice(first.indexOf(header) + 1), from };
  };
  const [line, named] = separatorLine.exec(text.text) ?? [];
  if (line !== undefined) {
    return [candidate(named as Separator, csvFormat(named!, maxColumns), { index: line.length, line: 2 })];
  }
  return separators.map((separator) => candidate(separator, csvFormat(separator, maxColumns)));
}

function recordsOf({ text, isWholeFile }: FirstText, format: RecordFormat, from: TextStart, most: number): RawRecord[] {
  const scanner = new RecordScanner(format, from.line);
  const records: RawRecord[] = [];
  for (const record of scanner.scan(text.slice(from.index))) if (records.push(record) === most) return records;
  if (isWholeFile) for (const record of scanner.end()) if (records.push(record) === most) return records;
  return records;
}

const filledCells = ({ cells }: RawRecord): string[] => cells.flatMap(({ text }) => trimText(text) || []);

/** Returns the header: the first record, or if that is a note, the first record with at least two filled cells. */
function headerIn(records: readonly RawRecord[], isNote: IsNote): RawRecord {
  const [first = tooLong] = records;
  const [cell, second] = filledCells(first);
  if (cell === undefined || second !== undefined || first.fault !== undefined || !isNote(cell)) return first;
  return records.find((record) => record.fault === undefined && filledCells(record).length > 1) ?? first;
}

const tooLong: RawRecord = {
  cells: [],
  cellCount: 0,
  line: 1,
  nextLine: 1,
  endsWithCr: false,
  fault: 'too long',
  faultLine: 1,
};

/**
 * Returns the candidate (a way to split the file at one separator) whose records fit its header best. If none fits,
 * returns the one with the most cells.
 */
const bestOf = (candidates: Candidate[]): Candidate =>
  candidates.toSorted((a, b) => fittingCells(b) - fittingCells(a) || cellsOf(b) - cellsOf(a))[0]!;

const cellsOf = ({ header }: Candidate): number => (header.fault === undefined ? header.cellCount : 0);

/**
 * Returns a score for a separator: the share of records with as many cells as the header, times the number of
 * separators in the header.
 */
function fittingCells({ header, records }: Candidate): number {
  if (header.fault !== undefined || records.length === 0) return 0;
  const fitting = records.filter(({ cellCount, fault }) => fault === undefined && cellCount === header.cellCount);
  return (fitting.length / records.length) * (header.cellCount - 1);
}

const headerOf = ({ text, isQuoted }: Cell): string => (isQuoted ? text : trimText(text));
