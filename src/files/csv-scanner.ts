import type { Cell } from './cells.ts';
import { FileRefused } from './file-refused.ts';
import {
  ByteCounter,
  maxRecordBytes,
  tooLong,
  type FilePosition,
  type RawRecord,
  type RecordScanner,
} from './raw-records.ts';

/**
 * The characters that can separate the cells of a CSV file. The separator of a file is detected from its header line.
 */
export const separators = [',', ';', '\t'] as const;
export type Separator = (typeof separators)[number];

const emptyCell: Cell = { text: '', isQuoted: false };
const [newline, carriageReturn] = [0x0a, 0x0d];

/**
 * Matches blank lines with their line breaks. Does not match a CR at the end of the text, because the next piece of
 * text may start with the LF of the same line break.
 */
const blankLines = /\s*(?:\n|\r(?=[^\n]))/y;

/**
 * Counts line breaks: LF, CR LF and CR.
 * @param isAfterCr True if the character before the text is a CR. An LF at the start of the text is then not counted,
 * because it is the second half of a line break.
 */
function countLineBreaks(text: string, isAfterCr = false): number {
  let count = 0;
  let last = isAfterCr ? carriageReturn : 0;
  for (let i = 0; i < text.length; i += 1) {
    const character = text.charCodeAt(i);
    if (character === carriageReturn || (character === newline && last !== carriageReturn)) count += 1;
    last = character;
  }
  return count;
}

/**
 * Parses the text of a CSV file into records (RFC 4180). The text is given in pieces of any size. A record ends with
 * LF, CR LF or CR. A quote inside an unquoted cell is an ordinary character.
 */
export class CsvScanner implements RecordScanner {
  readonly #separator: Separator;
  readonly #maxCells: number;
  /**
   * State of the parser. In the state `after quote`, the last character was a quote in quoted text: either the closing
   * quote or the first half of an escaped quote (`""`).
   */
  #state: 'start of cell' | 'plain text' | 'quoted text' | 'after quote' | 'after CR' | 'end of record' =
    'start of cell';
  /** Where the record starts. */
  #start: FilePosition;
  /**
   * Size of the current record in the text pieces that were already scanned (bytes). Does not include the piece that is
   * being scanned.
   */
  #bytes = 0;
  /** Number of line breaks in quoted cells of the current record. */
  #breaks = 0;
  #cells: Cell[] = [];
  #cellCount = 0;
  #isBlank = true;
  #fault: string | undefined;
  /** The text of the cell so far. */
  #text = '';
  #isQuoted = false;
  /** The line of the cell's opening quote. */
  #quoteLine = 0;
  /** True if the quoted text so far ends with CR. If an LF follows, it belongs to the same line break. */
  #endsWithCr = false;

  /**
   * Creates a parser. The text must start at the beginning of a record.
   * @param from Position of the first record in the file.
   * @param maxCells Maximum number of cells to return for each record. Further cells are dropped.
   */
  constructor(separator: Separator, from: FilePosition, maxCells: number) {
    this.#separator = separator;
    this.#start = from;
    this.#maxCells = maxCells;
  }

  get line(): number {
    return this.#start.line + this.#breaks + (this.#state === 'after CR' ? 1 : 0);
  }

  /**
   * Parses the next piece of text. Yields the records that end in this piece.
   * @throws FileRefused if a closing quote seems to be missing. A sign of this is a quoted text that contains a line
   * break and is directly followed by other text, without a separator.
   */
  *scan(text: string): Generator<RawRecord> {
    const counter = new ByteCounter(text);
    let start = 0;
    for (let at = 0; at < text.length;) {
      if (at === start && this.#isAtStart) {
        at = this.#skipBlankLines(text, at, counter);
        start = at;
        if (at === text.length) break;
      }
      at = this.#step(text, at);
      if (this.#state !== 'end of record') continue;
      this.#count(counter.between(start, at));
      start = at;
      const record = this.#endRecord();
      if (record) yield record;
    }
    this.#count(counter.between(start, text.length));
  }

  /**
   * Yields the last record if the file does not end with a line break.
   * @throws FileRefused if a closing quote is missing.
   */
  *end(): Generator<RawRecord> {
    if (this.#state === 'quoted text') throw this.#openQuote();
    if (this.#state !== 'after CR') this.#endCell();
    const record = this.#endRecord();
    if (record) yield record;
  }

  /** True if the next character is the first of a record. */
  get #isAtStart(): boolean {
    return this.#state === 'start of cell' && this.#bytes === 0;
  }

  /**
   * Skips blank lines with one regular expression, because parsing millions of blank lines one by one would be slow.
   * @returns The index of the first character after the blank lines.
   */
  #skipBlankLines(text: string, at: number, counter: ByteCounter): number {
    blankLines.lastIndex = at;
    const [blank = ''] = blankLines.exec(text) ?? [];
    if (blank === '') return at;
    const { bytes, line } = this.#start;
    this.#start = {
      bytes: bytes + counter.between(at, at + blank.length),
      line: line + countLineBreaks(blank),
    };
    return at + blank.length;
  }

