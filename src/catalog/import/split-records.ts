import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** One record of a file: either its bytes, or the reason why it cannot be read. */
export interface RawRecord {
  /** The number of the record's first line. The first line of the file is 1. */
  line: number;
  /** The position directly after this record in the uncompressed file (bytes). */
  end: number;
  /** The record without its line break. */
  bytes?: Buffer;
  /** The reason why the record cannot be read. */
  fault?: string;
}

/**
 * The maximum length of a record in an imported file (bytes). Longer records are rejected, which limits the memory that
 * an import needs.
 */
export const maxRecordBytes = 1024 * 1024;

/**
 * A function that finds the end of the first record in the bytes. Returns the index of the line break after the record,
 * `'more'` if the record is not complete yet, or the reason why the record is invalid (`fault`).
 * @param isLast true if the bytes are the last bytes of the file
 */
export type FindEnd = (bytes: Buffer, isLast: boolean) => number | 'more' | { fault: string };

const lineBreak = 0x0a;

/** Returns the index of the next line break, which ends an NDJSON record, or `'more'` if the bytes contain none. */
export const endOfLine: FindEnd = (bytes) => {
  const end = bytes.indexOf(lineBreak);
  return end < 0 ? 'more' : end;
};

/**
 * Splits a stream of bytes into records. Keeps at most one record and one chunk in memory. If a record is invalid,
 * yields the reason (`fault`) and continues with the next line.
 * @param findEnd finds the end of a record in the format of this file
 */
export async function* splitRecords(chunks: AsyncIterable<Buffer>, findEnd: FindEnd): AsyncGenerator<RawRecord[]> {
  const splitter = new Splitter(findEnd);
  for await (const chunk of chunks) yield splitter.take(chunk);
  yield splitter.end();
}

class Splitter {
  readonly #findEnd: FindEnd;
  #rest: Buffer = Buffer.alloc(0);
  #line = 1;
  #passed = 0;
  /** True while the splitter skips the rest of an invalid record, up to the next line break. */
  #skipping = false;

  constructor(findEnd: FindEnd) {
    this.#findEnd = findEnd;
  }

  take(chunk: Buffer): RawRecord[] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    return this.#records(false);
  }

  end(): RawRecord[] {
    const records = this.#records(true);
    if (this.#rest.length === 0) return records;
    return [...records, this.#pass(this.#rest.length, this.#skipping ? undefined : {})].filter(
      (record) => record !== undefined,
    );
  }

  #records(isLast: boolean): RawRecord[] {
    const records: RawRecord[] = [];
    for (let record = this.#next(isLast); record !== 'more'; record = this.#next(isLast))
      if (record) records.push(record);
    return records;
  }

  #next(isLast: boolean): RawRecord | undefined | 'more' {
    if (this.#rest.length === 0) return 'more';
    if (this.#skipping) return this.#skip();
    const end = this.#findEnd(this.#rest, isLast);
    if (typeof end === 'number') return end > maxRecordBytes ? this.#refuse('is too long') : this.#pass(end + 1, {});
    if (end !== 'more') return this.#refuse(end.fault);
    return this.#rest.length > maxRecordBytes ? this.#refuse('is too long, or a quote is never closed') : 'more';
  }

  /**
   * Removes the first line from the buffer, and returns it as an invalid record.
   * @param fault the reason why the record is invalid
   */
  #refuse(fault: string): RawRecord {
    const end = this.#rest.indexOf(lineBreak);
    this.#skipping = end < 0;
    return this.#pass(end < 0 ? this.#rest.length : end + 1, { fault })!;
  }

  /**
   * Removes the rest of an invalid line from the buffer. Returns `'more'` if the end of the line has not arrived yet.
   */
  #skip(): 'more' | undefined {
    const end = this.#rest.indexOf(lineBreak);
    this.#skipping = end < 0;
    this.#pass(end < 0 ? this.#rest.length : end + 1, undefined);
    return end < 0 ? 'more' : undefined;
  }

  /**
   * Removes the first `length` bytes from the buffer. Returns them as a record, or returns undefined if they belong to
   * no record.
   * @param found `{}` for a valid record, `{ fault }` for an invalid record, undefined for bytes that belong to no
   *   record
   */
  #pass(length: number, found: { fault?: string } | undefined): RawRecord | undefined {
    const bytes = this.#rest.subarray(0, length);
    const line = this.#line;
    this.#rest = this.#rest.subarray(length);
    this.#passed += length;
    this.#line += countLineBreaks(bytes);
    if (!found) return undefined;
    return {
      line,
      end: this.#passed,
      ...(found.fault === undefined ? { bytes: withoutLineBreak(bytes) } : { fault: found.fault }),
    };
  }
}

function countLineBreaks(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(lineBreak); at >= 0; at = bytes.indexOf(lineBreak, at + 1)) count += 1;
  return count;
}

function withoutLineBreak(bytes: Buffer): Buffer {
  const end = bytes.at(-1) === lineBreak ? bytes.length - 1 : bytes.length;
  return bytes.subarray(0, bytes[end - 1] === 0x0d ? end - 1 : end);
}

/**
 * Decompresses a stream if it is gzip (RFC 1952), and yields its bytes. Recognises gzip by the first two bytes of the
 * stream.
 */
export async function* gunzipIfPacked(stream: Readable): AsyncGenerator<Buffer> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await firstBytes(chunks);
  const all = followed(first, chunks);
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  yield* isPacked ? (pipeline(all, createGunzip(), () => undefined) as unknown as AsyncIterable<Buffer>) : all;
}

/**
 * Reads a stream until at least two bytes have arrived, which are enough to recognise gzip. Returns all bytes that have
 * arrived. These are fewer than two only if the stream has ended.
 */
async function firstBytes(chunks: AsyncIterator<Buffer>): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  while (bytes.length < 2) {
    const { value, done } = await chunks.next();
    if (done) break;
    bytes = Buffer.concat([bytes, value]);
  }
  return bytes;
}

async function* followed(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
}
