import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { stringify } from 'csv-stringify/sync';
import { type FileColumn, writeCell, type Cell, columnLetters, columnsOf, type LabelledKey } from './columns.ts';
import { phoneText } from './phones.ts';
import type { PhoneNumber } from '../text/fold.ts';
import { valueOf, itemOfRecord } from './read-records.ts';
import { formulaText } from './record-formats.ts';
import { defaultFields, maxReadableKeys, maxXlsxRecords } from '../schemas/files.ts';
import type { ExportFormat, FileFormat, FileFields, GivenFields } from '../schemas/files.ts';
import { validationFailed } from '../errors.ts';

/*
 * An XLSX file (ECMA-376, Office Open XML) with one sheet: a ZIP archive of a few XML parts. Only the part with the rows
 * is large. It is written and compressed while the records are read.
 */

// Few, because records can be large.
const pieceRows = 50;

type OnPage = (page: object[]) => void;

/**
 * Yields an XLSX file in pieces. Reads the next page only when the caller asks for more.
 * @param title name of the sheet: at most 31 characters
 * @param onPage called after the rows of each page were written
 */
export async function* xlsxBytes(
  columns: readonly FileColumn[],
  title: string,
  pages: AsyncIterable<object[]>,
  onPage?: OnPage,
): AsyncGenerator<Buffer> {
  const zip = new ZipFile();
  const file = zip.outputStream as Readable;
  // The library passes no errors on: a file that cannot be completed must end with the error.
  const rows = Readable.from(sheetText(columns, pages, onPage), { objectMode: false, highWaterMark: pieceBytes });
  rows.once('error', (error) => file.destroy(error));
  zip.once('error', (error: Error) => file.destroy(error));
  for (const [path, text] of Object.entries(partsOf(title))) zip.addBuffer(Buffer.from(text), path, { mtime });
  zip.addReadStream(rows, 'xl/worksheets/sheet1.xml', { mtime, compressionLevel });
  zip.end();
  try {
    for await (const bytes of file) yield bytes as Buffer;
  } finally {
    rows.destroy();
  }
}

const pieceBytes = 64 * 1024;

// Level 1 is twice as fast as the usual level 6, and gives files a fifth larger.
const compressionLevel = 1;

// Modification time of the parts. It is fixed, so that equal records give equal files; ZIP allows no earlier time.
const mtime = new Date(1980, 0, 1);

async function* sheetText(
  columns: readonly FileColumn[],
  pages: AsyncIterable<object[]>,
  onPage?: OnPage,
): AsyncGenerator<string> {
  const letters = columns.map((_, i) => columnLetters(i));
  const cells = (values: readonly Value[], row: number, textStyle?: number): string =>
    `<row r="${row}">${values.map((value, i) => cell(`${letters[i]}${row}`, value, textStyle)).join('')}</row>`;
  const headers = columns.map(({ header }) => header);
  yield sheetStart(columns) + cells(headers, 1, style.header);
  let row = 1;
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += pieceRows) {
      const records = page.slice(at, at + pieceRows) as Record<string, unknown>[];
      yield records.map((record) => cells(shownValues(columns, record), (row += 1))).join('');
    }
    onPage?.(page);
  }
  yield '</sheetData></worksheet>';
}

type Value = string | number | boolean | Date | undefined;

const shownValues = (columns: readonly FileColumn[], record: Record<string, unknown>): Value[] =>
  columns.map((column) => shownValue(column, record));

function shownValue(column: FileColumn, record: Record<string, unknown>): Value {
  const value = valueOf(column, record);
  if (value === undefined || value === null || value === '') return undefined;
  switch (column.type) {
    case 'instant':
      return new Date(value as string);
    case 'texts':
      return (value as string[]).join('; ');
    case 'phones':
      return (value as PhoneNumber[]).map(phoneText).join('; ');
    case 'json':
      return JSON.stringify(value);
    default:
      return value as string | number | boolean;
  }
}

function cell(reference: string, value: Value, textStyle: number = style.text): string {
  switch (typeof value) {
    case 'string':
      return value === ''
        ? ''
        : `<c r="${reference}" s="${textStyle}" t="inlineStr"><is><t xml:space="preserve">${xmlText(value)}</t></is></c>`;
    case 'number':
      return `<c r="${reference}"><v>${value}</v></c>`;
    case 'boolean':
      return `<c r="${reference}" t="b"><v>${Number(value)}</v></c>`;
    default:
      return value === undefined ? '' : `<c r="${reference}" s="${style.instant}"><v>${dayNumber(value)}</v></c>`;
  }
}

