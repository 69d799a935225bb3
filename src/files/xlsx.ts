import { posix } from 'node:path';
import { FileRefused } from './encodings.ts';
import * as parts from './xlsx-parts.ts';
import type { Formats, XmlHandler, Zip, PartsFrom } from './xlsx-parts.ts';
import { mayBeLiteral, type Cell } from './columns.ts';
import { isEmpty, maxColumns, maxRecordBytes, maxSurplus, type RawRecord, emptyCell } from './record-formats.ts';

interface Sheet {
  name: string;
  isHidden: boolean;
  part: string;
}

interface Workbook {
  zip: Zip;
  sheets: Sheet[];
  from1904: boolean;
  sharedStrings: string | undefined;
  styles: string | undefined;
}

interface Relation {
  id: string;
  type: string;
  part: string;
}

async function readWorkbook(zip: Zip): Promise<Workbook> {
  const main = (await relationsOf(zip, '')).find(({ type }) => type === 'officeDocument')?.part;
  if (main === undefined || zip.sizeOf(main) === undefined)
    throw new FileRefused('is a ZIP file, but not an XLSX file', undefined, 'send an XLSX file, or CSV');
  const relations = await relationsOf(zip, main);
  const sheets: Sheet[] = [];
  let from1904 = false;
  await readIndex(zip, main, {
    open(name, attributes) {
      if (name === 'workbookPr') from1904 = isTrue(attributes['date1904']);
      if (name !== 'sheet') return;
      const id = Object.entries(attributes).find(([key]) => key.endsWith(':id'))?.[1];
      const found = relations.find((relation) => relation.id === id && relation.type === 'worksheet');
      if (found && zip.sizeOf(found.part) !== undefined)
        sheets.push({ name: attributes['name'] ?? '', isHidden: isHidden(attributes['state']), part: found.part });
    },
  });
  // Without its texts or styles, a file would be read as another one.
  const partOf = (wanted: string): string | undefined => {
    const part = relations.find(({ type }) => type === wanted)?.part;
    if (part !== undefined && zip.sizeOf(part) === undefined) throw parts.damaged(`: it lacks the part ${part}`);
    return part;
  };
  return { zip, sheets, from1904, sharedStrings: partOf('sharedStrings'), styles: partOf('styles') };
}

const isHidden = (state: string | undefined): boolean => state === 'hidden' || state === 'veryHidden';
const isTrue = (text: string | undefined): boolean => text === '1' || text === 'true';

async function readFormats({ zip, styles, from1904 }: Workbook): Promise<Formats> {
  const byStyle: Formats['byStyle'][number][] = [];
  if (styles === undefined) return { byStyle, from1904 };
  const own = new Map<string, string>();
  let isCellStyle = false;
  await readIndex(zip, styles, {
    open(name, attributes) {
      if (name === 'numFmt') own.set(attributes['numFmtId'] ?? '', attributes['formatCode'] ?? '');
      else if (name === 'cellXfs') isCellStyle = true;
      else if (name === 'xf' && isCellStyle) {
        const id = attributes['numFmtId'] ?? '0';
        byStyle.push(parts.numberFormatOf(own.get(id), Number(id)));
      }
    },
    close(name) {
      if (name === 'cellXfs') isCellStyle = false;
    },
  });
  return { byStyle, from1904 };
}

async function relationsOf(zip: Zip, part: string): Promise<Relation[]> {
  const folder = posix.dirname(`/${part}`);
  const list = posix.join(folder, '_rels', `${posix.basename(part)}.rels`).slice(1);
  const relations: Relation[] = [];
  if (zip.sizeOf(list) === undefined) return relations;
  await readIndex(zip, list, {
    open(name, { Id = '', Type = '', Target = '', TargetMode }) {
      if (name !== 'Relationship' || TargetMode === 'External') return;
      relations.push({ id: Id, type: posix.basename(Type), part: posix.resolve(folder, Target).slice(1) });
    },
  });
  return relations;
}

function readIndex(zip: Zip, part: string, handler: XmlHandler): Promise<void> {
  if (zip.sizeOf(part)! > parts.maxIndexBytes)
    throw new FileRefused('is not an XLSX file: the list of its sheets or styles is too large');
  return parts.readXml(zip.open(part), handler);
}

/**
 * Texts that cells refer to by number. Stores them as bytes: millions of strings would need several times the memory.
 */
