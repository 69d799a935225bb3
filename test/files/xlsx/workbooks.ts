import { buffer } from 'node:stream/consumers';
import { ZipFile } from 'yazl';
import { toStored } from '../../../src/files/stored-rows.ts';
import { openXlsx } from '../../../src/files/xlsx.ts';

const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const relations = (...all: [type: string, target: string][]): string =>
  `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${all
    .map(([type, target], i) => `<Relationship Id="r${i}" Type="${office}/${type}" Target="${target}"/>`)
    .join('')}</Relationships>`;

/** The parts of a workbook with one sheet `People`, with a second one `Other` whose rows are `other`. */
export const partsOf = (rows: string, strings = '', other = ''): Record<string, string> => ({
  '_rels/.rels': relations(['officeDocument', 'xl/workbook.xml']),
  'xl/workbook.xml': `<workbook xmlns:r="${office}"><sheets><sheet name="People" sheetId="1" r:id="r0"/><sheet name="Other" sheetId="2" r:id="r1"/></sheets></workbook>`,
  'xl/_rels/workbook.xml.rels': relations(
    ['worksheet', 'worksheets/sheet1.xml'],
    ['worksheet', '/xl/worksheets/sheet2.xml'],
    ['sharedStrings', 'sharedStrings.xml'],
    ['styles', 'styles.xml'],
  ),
  'xl/styles.xml':
    '<styleSheet><numFmts><numFmt numFmtId="165" formatCode="[$-407]dd\\.mm\\.yyyy;@"/><numFmt numFmtId="166" formatCode="&quot;days&quot;\\ 0"/><numFmt numFmtId="167" formatCode="00000"/></numFmts>' +
    '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="165"/><xf numFmtId="166"/><xf numFmtId="20"/><xf numFmtId="167"/><xf numFmtId="46"/></cellXfs></styleSheet>',
  'xl/sharedStrings.xml': `<sst>${strings}</sst>`,
  'xl/worksheets/sheet1.xml': sheetOf(rows),
  'xl/worksheets/sheet2.xml': sheetOf(other),
});

export const sheetOf = (rows: string): string => `<worksheet><sheetData>${rows}</sheetData></worksheet>`;

export async function zipped(parts: Record<string, string | Buffer>): Promise<Buffer> {
  const zip = new ZipFile();
  for (const [name, text] of Object.entries(parts)) zip.addBuffer(Buffer.from(text), name);
  zip.end();
  return buffer(zip.outputStream);
}

/** Changes the size that a ZIP file says a part has when it is unpacked. */
export function claiming(file: Buffer, part: string, bytes: number): Buffer {
  const changed = Buffer.from(file);
  // In the directory, behind the parts themselves. The name is at 46, the size at 24 (APPNOTE.TXT 4.3.12).
  changed.writeUInt32LE(bytes, changed.lastIndexOf(part) - 46 + 24);
  return changed;
}

export const partsFrom = (bytes: Buffer, size: number) =>
  async function* (from: number): AsyncGenerator<Buffer> {
    for (let at = from; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  };

/** Returns the number of each row that is read from a sheet, and its cells as they are stored. */
export async function linesOf(file: Buffer, sheet: string | null = null): Promise<string[]> {
  const { rows } = await openXlsx(partsFrom(file, 1_000), file.length);
  const lines: string[] = [];
  for await (const records of rows(sheet, true)) for (const raw of records) lines.push(`${raw.line} ${toStored(raw)}`);
  return lines;
}

export const refusalOf = (file: Buffer, sheet: string | null = null): Promise<string> =>
  linesOf(file, sheet).then(
    (lines) => `not refused: ${lines.length} lines`,
    (error: Error) => `${error.constructor.name}: ${error.message}`,
  );