/** Returns a time as spreadsheets store it: days since 30 December 1899, in UTC. */
const dayNumber = (time: Date): number => time.getTime() / 86_400_000 + 25_569;

/** Maximum length of a cell's text (UTF-16 code units). Excel cannot open a file with a longer text. */
export const longestCell = 32_767;

/**
 * Matches characters that XML cannot contain or that must be escaped. Also matches the `_` of a text such as `_x0041_`,
 * which Excel would show as `A`.
 */
const special = /[&<>\ufffe\uffff]|(?![\t\n])\p{Cc}|_(?=x[0-9a-fA-F]{4}_)/gu;

function xmlText(text: string): string {
  const whole = text.length > longestCell ? `${text.slice(0, longestCell - 1)}…` : text;
  return whole.toWellFormed().replace(special, (character) => escapes[character] ?? codeOf(character));
}

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '\r': '&#13;' };

const codeOf = (character: string): string =>
  `_x${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}_`;

const style = { header: 1, text: 2, instant: 3 } as const;

const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
const sheetNames = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';
const relationNames = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const packageNames = 'http://schemas.openxmlformats.org/package/2006';
const documentType = 'application/vnd.openxmlformats-officedocument.spreadsheetml';

const sheetStart = (columns: readonly FileColumn[]): string =>
  `${declaration}<worksheet xmlns="${sheetNames}"><sheetViews><sheetView workbookViewId="0">` +
  '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>' +
  `<cols><col min="1" max="${columns.length}" width="20" customWidth="1"/></cols><sheetData>`;

const partsOf = (title: string): Record<string, string> => ({
  '[Content_Types].xml':
    `${declaration}<Types xmlns="${packageNames}/content-types">` +
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
    '<Default Extension="xml" ContentType="application/xml"/>' +
    `<Override PartName="/xl/workbook.xml" ContentType="${documentType}.sheet.main+xml"/>` +
    `<Override PartName="/xl/styles.xml" ContentType="${documentType}.styles+xml"/>` +
    `<Override PartName="/xl/worksheets/sheet1.xml" ContentType="${documentType}.worksheet+xml"/></Types>`,
  '_rels/.rels': relations({ rId1: ['officeDocument', 'xl/workbook.xml'] }),
  'xl/workbook.xml':
    `${declaration}<workbook xmlns="${sheetNames}" xmlns:r="${relationNames}"><bookViews><workbookView/></bookViews>` +
    `<sheets><sheet name="${xmlText(title)}" sheetId="1" r:id="rId1"/></sheets></workbook>`,
  'xl/_rels/workbook.xml.rels': relations({
    rId1: ['worksheet', 'worksheets/sheet1.xml'],
    rId2: ['styles', 'styles.xml'],
  }),
  'xl/styles.xml': styles,
});

const relations = (targets: Record<string, [type: string, path: string]>): string =>
  `${declaration}<Relationships xmlns="${packageNames}/relationships">${Object.entries(targets)
    .map(([id, [type, path]]) => `<Relationship Id="${id}" Type="${relationNames}/${type}" Target="${path}"/>`)
    .join('')}</Relationships>`;

/**
 * Cell styles in this order: default, bold header, text, time. In the text style (built-in format 49), edited cells
 * stay text.
 */
const styles =
  `${declaration}<styleSheet xmlns="${sheetNames}">` +
  String.raw`<numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd\ hh:mm:ss"/></numFmts>` +
  '<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts>' +
  '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>' +
  '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>' +
  '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>' +
  '<cellXfs count="4"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>' +
  '<xf numFmtId="49" fontId="1" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyFont="1"/>' +
  '<xf numFmtId="49" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>' +
  '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs>' +
  '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>';

interface RecordWriter {
  readonly head: string;
  write(records: readonly object[]): string;
}

export const recordWriter = (format: FileFormat, columns: readonly FileColumn[], isForPeople = false): RecordWriter =>
  format === 'csv' ? csvWriter(columns, isForPeople) : ndjsonWriter(columns);

async function* fileText(
  writer: RecordWriter,
  pages: AsyncIterable<object[]>,
  onPage?: OnPage,
): AsyncGenerator<string> {
  if (writer.head !== '') yield writer.head;
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += pieceRows) yield writer.write(page.slice(at, at + pieceRows));
    onPage?.(page);
  }
}

const ndjsonWriter = (columns: readonly FileColumn[]): RecordWriter => ({
  head: '',
  write: (records) =>
    records.map((record) => `${JSON.stringify(itemOfRecord(columns, record as Record<string, unknown>))}\n`).join(''),
});

