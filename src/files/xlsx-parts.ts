import { Readable } from 'node:stream';
import { fromRandomAccessReaderPromise, RandomAccessReader, type Entry } from 'yauzl';
import { SaxesParser } from 'saxes';
import { FileRefused } from './encodings.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { maxRecordBytes } from './record-formats.ts';

const mebibyte = 1024 * 1024;

/**
 * Maximum size of all unpacked parts of an XLSX file together (bytes). Also limits the text of the rows that are read.
 */
export const maxUnpackedBytes = 512 * mebibyte;
/** Maximum size of the texts that cells share (bytes). They are held in memory. */
export const maxSharedBytes = 64 * mebibyte;
export const maxIndexBytes = 16 * mebibyte;
export const maxRows = 200_000;
export const maxRowNumber = 1_048_576;
export const maxColumnNumber = 16_384;
/** Maximum length of a cell's text (characters): twice the limit of Excel. */
export const maxCellLength = 65_536;

export type PartsFrom = (from: number) => AsyncIterable<Buffer>;

/**
 * Reads ranges of a stored file. Caches the last part, because yauzl reads the directory of a ZIP file in small ranges.
 */
class StoredReader extends RandomAccessReader {
  readonly #partsFrom: PartsFrom;
  #last: { from: number; part: Buffer } = { from: 0, part: Buffer.alloc(0) };
  /** Error from reading the stored file, such as a lost connection. The file itself is not damaged then. */
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

/** Parts of a ZIP file by name. Upper and lower case are the same (ECMA-376, part 2, 6.2.2.3). */
export interface Zip {
  sizeOf(name: string): number | undefined;
  open(name: string): AsyncGenerator<Buffer>;
}

/**
 * Opens a stored ZIP file. Reads only its directory.
 * @param signal stops the unpacking of parts
 * @throws FileRefused if the file is damaged, or too large when unpacked
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

  async function guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (reader.failure !== undefined) throw reader.failure;
      if (error instanceof FileRefused) throw error;
      throw damaged();
    }
  }
}

export interface XmlHandler {
  open?(name: string, attributes: Record<string, string>): void;
  close?(name: string): void;
  text?(text: string): void;
}

// Number of characters that are parsed at once. Few, because they can refer to much shared text.
const pieceLength = 1024;
const maxDepth = 100;

const localName = (name: string): string => name.slice(name.indexOf(':') + 1);

/**
 * Parses XML in pieces, and yields after each piece. Rejects document type declarations, which could define entities.
 * @throws FileRefused if the text is not UTF-8, not well-formed or nested too deep, or if one text or tag is too long
 */
export async function* parseXml(chunks: AsyncIterable<Buffer>, handler: XmlHandler): AsyncGenerator<void> {
  const slice = new TimeSlice();
  // Replacements of invalid bytes would be longer than these, and the shared texts have no room for that.
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const parser = new SaxesParser({ position: false });
  /** Number of characters since the last event. The parser keeps them in memory. */
  let held = 0;
  let depth = 0;
  parser.on('error', () => {
    throw damaged();
  });
  parser.on('doctype', () => {
    throw new FileRefused('has a document type declaration, which no Excel file has');
  });
  parser.on('opentag', ({ name, attributes }) => {
    held = 0;
    depth += 1;
    if (depth > maxDepth) throw new FileRefused('is not an XLSX file: it is nested too deep');
    handler.open?.(localName(name), attributes as Record<string, string>);
  });
  parser.on('closetag', ({ name }) => {
    held = 0;
    depth -= 1;
    handler.close?.(localName(name));
  });
  const onText = (text: string): void => {
    held = 0;
    handler.text?.(text);
  };
  parser.on('text', onText);
  parser.on('cdata', onText);
  for await (const chunk of chunks) {
    const text = decodeNext(decoder, chunk);
    for (let at = 0; at < text.length; at += pieceLength) {
      parser.write(text.slice(at, at + pieceLength));
      held += pieceLength;
      if (held > maxRecordBytes) throw new FileRefused('has a cell that is larger than 1 MiB');
      yield;
      if (slice.isOver) await slice.pause();
    }
  }
  decodeNext(decoder);
  parser.close();
  yield;
}

export const saveAgain = 'open it in a spreadsheet program and save it again';

export const damaged = (how = ''): FileRefused =>
  new FileRefused(`is not an XLSX file, or damaged${how}`, undefined, saveAgain);

function decodeNext(decoder: InstanceType<typeof TextDecoder>, chunk?: Buffer): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch {
    throw damaged();
  }
}

