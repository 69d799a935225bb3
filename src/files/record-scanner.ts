import { isEmpty, maxRecordBytes, countLineBreaks } from './record-formats.ts';
import type { RawRecord, FoundRecord, RecordFormat } from './record-formats.ts';
import { invalidByte } from './encodings.ts';
import { TimeSlice } from '../process/event-loop.ts';

interface ScanOptions {
  /**
   * Decides what a too long record with line breaks is. True: an open quote that began on its first line. False
   * (default): one long record.
   */
  endsLongRecords?: boolean;
}

// A CR at the end of a text is not matched, because the next piece of text may start with the LF of the same line break.
const blankLines = /\s*(?:\n|\r(?=[^\n]))/y;
const blankEnd = /\s*(?:\n|\r|$)/y;
const lineBreak = /\r\n?|\n/g;

/**
 * Splits text into records. Accepts the text in pieces of any size, and keeps only one piece and one record in memory.
 * Continues after every fault; after an open quote, it continues with the next line.
 */
export class RecordScanner {
  readonly #format: RecordFormat;
  readonly #endsLongRecords: boolean;
  #text = '';
  #line: number;
  /** What was dropped from `#text`, because its record is too long: number of line breaks, and whether a byte was not valid. */
  #dropped: { breaks: number; hasInvalidBytes: boolean } | undefined;

  constructor(format: RecordFormat, line = 1, { endsLongRecords = false }: ScanOptions = {}) {
    this.#format = format;
    this.#line = line;
    this.#endsLongRecords = endsLongRecords;
  }

  /** Yields the records that end in the next piece of text. Skips blank lines. */
  *scan(text: string): Generator<RawRecord> {
    this.#text += text;
    yield* this.#records(false);
  }

  *end(): Generator<RawRecord> {
    yield* this.#records(true);
  }

  *#records(isLast: boolean): Generator<RawRecord> {
    const hasMark = this.#line === 1 && !this.#dropped && this.#text.startsWith('\ufeff');
    const text = this.#text.slice(Number(hasMark));
    const isValid = text.isWellFormed();
    let at = this.#skipBlankLines(text, 0, isLast);
    while (at < text.length) {
      const found = this.#format.find(text, at, isLast);
      const { end } = found;
      const isTooLong = this.#dropped !== undefined || isLong(text, at, end);
      if (end === undefined && !isTooLong) break;
      const invalidAt = isValid ? -1 : text.slice(at, end).search(invalidByte);
      if (this.#hasOpenQuote(text, at, found, isTooLong)) {
        yield this.#refuseLine(found);
        at = endOfLine(text, at);
      } else if (end === undefined) {
        this.#drop(text, at, found, invalidAt >= 0);
        return;
      } else {
        const breaks = invalidAt < 0 ? 0 : this.#breaksIn(text.slice(at, at + invalidAt));
        const record = this.#endRecord(found, isTooLong, { isInvalid: invalidAt >= 0, breaks });
        if (!isEmpty(record)) yield record;
        at = end;
      }
      at = this.#skipBlankLines(text, at, isLast);
    }
    this.#text = text.slice(at);
  }

  /**
   * Skips blank lines. Uses one regular expression, because single steps would be slow for millions of lines.
   * @returns the index after the blank lines
   */
  #skipBlankLines(text: string, at: number, isLast: boolean): number {
    const first = text.charCodeAt(at);
    if (first > 0x20 && first < 0x80) return at;
    const blank = isLast ? blankEnd : blankLines;
    blank.lastIndex = at;
    const [skipped = ''] = blank.exec(text) ?? [];
    if (skipped !== '') this.#pass(this.#breaksIn(skipped));
    return at + skipped.length;
  }

  #hasOpenQuote(text: string, at: number, { fault, end = text.length }: FoundRecord, isTooLong: boolean): boolean {
    if (fault === 'open quote') return true;
    // The quoted text began in the part that was dropped.
    if (fault === 'text after quote' && this.#dropped && this.#dropped.breaks > 0) return true;
    return isTooLong && this.#endsLongRecords && endOfLine(text, at) < end;
  }

  #refuseLine({ breaks, fault }: FoundRecord): RawRecord {
    const line = this.#line;
    const faultLine = fault === 'open quote' && !this.#dropped ? line + breaks : line;
    const nextLine = this.#pass(1);
    return { cells: [], cellCount: 0, line, nextLine, endsWithCr: false, fault: 'open quote', faultLine };
  }

  #endRecord(
    { cells, cellCount, endsWithCr, ...found }: FoundRecord,
    isTooLong: boolean,
    { isInvalid, breaks }: { isInvalid: boolean; breaks: number },
  ): RawRecord {
    const line = this.#line;
    const fault = isInvalid || this.#dropped?.hasInvalidBytes ? 'invalid bytes' : isTooLong ? 'too long' : found.fault;
    const nextLine = this.#pass(found.breaks + 1);
    return { cells: isTooLong ? [] : cells, cellCount, line, nextLine, endsWithCr, fault, faultLine: line + breaks };
  }

  #pass(lines: number): number {
    this.#line += (this.#dropped?.breaks ?? 0) + lines;
    this.#dropped = undefined;
    return this.#line;
  }

  /** Replaces the start of a too long record by a short text that lets the rest parse as before. */
  #drop(text: string, at: number, { openQuote }: FoundRecord, isInvalid: boolean): void {
    const whole = text.slice(at);
    const begun = openQuote === undefined ? (whole.trim() === '' ? ' ' : 'x') : '"';
    this.#text = begun + undecidedEnd(openQuote === undefined ? '' : text.slice(openQuote + 1), whole);
    this.#dropped = {
      breaks: (this.#dropped?.breaks ?? 0) + this.#breaksIn(whole) - this.#breaksIn(this.#text),
      hasInvalidBytes: isInvalid || this.#dropped?.hasInvalidBytes === true,
    };
  }

  #breaksIn(text: string): number {
    return countLineBreaks(text, this.#format.crEndsLine);
  }
}

/**
 * Yields the records of a file, one array for each piece of text.
 * @param line number of the first line
 */
export async function* scanRecords(
  texts: AsyncIterable<string>,
  format: RecordFormat,
  line = 1,
  options?: ScanOptions,
): AsyncGenerator<RawRecord[]> {
  const scanner = new RecordScanner(format, line, options);
  const slice = new TimeSlice();
  for await (const text of texts) {
    yield [...scanner.scan(text)];
    if (slice.isOver) await slice.pause();
  }
  yield [...scanner.end()];
}

/**
 * Returns the last character of an unfinished record if only the next character decides its meaning: a CR, or half of
 * an escaped quote. Otherwise returns `""`.
 * @param quoted text after the opening quote of the last cell; empty if the cell is not quoted
 */
function undecidedEnd(quoted: string, text: string): string {
  if (text.endsWith('\r')) return '\r';
  let quotes = 0;
  while (quoted.charCodeAt(quoted.length - 1 - quotes) === 0x22) quotes += 1;
  return quotes % 2 === 1 ? '"' : '';
}

// A character has at most three bytes for each code unit.
const isLong = (text: string, from: number, to = text.length): boolean =>
  (to - from) * 3 > maxRecordBytes && Buffer.byteLength(text.slice(from, to)) > maxRecordBytes;

function endOfLine(text: string, from: number): number {
  lineBreak.lastIndex = from;
  return lineBreak.test(text) ? lineBreak.lastIndex : text.length;
}
