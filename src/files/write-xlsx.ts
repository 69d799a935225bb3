import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import type { FileColumn } from './columns.ts';
import { valueOf } from './records.ts';

/*
 * An XLSX file (ECMA-376, Office Open XML) with one sheet: a ZIP archive of a few XML parts. Only the part with the rows
 * is large. It is written and compressed while the records are read.
 */

/** Rows of a piece of the sheet's text. So a piece is small even if every record is large. */
const pieceRows = 50;

/**
 * Yields an XLSX file in pieces. It reads on only when its caller does.
 * @param title name of the sheet: at most 31 characters
 * @param onPage called after the rows of each page were written
 */
export async function* xlsxBytes(
  columns: readonly FileColumn[],
  title: string,
  pages: AsyncIterable<object[]>,
  onPage?: (page: object[]) => void,
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

/** Maximum size of what waits to be compressed. */
const pieceBytes = 64 * 1024;

/** Level 1 is twice as fast as the usual 6, for files that are a fifth larger. */
const compressionLevel = 1;

/** Time of the parts: the earliest that a ZIP archive can express, so that equal records give equal files. */
const mtime = new Date(1980, 0, 1);

/** Yields the XML of the sheet. */
async function* sheetText(
  columns: readonly FileColumn[],
  pages: AsyncIterable<object[]>,
  onPage?: (page: object[]) => void,
): AsyncGenerator<string> {
  const letters = columns.map((_, i) => columnLetters(i));
  const cells = (values: readonly Value[], row: number, textStyle?: number): string =>
    `<row r="${row}">${values.map((value, i) => cell(`${letters[i]}${row}`, value, textStyle)).join('')}</row>`;
  yield (
    sheetStart(columns) +
    cells(
      columns.map(({ header }) => header),
      1,
      style.header,
    )
  );
  let row = 1;
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += pieceRows) {
      const records = page.slice(at, at + pieceRows) as Record<string, unknown>[];
      yield records
        .map((record) =>
          cells(
            columns.map((column) => shownValue(column, record)),
            (row += 1),
          ),
        )
        .join('');
    }
    onPage?.(page);
  }
  yield '</sheetData></worksheet>';
}

/** Undefined: the cell is empty. */
type Value = string | number | boolean | Date | undefined;

interface PhoneNumber {
  country_code: string;
  number: string;
}

/** Returns a value as people read it. */
function shownValue(column: FileColumn, record: Record<string, unknown>): Value {
  const value = valueOf(column, record);
  if (value === undefined || value === null || value === '') return undefined;
  switch (column.type) {
    case 'instant':
      return new Date(value as string);
    case 'texts':
      return (value as string[]).join('; ');
    case 'phones':
      return (value as PhoneNumber[]).map(({ country_code, number }) => `${country_code} ${number}`.trim()).join('; ');
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

/** Number of days since 30 December 1899, in UTC: so spreadsheets count days after February 1900. */
const dayNumber = (time: Date): number => time.getTime() / 86_400_000 + 25_569;

/** Longest text of a cell (UTF-16 code units). Excel does not open a file with a longer one. */
export const longestCell = 32_767;

/** Characters that XML cannot contain, or not without being changed. `_x0041_` in a text would be read as `A`. */
const special = /[&<>\ufffe\uffff]|(?![\t\n])\p{Cc}|_(?=x[0-9a-fA-F]{4}_)/gu;

/** Returns a text as XML. A text that is too long for a cell is cut, and ends with `…`. */
export function xmlText(text: string): string {
  const whole = text.length > longestCell ? `${text.slice(0, longestCell - 1)}…` : text;
  return whole.toWellFormed().replace(special, (character) => escapes[character] ?? codeOf(character));
}

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '\r': '&#13;' };

const codeOf = (character: string): string =>
  `_x${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}_`;

/** Returns the name of a column: A to Z, AA, AB, … */
export const columnLetters = (index: number): string =>
  (index < 26 ? '' : columnLetters(Math.floor(index / 26) - 1)) + String.fromCharCode(65 + (index % 26));

/** Indexes in `cellXfs` of the part `styles.xml`. */
const style = { header: 1, text: 2, instant: 3 } as const;

const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
const sheetNames = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';
const relationNames = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const packageNames = 'http://schemas.openxmlformats.org/package/2006';
const documentType = 'application/vnd.openxmlformats-officedocument.spreadsheetml';

/** The first row stays in view. */
const sheetStart = (columns: readonly FileColumn[]): string =>
  `${declaration}<worksheet xmlns="${sheetNames}"><sheetViews><sheetView workbookViewId="0">` +
  '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>' +
  `<cols><col min="1" max="${columns.length}" width="20" customWidth="1"/></cols><sheetData>`;

/** Returns the text of each small part by its path in the archive. */
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
 * The styles: as it is; the bold header; text (the built-in format 49), which stays text when somebody edits the cell; a
 * time.
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
