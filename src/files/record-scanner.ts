import { isEmpty, maxRecordBytes, countLineBreaks } from './record-formats.ts';
import type { FilePosition, RawRecord, FoundRecord, RecordFormat } from './record-formats.ts';
import { invalidByte } from './encodings.ts';

interface ScanOptions {
  /**
   * How to handle a record that is too long and contains line breaks. True: its first quote counts as not closed. False
   * (default): reads the record to its end, and reports it as too long.
   */
  endsLongRecords?: boolean;
}

// A CR at the end of a text is not matched, because the next piece of text may start with the LF of the same line break.
const blankLines = /\s*(?:\n|\r(?=[^\n]))/y;
const blankEnd = /\s*(?:\n|\r|$)/y;
const invalidBytes = new RegExp(invalidByte, 'gu');
const lineBreak = /\r\n?|\n/g;

const nothing = { bytes: 0, breaks: 0, hasInvalidBytes: false };

/**
 * Splits the text of a file into records. Accepts text in pieces of any size. Keeps only the current piece and the
 * current record in memory. Of a record that is too long, it keeps only the end.
 *
 * Continues after every fault. After a quote that is not closed, it continues with the next line. A caller that rejects
 * the whole file stops at the faulty record.
 */
export class RecordScanner {
  readonly #format: RecordFormat;
  readonly #endsLongRecords: boolean;
  #text = '';
  #start: FilePosition;
  /** The size of the text that was dropped from `#text`, because its record is too long. */
  #dropped = nothing;

  constructor(format: RecordFormat, from: FilePosition, { endsLongRecords = false }: ScanOptions = {}) {
    this.#format = format;
    this.#start = from;
    this.#endsLongRecords = endsLongRecords;
  }

  /** Yields the records that end in the next piece of text. Blank lines are not records. */
  *scan(text: string): Generator<RawRecord> {
    this.#text += text;
    yield* this.#records(false);
  }

  *end(): Generator<RawRecord> {
    yield* this.#records(true);
  }

  *#records(isLast: boolean): Generator<RawRecord> {
    this.#skipByteOrderMark();
    const piece = new Piece(this.#text);
    const { text } = piece;
    let at = this.#skipBlankLines(piece, 0, isLast);
    while (at < text.length) {
      const found = this.#format.find(text, at, isLast);
      const bytes = piece.bytesBetween(at, found.end ?? text.length);
      const isTooLong = this.#dropped.bytes + bytes > maxRecordBytes;
      if (found.end === undefined && !isTooLong) break;
      if (this.#hasOpenQuote(text, at, found, isTooLong)) {
        const end = endOfLine(text, at);
        yield this.#refuseLine(piece, at, end, found);
        at = end;
      } else if (found.end === undefined) {
        this.#drop(piece, at, found);
        return;
      } else {
        const record = this.#endRecord(piece, at, found.end, found, bytes);
        if (!isEmpty(record)) yield record;
        at = found.end;
      }
      at = this.#skipBlankLines(piece, at, isLast);
    }
    this.#text = text.slice(at);
  }

  #skipByteOrderMark(): void {
    if (this.#start.bytes > 0 || this.#dropped.bytes > 0 || !this.#text.startsWith('\ufeff')) return;
    this.#text = this.#text.slice(1);
    this.#start = { bytes: Buffer.byteLength('\ufeff'), line: this.#start.line };
  }