function csvWriter(columns: readonly FileColumn[], isForPeople: boolean): RecordWriter {
  const head = csvHeader(columns.map(({ header }) => header));
  const cells = isForPeople ? shownRow : rowOf;
  return {
    head: isForPeople ? `${byteOrderMark}${head}` : head,
    write: (records) =>
      csvLines(
        records.map((record) => cells(columns, record as Record<string, unknown>)),
        columns.length,
      ),
  };
}

const byteOrderMark = '\ufeff';

export const csvHeader = (names: readonly string[], separator = ','): string =>
  csvLines(
    [names.map((name) => (mustBeQuoted.test(name) ? { text: name, isQuoted: true } : name))],
    names.length,
    separator,
  );

const mustBeQuoted = /[,;\t|]|^\s|\s$/;

export const csvLines = (rows: (string | Cell)[][], width: number, separator = ','): string =>
  stringify(rows, {
    delimiter: separator,
    record_delimiter: 'windows',
    // Many readers take a single LF or CR as the end of a record, too.
    quote_record_delimiter: true,
    cast: { string: asFormula, object: ({ text }) => ({ value: asFormula(text as string), quoted: true }) },
    // Of one empty cell alone, the line would be blank, and readers skip blank lines.
    quoted_empty: width === 1,
    quoted_match: width === 1 ? /^\s+$/ : null,
  });

/** Returns a text such as `="x"` inside a formula, because imports read such a cell as the text `x`. */
const asFormula = (text: string): string => (formulaText(text) ? `="${text.replaceAll('"', '""')}"` : text);

const rowOf = (columns: readonly FileColumn[], record: Record<string, unknown>): (string | Cell)[] =>
  columns.map((column) => {
    const cell = writeCell(column.type, valueOf(column, record));
    return cell.isQuoted ? cell : cell.text;
  });

const shownRow = (columns: readonly FileColumn[], record: Record<string, unknown>): string[] =>
  shownValues(columns, record).map((value) =>
    value instanceof Date ? value.toISOString().slice(0, 19).replace('T', ' ') : String(value ?? ''),
  );

/** Records that an export selects. Each function queries them again. */
export interface ExportedRecords {
  fields: FileFields;
  title: string;
  /**
   * Starts to read all records, page by page.
   * @param isForPeople true: records also contain the names of related records, such as `list_names` of contacts
   */
  read: (isForPeople: boolean) => Promise<AsyncGenerator<object[]>>;
  count: () => Promise<number>;
  /**
   * Returns the custom fields of the records, sorted by key.
   * @param most maximum number of fields to return
   */
  readKeys: (most: number) => Promise<LabelledKey[]>;
}

export interface ExportRequest {
  format: ExportFormat;
  fields?: GivenFields | undefined;
  /** True: the CSV file is for people with Excel. It has the titles and values that an XLSX file would have. */
  isForPeople?: boolean;
}

/**
 * Starts an export, and returns its file in pieces.
 * @param onPage called after each page of records was written
 * @throws DomainError `validation_failed` if the format cannot hold these fields or so many records
 */
export async function openExport(
  records: ExportedRecords,
  { format, fields: selected = defaultFields(format), isForPeople = false }: ExportRequest,
  onPage?: OnPage,
): Promise<AsyncGenerator<string | Buffer>> {
  const { fields, title } = records;
  const isReadable = selected === 'readable';
  if (isReadable && format === 'ndjson') throw fault('/fields', '"readable" is for csv and xlsx only');
  if (format === 'xlsx') await requireFew(records);
  const hasTitles = isReadable && (isForPeople || format === 'xlsx');
  const columns = columnsOf(fields, selected, format, isReadable ? await readKeys(records) : [], hasTitles);
  const pages = await records.read(isReadable);
  return format === 'xlsx'
    ? xlsxBytes(columns, title, pages, onPage)
    : fileText(recordWriter(format, columns, isForPeople), pages, onPage);
}

async function requireFew({ count }: ExportedRecords): Promise<void> {
  const total = await count();
  if (total <= maxXlsxRecords) return;
  const [most, found] = [maxXlsxRecords, total].map((number) => number.toLocaleString('en'));
  throw fault('/format', `xlsx holds at most ${most} records, and ${found} match: narrow the filters, or use csv`);
}

async function readKeys({ readKeys }: ExportedRecords): Promise<LabelledKey[]> {
  const keys = await readKeys(maxReadableKeys + 1);
  if (keys.length <= maxReadableKeys) return keys;
  const most = maxReadableKeys.toLocaleString('en');
  throw fault(
    '/fields',
    `"readable" has a column for each custom field, and there are more than ${most}: name the fields`,
  );
}

const fault = (path: string, message: string) => validationFailed([{ path, message }]);
