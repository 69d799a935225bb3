import { Readable } from 'node:stream';
import { fromRandomAccessReaderPromise, RandomAccessReader, type Entry } from 'yauzl';
import { FileRefused } from '../file-refused.ts';
import { maxUnpackedBytes } from './limits.ts';

/** Returns the bytes of a stored file from an offset on, in parts. */
export type PartsFrom = (from: number) => AsyncIterable<Buffer>;

/** Reads ranges of a stored file. Keeps the last part, because the directory of a ZIP file is read in small ranges. */
class StoredReader extends RandomAccessReader {
  readonly #partsFrom: PartsFrom;
  #last: { from: number; part: Buffer } = { from: 0, part: Buffer.alloc(0) };
  /** Why a part could not be read: no fault of the file. */
  failure: unknown;

  constructor(partsFrom: PartsFrom) {
    super();
    this.#partsFrom = partsFrom;
  }

  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(this.#range(start, end), { objectMode: false });
  }

  async *#range(start: number, end: number): AsyncGenerator<Buffer> {
    const { from, part: known } = this.#last;
    let at = start;
    if (at >= from && at < from + known.length) {
      yield known.subarray(at - from, end - from);
      at = Math.min(end, from + known.length);
    }
    if (at >= end) return;
    try {
      for await (const part of this.#partsFrom(at)) {
        this.#last = { from: at, part };
        yield part.subarray(0, end - at);
        at += part.length;
        if (at >= end) return;
      }
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }
}

const maxEntries = 10_000;

const nameOf = (part: string): string => part.toLowerCase();

/** A ZIP file of which single parts are read. Their names are equal without regard to case (ECMA-376, part 2, 6.2.2.3). */
export interface Zip {
  /** Size of an unpacked part (bytes). Undefined: there is no such part. */
  sizeOf(name: string): number | undefined;
  /** Unpacks a part that exists. */
  open(name: string): AsyncGenerator<Buffer>;
}

/**
 * Opens a stored ZIP file. Reads only its directory.
 * @param signal ends the unpacking of parts
 * @throws FileRefused if it is damaged, or unpacked too large
 */
export async function openZip(partsFrom: PartsFrom, bytes: number, signal?: AbortSignal): Promise<Zip> {
  const reader = new StoredReader(partsFrom);
  return guarded(async () => {
    const zip = await fromRandomAccessReaderPromise(reader, bytes, { autoClose: false, lazyEntries: true });
    if (zip.entryCount > maxEntries) throw new FileRefused(`is a ZIP file with more than ${maxEntries} parts`);
    const entries = new Map<string, Entry>();
    let unpacked = 0;
    for await (const entry of zip.eachEntry()) {
      const name = nameOf(entry.fileName);
      if (!entries.has(name)) entries.set(name, entry);
      unpacked += entry.uncompressedSize;
      if (unpacked > maxUnpackedBytes)
        throw new FileRefused(`is larger than ${maxUnpackedBytes / 1024 / 1024} MiB when it is unpacked`);
    }
    return {
      sizeOf: (name) => entries.get(nameOf(name))?.uncompressedSize,
      async *open(name) {
        const stream = await guarded(() => zip.openReadStreamPromise(entries.get(nameOf(name))!));
        const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
        try {
          for (;;) {
            signal?.throwIfAborted();
            const { value, done } = await guarded(() => chunks.next());
            if (done) return;
            yield value;
          }
        } finally {
          stream.destroy();
        }
      },
    };
  });

  /** Turns an error of the library into a fault of the file, unless a part could not be read. */
  async function guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (reader.failure !== undefined) throw reader.failure;
      if (error instanceof FileRefused) throw error;
      throw new FileRefused(
        'is not an XLSX file, or damaged',
        undefined,
        'open it in a spreadsheet program and save it again',
      );
    }
  }
}