class SharedStrings {
  readonly #bytes: Buffer;
  #ends = new Uint32Array(1024);
  #count = 0;

  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafe(size);
  }

  add(text: string): void {
    if (this.#count === this.#ends.length) {
      const longer = new Uint32Array(this.#count * 2);
      longer.set(this.#ends);
      this.#ends = longer;
    }
    const start = this.#startOf(this.#count);
    this.#ends[this.#count] = start + this.#bytes.write(text.slice(0, parts.maxCellLength + 1), start);
    this.#count += 1;
  }

  get(number: number): string {
    if (!(number >= 0 && number < this.#count)) return '';
    return this.#bytes.toString('utf8', this.#startOf(number), this.#ends[number]);
  }

  #startOf(number: number): number {
    return number === 0 ? 0 : this.#ends[number - 1]!;
  }
}

async function readSharedStrings({ zip, sharedStrings: part }: Workbook): Promise<SharedStrings> {
  if (part === undefined) return new SharedStrings(0);
  const size = zip.sizeOf(part)!;
  if (size > parts.maxSharedBytes)
    throw new FileRefused(
      `has more than ${parts.maxSharedBytes / 1024 / 1024} MiB of texts`,
      undefined,
      'save it as CSV, or split it into several files',
    );
  // A text is never longer than the XML in which it is written.
  const strings = new SharedStrings(size);
  let text = '';
  let isText = false;
  let isPhonetic = false;
  await parts.readXml(zip.open(part), {
    open(name) {
      if (name === 'si') text = '';
      else if (name === 'rPh') isPhonetic = true;
      else if (name === 't') isText = !isPhonetic;
    },
    text(piece) {
      if (isText && text.length <= parts.maxCellLength) text += piece;
    },
    close(name) {
      if (name === 'si') strings.add(text);
      else if (name === 'rPh') isPhonetic = false;
      else if (name === 't') isText = false;
    },
  });
  return strings;
}

interface XlsxFile {
  sheets: string[];
  /**
   * Yields the rows of a sheet from the header on, without blank rows. The line of a record is its row number.
   * @param sheet name of the sheet; null for the first visible one
   * @param hasHeader true: the header is the first row with at least two filled cells. False: rows start at the first
   * filled one
   * @throws FileRefused
   */
  rows(sheet: string | null, hasHeader: boolean): AsyncGenerator<RawRecord[]>;
}

/**
 * Opens a stored XLSX file. Reads only its directory and the list of its sheets.
 * @param bytes size of the file
 * @param signal stops the reading
 * @throws FileRefused
 */
export async function openXlsx(partsFrom: PartsFrom, bytes: number, signal?: AbortSignal): Promise<XlsxFile> {
  const workbook = await readWorkbook(await parts.openZip(partsFrom, bytes, signal));
  return {
    sheets: workbook.sheets.map(({ name }) => name),
    rows: (sheet, hasHeader) => rowsOf(workbook, sheet, hasHeader),
  };
}

async function* rowsOf(workbook: Workbook, name: string | null, hasHeader: boolean): AsyncGenerator<RawRecord[]> {
  const { zip, sheets } = workbook;
  const first = sheets.find(({ isHidden }) => !isHidden) ?? sheets[0];
  const sheet = name === null ? first : sheets.find((one) => one.name === name);
  if (!sheet)
    throw new FileRefused(
      name === null ? 'has no sheet' : `has no sheet ${JSON.stringify(name)}`,
      undefined,
      namesOf(sheets),
    );
  const strings = await readSharedStrings(workbook);
  const rows = new SheetRows(strings, await readFormats(workbook), hasHeader);
  for await (const _ of parts.parseXml(zip.open(sheet.part), rows)) {
    const records = rows.take();
    if (records.length > 0) yield records;
  }
  rows.end();
}

const maxNamed = 10;

function namesOf(sheets: Workbook['sheets']): string | undefined {
  const names = sheets.slice(0, maxNamed).map(({ name }) => JSON.stringify(name.slice(0, 40)));
  return names.length === 0 ? undefined : `it has ${names.join(', ')}${sheets.length > maxNamed ? ' and others' : ''}`;
}

type SheetCell = readonly [column: number, cell: Cell];

class SheetRows implements XmlHandler {
  readonly #strings: SharedStrings;
  readonly #formats: Formats;
  #records: RawRecord[] = [];
  #characters = 0;
  #row = 0;
  #cells: SheetCell[] = [];
  #length = 0;
  #column = 0;
  #type = '';
  #format: Formats['byStyle'][number] | undefined;
  #value = '';
  #isValue = false;
  #isFormula = false;
  #isPhonetic = false;
  #hasCells = false;
  #rows = 0;
  readonly #leastHeaders: number;

  constructor(strings: SharedStrings, formats: Formats, hasHeader: boolean) {
    this.#strings = strings;
    this.#formats = formats;
    this.#leastHeaders = hasHeader ? 2 : 1;
  }

  take(): RawRecord[] {
    const records = this.#records;
    this.#records = [];
    return records;
  }

  end(): void {
    if (this.#hasCells && this.#rows === 0)
      throw new FileRefused('has no header', undefined, 'the first row with at least two filled cells is the header');
  }

  open(name: string, { r: place, t: type = 'n', s: style = '0' }: Record<string, string>): void {
    if (name === 'row') this.#beginRow(place);
    else if (name === 'c') {
      this.#column = place === undefined ? this.#column + 1 : columnOf(place);
      if (this.#column > parts.maxColumnNumber) throw new FileRefused(`has more than ${parts.maxColumnNumber} columns`);
      this.#type = type;
      this.#format = this.#formats.byStyle[Number(style)];
      this.#value = '';
      this.#isFormula = false;
    } else if (name === 'f') this.#isFormula = true;
    else if (name === 'rPh') this.#isPhonetic = true;
    else if (name === 'v' || name === 't') this.#isValue = !this.#isPhonetic;
  }

  text(text: string): void {
    if (this.#isValue && this.#value.length <= maxRecordBytes) this.#value += text;
  }

  close(name: string): void {
    if (name === 'v' || name === 't') this.#isValue = false;
    else if (name === 'rPh') this.#isPhonetic = false;
    else if (name === 'c') this.#endCell();
    else if (name === 'row') this.#endRow();
  }

  #beginRow(place: string | undefined): void {
    this.#row = Math.max(this.#row + 1, place === undefined ? 0 : Number(place));
    if (!(this.#row <= parts.maxRowNumber))
      throw new FileRefused(`has a row ${String(place).slice(0, 20)}: a sheet has at most ${parts.maxRowNumber} rows`);
    this.#cells = [];
    this.#length = 0;
    this.#column = 0;
  }

  #endCell(): void {
    const text = this.#textOfCell();
    const isUncomputed = this.#isFormula && this.#type !== 'str' && this.#value.trim() === '';
    if (text.trim() === '' && !isUncomputed) return;
    // A row with such a cell is too long.
    this.#length += text.length > parts.maxCellLength ? maxRecordBytes + 1 : text.length;
    if (this.#length > maxRecordBytes) return;
    if (this.#cells.length === parts.maxColumnNumber) throw twoInOnePlace(this.#row);
    this.#cells.push([this.#column - 1, this.#cellOf(text, isUncomputed)]);
  }

  #cellOf(text: string, isUncomputed: boolean): Cell {
    if (isUncomputed) return { text, isQuoted: false, broken: 'formula' };
    if (this.#type === 'e') return { text, isQuoted: false, broken: 'error' };
    const isText = this.#type === 's' || this.#type === 'str' || this.#type === 'inlineStr';
    return { text, isQuoted: isText && mayBeLiteral(text) };
  }

  #textOfCell(): string {
    const value = this.#value;
    if (value.trim() === '') return '';
    switch (this.#type) {
      case 's':
        return parts.unescapeText(this.#strings.get(Number(value)));
      case 'str':
      case 'inlineStr':
        return parts.unescapeText(value);
      case 'b':
        return value === '1' ? 'true' : value === '0' ? 'false' : value;
      case 'd':
        return parts.isoDateText(value);
      case 'n':
        return this.#dateOf(Number(value)) ?? parts.withZeros(parts.numberText(value), this.#format?.digits ?? 0);
      default:
        return value;
    }
  }

  #dateOf(serial: number): string | undefined {
    const isDuration = this.#format?.isTime && serial >= 1;
    return this.#format?.isDate && !isDuration ? parts.dateText(serial, this.#formats.from1904) : undefined;
  }

  #endRow(): void {
    if (this.#cells.length === 0 && this.#length === 0) return;
    this.#hasCells = true;
    if (this.#rows === 0 && this.#cells.filter(([, { broken }]) => broken !== 'formula').length < this.#leastHeaders)
      return;
    this.#rows += 1;
    this.#sortCells();
    if (this.#rows > parts.maxRows + 1)
      throw new FileRefused(
        `has more than ${parts.maxRows.toLocaleString('en')} rows`,
        undefined,
        'save it as CSV, or split it',
      );
    this.#characters += Math.min(this.#length, maxRecordBytes);
    if (this.#characters > parts.maxUnpackedBytes)
      throw new FileRefused(`has more than ${parts.maxUnpackedBytes / 1024 / 1024} MiB of cells`);
    const record = this.#record();
    if (!isEmpty(record)) this.#records.push(record);
  }

  #record(): RawRecord {
    const line = this.#row;
    const whole = { line, nextLine: line + 1, endsWithCr: false, faultLine: line };
    if (this.#length > maxRecordBytes) return { ...whole, cells: [], cellCount: 0, fault: 'too long' };
    const cells: Cell[] = [];
    for (const [column, cell] of this.#cells) {
      if (column >= maxColumns + maxSurplus) break;
      while (cells.length < column) cells.push(emptyCell);
      cells.push(cell);
    }
    return { ...whole, cells, cellCount: this.#cells.at(-1)![0] + 1, fault: undefined };
  }

  #sortCells(): void {
    this.#cells.sort(([one], [other]) => one - other);
    if (this.#cells.some(([column], i) => column === this.#cells[i - 1]?.[0])) throw twoInOnePlace(this.#row);
  }
}

const twoInOnePlace = (row: number): FileRefused => new FileRefused('has two cells in one place', row, parts.saveAgain);

function columnOf(place: string): number {
  let column = 0;
  for (let i = 0; i < place.length && i < 5; i += 1) {
    const letter = place.charCodeAt(i) - 64;
    if (letter < 1 || letter > 26) break;
    column = column * 26 + letter;
  }
  return Math.max(1, column);
}
