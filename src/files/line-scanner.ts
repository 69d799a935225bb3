import {
  ByteCounter,
  maxRecordBytes,
  tooLong,
  type FilePosition,
  type RawRecord,
  type RecordScanner,
} from './raw-records.ts';

/** Cuts the text of an NDJSON file into its lines. */
export class LineScanner implements RecordScanner {
  #bytes: number;
  #line: number;
  /** The text of the unfinished line; undefined if it is too long. */
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
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      this.#take(text.slice(start, end), counter.between(start, end + 1));
      start = end + 1;
      yield* this.#endLine();
    }
    this.#take(text.slice(start), counter.between(start, text.length));
  }

  *end(): Generator<RawRecord> {
    yield* this.#endLine();
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
