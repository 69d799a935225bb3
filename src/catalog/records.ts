import { createGunzip } from 'node:zlib';
import { pipeline } from 'node:stream';
import type { Readable } from 'node:stream';

/** One record of a file: its bytes without the line break, or what keeps it from being one. */
export interface RawRecord {
  /** Of its first line, from 1. */
  line: number;
  /** How many bytes of the (unpacked) file have passed with it. */
  end: number;
  bytes?: Buffer;
  fault?: string;
}

/** A record may not be longer, in bytes: what is held at a time is bounded. */
export const longestRecord = 1024 * 1024;

/** Finds where the record at the start of the bytes ends: the index of its line break, that there is none yet, or why it is none. */
export type FindEnd = (bytes: Buffer, isLast: boolean) => number | 'more' | { fault: string };

const lineBreak = 0x0a;

/** A record a line. */
export const endOfLine: FindEnd = (bytes) => {
  const end = bytes.indexOf(lineBreak);
  return end < 0 ? 'more' : end;
};

/**
 * Splits a stream into records, holding one record and one chunk at most. A record that is none costs its first line only:
 * reading goes on with the next.
 * @param findEnd makes the splitter of a format; called anew for each record
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
  /** Inside a line that is too long to be held. */
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
    if (typeof end === 'number') return end > longestRecord ? this.#refuse('is too long') : this.#pass(end + 1, {});
    if (end !== 'more') return this.#refuse(end.fault);
    return this.#rest.length > longestRecord ? this.#refuse('is too long, or a quote is never closed') : 'more';
  }

  /** Gives up the first line. */
  #refuse(fault: string): RawRecord {
    const end = this.#rest.indexOf(lineBreak);
    this.#skipping = end < 0;
    return this.#pass(end < 0 ? this.#rest.length : end + 1, { fault })!;
  }

  #skip(): 'more' | undefined {
    const end = this.#rest.indexOf(lineBreak);
    this.#skipping = end < 0;
    this.#pass(end < 0 ? this.#rest.length : end + 1, undefined);
    return end < 0 ? 'more' : undefined;
  }

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

/** The bytes of a stream, unpacked when they are gzip's (RFC 1952), whatever the file is called. */
export async function* unpacked(stream: Readable): AsyncGenerator<Buffer> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await firstBytes(chunks);
  const all = followed(first, chunks);
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  yield* isPacked ? (pipeline(all, createGunzip(), () => undefined) as unknown as AsyncIterable<Buffer>) : all;
}

/** Enough to recognise a format by. */
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
