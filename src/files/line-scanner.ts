import {
  ByteCounter,
  maxRecordBytes,
  tooLong,
  type FilePosition,
  type RawRecord,
  type RecordScanner,
} from './raw-records.ts';

const blankLines = /\s*\n/y;

/** Splits the text of an NDJSON file into lines. */
export class LineScanner implements RecordScanner {
  #bytes: number;
  #line: number;
  /** The text of the line that is not complete yet. Undefined if the line is too long. */
  #rest: string | undefined = '';
  /** Size of the unfinished line (bytes). */
  #restBytes = 0;

  constructor(from: FilePosition) {
    this.#bytes = from.bytes;
    this.#line = from.line;
  }

  get line(): number {
    return this.#line;
  }

  *scan(text: string): Generator<RawRecord> {
    const counter = new ByteCounter(text);
    let start = 0;
    for (;;) {
      if (this.#restBytes === 0) start = this.#skipBlankLines(text, start, counter);
      const end = text.indexOf('\n', start);
      if (end < 0) break;
      this.#take(text.slice(start, end), counter.between(start, end + 1));
      start = end + 1;
      yield* this.#endLine();
    }
    this.#take(text.slice(start), counter.between(start, text.length));
  }

  *end(): Generator<RawRecord> {
    yield* this.#endLine();
  }

  /**
   * Skips blank lines with one regular expression, because reading millions of blank lines one by one would be slow.
   * @returns The index of the first character after the blank lines.
   */
  #skipBlankLines(text: string, at: number, counter: ByteCounter): number {
    blankLines.lastIndex = at;
    const [blank = ''] = blankLines.exec(text) ?? [];
    this.#bytes += counter.between(at, at + blank.length);
    for (const character of blank) if (character === '\n') this.#line += 1;
    return at + blank.length;
  }

  #take(text: string, bytes: number): void {
    this.#restBytes += bytes;
    this.#rest = this.#rest === undefined || this.#restBytes > maxRecordBytes ? undefined : this.#rest + text;
  }

  *#endLine(): Generator<RawRecord> {
    const [text, line] = [this.#rest, this.#line];
    this.#bytes += this.#restBytes;
    this.#line += 1;
    this.#rest = '';
    this.#restBytes = 0;
    const next = { bytes: this.#bytes, line: this.#line };
    if (text === undefined) yield { cells: [], cellCount: 1, line, next, fault: tooLong };
    else if (text.trim() !== '')
      yield { cells: [{ text: text.replace(/^\ufeff|\r$/g, ''), isQuoted: false }], cellCount: 1, line, next };
  }
}