export async function readXml(chunks: AsyncIterable<Buffer>, handler: XmlHandler): Promise<void> {
  for await (const _ of parseXml(chunks, handler));
}

interface NumberFormat {
  isDate: boolean;
  /** True if the format shows only a time of day. Values from 24 hours on are then durations, and stay numbers. */
  isTime: boolean;
  digits: number;
}

export interface Formats {
  byStyle: readonly NumberFormat[];
  /** True: dates are days since 1904, as in workbooks of old Macs. */
  from1904: boolean;
}

/**
 * Returns true for the ids of built-in date and time formats (ECMA-376, 18.8.30). Not for 46, the duration `[h]:mm:ss`.
 */
const isBuiltInDate = (id: number): boolean =>
  (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || id === 45 || id === 47 || (id >= 50 && id <= 58);

const isBuiltInTime = (id: number): boolean => (id >= 18 && id <= 21) || id === 45 || id === 47;

/** Returns true for a date or time format such as `dd.mm.yyyy`. Returns false for durations such as `[h]:mm`. */
function isDateFormat(code: string): boolean {
  const [positive = ''] = code.slice(0, 255).split(';', 1);
  if (/\[[hms]+\]/i.test(positive)) return false;
  const letters = lettersOf(code);
  return /[ymdhs]/i.test(letters) && !/general/i.test(letters);
}

const isTimeFormat = (code: string): boolean =>
  isDateFormat(code) && /[hs]/i.test(lettersOf(code)) && !/[yd]/i.test(lettersOf(code));

const lettersOf = (code: string): string =>
  (code.slice(0, 255).split(';', 1)[0] ?? '').replaceAll(/"[^"]*"?|\[[^\]]*\]?|[\\_*]./g, '');

/** Returns the number of digits of a format such as `00000`, which people use for postal codes. Otherwise returns 0. */
const digitsOfFormat = (code: string): number =>
  /^(?:\[[^\]]*\])?(0{2,20})(?:;|$)/.exec(code.slice(0, 255))?.[1]!.length ?? 0;

export const numberFormatOf = (code: string | undefined, id: number): NumberFormat => ({
  isDate: code === undefined ? isBuiltInDate(id) : isDateFormat(code),
  isTime: code === undefined ? isBuiltInTime(id) : isTimeFormat(code),
  digits: digitsOfFormat(code ?? ''),
});

const dayMs = 24 * 60 * 60 * 1000;
const maxSerial = 2_958_465;

/**
 * Converts a serial number (days since 1900 or 1904) to a date, a time, or a date with time, as ISO 8601. Returns
 * undefined if the number is out of range.
 */
export function dateText(serial: number, from1904: boolean): string | undefined {
  if (!(serial >= 0 && serial <= maxSerial)) return undefined;
  const ms = Math.round((serial % 1) * dayMs);
  const time = (): string => new Date(ms).toISOString().slice(11).replace('.000', '');
  if (serial < 1 && !from1904) return time().replace('Z', '');
  // Excel counts a 29 February 1900, which there was not.
  const epoch = from1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, serial < 60 ? 31 : 30);
  const instant = new Date(epoch + Math.floor(serial) * dayMs + ms).toISOString();
  return instant.endsWith('T00:00:00.000Z') ? instant.slice(0, 10) : instant.replace('.000', '');
}

/**
 * Returns a number as spreadsheet programs show it: with 15 digits. Keeps all digits of longer whole numbers, which can
 * be ids.
 */
export function numberText(text: string): string {
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number) || longInteger.test(text)) return text;
  return String(Number(number.toPrecision(15)));
}

export const withZeros = (text: string, digits: number): string =>
  digits > 0 && /^\d+$/.test(text) ? text.padStart(digits, '0') : text;

const longInteger = /^-?[1-9]\d{15,}$/;

/** Converts the ISO 8601 date of a cell: `2024-12-31T00:00:00` → `2024-12-31`. A time without a zone is in UTC. */
export function isoDateText(text: string): string {
  const [, date, time] = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d(?:\.\d+)?)Z?)?$/.exec(text.trim()) ?? [];
  if (date === undefined) return text;
  return time === undefined || /^00:00:00(?:\.0+)?$/.test(time) ? date : `${date}T${time.replace(/\.0+$/, '')}Z`;
}

export const unescapeText = (text: string): string =>
  text.includes('_x')
    ? text.replaceAll(/_x([0-9A-Fa-f]{4})_/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    : text;