  /**
   * Skips blank lines with one regular expression, because single steps would be slow for millions of lines.
   * @returns the index after the blank lines
   */
  #skipBlankLines(piece: Piece, at: number, isLast: boolean): number {
    const first = piece.text.charCodeAt(at);
    if (first > 0x20 && first < 0x80) return at;
    const blank = isLast ? blankEnd : blankLines;
    blank.lastIndex = at;
    const [skipped = ''] = blank.exec(piece.text) ?? [];
    if (skipped === '') return at;
    this.#pass(piece.bytesBetween(at, at + skipped.length), this.#breaksIn(skipped));
    return at + skipped.length;
  }

  #hasOpenQuote(text: string, at: number, { fault, end = text.length }: FoundRecord, isTooLong: boolean): boolean {
    if (fault === 'open quote') return true;
    // The quoted text began in the part that was dropped.
    if (fault === 'text after quote' && this.#dropped.breaks > 0) return true;
    return isTooLong && this.#endsLongRecords && endOfLine(text, at) < end;
  }

  #refuseLine(piece: Piece, at: number, end: number, { breaks, fault }: FoundRecord): RawRecord {
    const { line } = this.#start;
    const faultLine = fault === 'open quote' && this.#dropped.bytes === 0 ? line + breaks : line;
    const next = this.#pass(piece.bytesBetween(at, end), 1);
    return { cells: [], cellCount: 0, line, next, endsWithCr: false, fault: 'open quote', faultLine };
  }

  #endRecord(piece: Piece, at: number, end: number, found: FoundRecord, bytes: number): RawRecord {
    const isTooLong = this.#dropped.bytes + bytes > maxRecordBytes;
    const { cellCount, endsWithCr } = found;
    const { line } = this.#start;
    const invalidAt = piece.invalidBetween(at, end);
    const isInvalid = invalidAt !== undefined || this.#dropped.hasInvalidBytes;
    const faultLine = invalidAt === undefined ? line : line + this.#breaksIn(piece.text.slice(at, invalidAt));
    const next = this.#pass(bytes, this.#dropped.breaks + found.breaks + 1);
    const fault = isInvalid ? 'invalid bytes' : isTooLong ? 'too long' : found.fault;
    return { cells: isTooLong ? [] : found.cells, cellCount, line, next, endsWithCr, fault, faultLine };
  }

  #pass(bytes: number, lines: number): FilePosition {
    this.#start = { bytes: this.#start.bytes + this.#dropped.bytes + bytes, line: this.#start.line + lines };
    this.#dropped = nothing;
    return this.#start;
  }

  /** Replaces the text of a record that is too long by a short text. The rest of the record parses as before. */
  #drop(piece: Piece, at: number, { openQuote }: FoundRecord): void {
    const text = piece.text.slice(at);
    const begun = openQuote === undefined ? (text.trim() === '' ? ' ' : 'x') : '"';
    this.#text = begun + undecidedEnd(openQuote === undefined ? '' : piece.text.slice(openQuote + 1), text);
    this.#dropped = {
      bytes: this.#dropped.bytes + piece.bytesBetween(at, piece.text.length) - Buffer.byteLength(this.#text),
      breaks: this.#dropped.breaks + this.#breaksIn(text) - this.#breaksIn(this.#text),
      hasInvalidBytes: this.#dropped.hasInvalidBytes || piece.invalidBetween(at, piece.text.length) !== undefined,
    };
  }

  #breaksIn(text: string): number {
    return countLineBreaks(text, this.#format.crEndsLine);
  }
}

/**
 * Yields the records of a file, one array for each piece of text. Continues after every fault. Keeps at most one piece
 * and one record in memory.
 */
export async function* scanRecords(texts: AsyncIterable<string>, format: RecordFormat): AsyncGenerator<RawRecord[]> {
  const scanner = new RecordScanner(format, { bytes: 0, line: 1 }, { endsLongRecords: true });
  for await (const text of texts) yield [...scanner.scan(text)];
  yield [...scanner.end()];
}

/**
 * Returns the last character of an unfinished record if the next character decides its meaning. It is a CR, or a quote
 * that may be half of an escaped quote. Otherwise returns `""`.
 * @param quoted the text after the quote that opens the last cell; empty if it is not quoted
 */
function undecidedEnd(quoted: string, text: string): string {
  if (text.endsWith('\r')) return '\r';
  let quotes = 0;
  while (quoted.charCodeAt(quoted.length - 1 - quotes) === 0x22) quotes += 1;
  return quotes % 2 === 1 ? '"' : '';
}

function endOfLine(text: string, from: number): number {
  lineBreak.lastIndex = from;
  return lineBreak.test(text) ? lineBreak.lastIndex : text.length;
}

/** A text with sizes of its parts. Fast if each character is one byte, and all are valid. */
class Piece {
  readonly text: string;
  readonly #isOneByteEach: boolean;
  readonly #isValid: boolean;

  constructor(text: string) {
    this.text = text;
    this.#isOneByteEach = Buffer.byteLength(text) === text.length;
    this.#isValid = text.isWellFormed();
  }

  bytesBetween(start: number, end: number): number {
    if (this.#isOneByteEach) return end - start;
    const part = this.text.slice(start, end);
    return Buffer.byteLength(this.#isValid ? part : part.replaceAll(invalidBytes, 'x'));
  }

  invalidBetween(start: number, end: number): number | undefined {
    const at = this.#isValid ? -1 : this.text.slice(start, end).search(invalidByte);
    return at < 0 ? undefined : start + at;
  }
}