  /**
   * Parses text from the index `at` up to the end of the cell or the end of the text.
   * @returns The index of the first character that is not parsed yet.
   */
  #step(text: string, at: number): number {
    switch (this.#state) {
      case 'start of cell':
        return text[at] === '"' ? this.#openQuotedCell(at) : this.#readPlainText(text, at);
      case 'plain text':
        return this.#readPlainText(text, at);
      case 'quoted text':
        return this.#readQuotedText(text, at);
      case 'after quote':
        return text[at] === '"' ? this.#readDoubledQuote(at) : this.#closeQuotedText(text, at);
      default:
        this.#state = 'end of record';
        return text[at] === '\n' ? at + 1 : at;
    }
  }

  #openQuotedCell(at: number): number {
    this.#state = 'quoted text';
    this.#isQuoted = true;
    this.#isBlank = false;
    this.#quoteLine = this.line;
    this.#endsWithCr = false;
    return at + 1;
  }

  #readPlainText(text: string, at: number): number {
    const end = this.#endOfPlainText(text, at);
    const piece = text.slice(at, end);
    this.#append(piece);
    if (this.#isBlank) this.#isBlank = piece.trim() === '';
    if (end === text.length) {
      this.#state = 'plain text';
      return end;
    }
    this.#endCell();
    const character = text[end]!;
    if (character === this.#separator) {
      this.#isBlank &&= character === '\t';
      this.#state = 'start of cell';
    } else this.#state = character === '\n' ? 'end of record' : 'after CR';
    return end + 1;
  }

  /**
   * Returns the index of the separator or line break that ends an unquoted cell, or the length of the text if there is
   * none. If the record already has more cells than are kept, may skip several cells at once.
   */
  #endOfPlainText(text: string, from: number): number {
    const separator = this.#separator.charCodeAt(0);
    const keepsCells = this.#fault !== tooLong && this.#cellCount <= this.#maxCells;
    for (let at = from; at < text.length; at += 1) {
      const character = text.charCodeAt(at);
      if (character === newline || character === carriageReturn) return at;
      // Cells that are not kept are skipped together, up to one that may begin with a quote.
      if (character === separator && (keepsCells || at + 1 === text.length || text[at + 1] === '"')) return at;
    }
    return text.length;
  }

  #readQuotedText(text: string, at: number): number {
    const quote = text.indexOf('"', at);
    const piece = text.slice(at, quote < 0 ? undefined : quote);
    this.#append(piece);
    this.#breaks += countLineBreaks(piece, this.#endsWithCr);
    this.#endsWithCr = piece === '' ? this.#endsWithCr : piece.endsWith('\r');
    if (quote < 0) return text.length;
    this.#state = 'after quote';
    return quote + 1;
  }

  #readDoubledQuote(at: number): number {
    this.#append('"');
    this.#endsWithCr = false;
    this.#state = 'quoted text';
    return at + 1;
  }

  #closeQuotedText(text: string, at: number): number {
    const character = text[at]!;
    if (character !== this.#separator && character !== '\n' && character !== '\r') {
      if (this.line > this.#quoteLine) throw this.#openQuote();
      this.#fault ??= 'has text after a closing quote';
    }
    return this.#readPlainText(text, at);
  }

  #append(text: string): void {
    if (this.#fault !== tooLong) this.#text = this.#text === '' ? text : this.#text + text;
  }

  #endCell(): void {
    if (this.#cellCount <= this.#maxCells) this.#cellCount += 1;
    if (this.#cellCount <= this.#maxCells && this.#fault !== tooLong)
      this.#cells.push(
        this.#text === '' && !this.#isQuoted ? emptyCell : { text: this.#text, isQuoted: this.#isQuoted },
      );
    this.#text = '';
    this.#isQuoted = false;
  }

  /**
   * Adds bytes to the size of the current record. If the record becomes larger than `maxRecordBytes`, marks it as
   * faulty and drops its cells.
   */
  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= maxRecordBytes) return;
    this.#fault = tooLong;
    this.#cells = [];
    this.#text = '';
  }

  /**
   * Ends the current record and starts the next one. Returns the ended record, or undefined if the ended record is
   * blank.
   */
  #endRecord(): RawRecord | undefined {
    const { line, bytes } = this.#start;
    this.#start = { bytes: bytes + this.#bytes, line: line + this.#breaks + 1 };
    const [cells, cellCount, fault] = [this.#cells, this.#cellCount, this.#fault];
    const isBlank = this.#isBlank;
    this.#state = 'start of cell';
    this.#bytes = 0;
    this.#breaks = 0;
    this.#cells = [];
    this.#cellCount = 0;
    this.#isBlank = true;
    this.#fault = undefined;
    return isBlank ? undefined : { cells, cellCount, line, next: this.#start, fault };
  }

  #openQuote(): FileRefused {
    return new FileRefused('has a quote that is not closed', this.#quoteLine);
  }
}
