import { isUtf8, isAscii } from 'node:buffer';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { countLineBreaks } from './record-formats.ts';
import type { Import, ImportFormat, InvalidValues, Mapping } from '../schemas/imports.ts';
import { importedFields } from '../schemas/files.ts';
import type { DeclaredField } from '../schemas/wire.ts';
import { columnNamed, fullNameColumn, noteColumn, type FileColumn } from './columns.ts';

/** Thrown to reject a whole file. The message tells the user what is wrong with the file. */
export class FileRefused extends Error {
  readonly reason: string;
  readonly line: number | undefined;

  constructor(reason: string, line?: number, advice?: string) {
    const place = line === undefined ? '' : ` (line ${line})`;
    super(`the file ${reason}${place}${advice === undefined ? '' : `: ${advice}`}`);
    this.reason = reason;
    this.line = line;
  }
}

export class NothingToRead extends FileRefused {
  constructor() {
    super('has no header line');
  }
}

// A larger block would occupy the event loop for longer.
const blockBytes = 64 * 1024;

/** Matches the lone surrogate by which `textBlocks` replaces an invalid byte. Valid text has no lone surrogates. */
export const invalidByte = /\p{Surrogate}/u;

const firstEscape = 0xdc00;

/**
 * Decodes UTF-8 in blocks of up to 64 KiB. Replaces each invalid byte by a lone surrogate (see `invalidByte`).
 * @param chunks of any size; the first must begin at the start of a character
 */
export async function* textBlocks(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += blockBytes) {
      const piece = chunk.subarray(at, at + blockBytes);
      const block = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      const length = block.length - unfinishedLength(block);
      yield decode(block.subarray(0, length));
      rest = block.subarray(length);
    }
    // The next chunk may overwrite the memory of this one.
    rest = Buffer.from(rest);
  }
  if (rest.length > 0) yield decode(rest);
}

function decode(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString();
  let text = '';
  let start = 0;
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at]!;
    const next = at + characterLength(byte);
    if (byte >= 0x80 && !isUtf8(bytes.subarray(at, next))) {
      text += bytes.toString('utf8', start, at) + String.fromCharCode(firstEscape + byte);
      at += 1;
      start = at;
    } else at = next;
  }
  return text + bytes.toString('utf8', start);
}

function unfinishedLength(bytes: Buffer): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length += 1) {
    const byte = bytes[bytes.length - length]!;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < characterLength(byte) ? length : 0;
  }
  return 0;
}

const characterLength = (first: number): number => (first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1);

const marks: readonly (readonly [name: string, mark: readonly number[]])[] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
];

export const encodingOfMark = (start: Uint8Array): string | undefined =>
  marks.find(([, mark]) => mark.every((byte, i) => start[i] === byte))?.[0];

export function encodingNamed(label: string): string | undefined {
  try {
    return new TextDecoder(label).encoding;
  } catch {
    return undefined;
  }
}

/**
 * Decodes a file in blocks of up to 64 KiB.
 * @throws FileRefused if a byte is invalid in the encoding. In UTF-8, only the record with the invalid byte is faulty
 */
export const textsOf = (chunks: AsyncIterable<Buffer>, encoding: string): AsyncGenerator<string> =>
  encoding === 'utf-8' ? textBlocks(chunks) : decoded(chunks, encoding);

async function* decoded(chunks: AsyncIterable<Buffer>, encoding: string): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  let lines = 1;
  let endsWithCr = false;
  for await (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += blockBytes) {
      const block = chunk.subarray(at, at + blockBytes);
      const text = decode(block, true);
      yield text;
      // A CR at the end of a block and the LF after it are one line break.
      lines += countLineBreaks(text, true) - (endsWithCr && text.startsWith('\n') ? 1 : 0);
      endsWithCr = text.endsWith('\r');
    }
  yield decode(new Uint8Array(), false);

  function decode(block: Uint8Array, stream: boolean): string {
    try {
      return decoder.decode(block, { stream });
    } catch {
      throw invalidBytes(encoding, lines + linesBeforeFault(encoding, block));
    }
  }
}

/** Counts the line breaks before the first invalid byte of a block. The block may start within a character. */
function linesBeforeFault(encoding: string, block: Uint8Array): number {
  const text = new TextDecoder(encoding).decode(block);
  return countLineBreaks(text.slice(0, Math.max(0, text.indexOf('\ufffd', 3))), true);
}

export const invalidBytes = (encoding: string, line: number, advice = nameEncoding): FileRefused =>
  new FileRefused(`is not valid ${encoding.toUpperCase()}`, line, advice);

const nameEncoding = 'save it in one encoding, or name the encoding that it has, such as windows-1252';

type Encode = (text: string) => Buffer;

/**
 * Returns an encoder. Falls back to UTF-8 for encodings that cannot be written. Writes `?` for characters that the
 * encoding lacks.
 * @returns `mark`: the byte order mark, the first bytes of the file. `encoding`: the encoding that is used
 */
export function encoderOf(encoding: string): { encoding: string; mark: Buffer; encode: Encode } {
  const mark = Buffer.from(marks.find(([name]) => name === encoding)?.[1] ?? []);
  switch (encoding) {
    case 'utf-8':
      return { encoding, mark, encode: (text) => Buffer.from(text) };
    case 'utf-16le':
      return { encoding, mark, encode: (text) => Buffer.from(text, 'utf16le') };
    case 'utf-16be':
      return { encoding, mark, encode: (text) => Buffer.from(text, 'utf16le').swap16() };
    default: {
      const codes = codesOf(encoding);
      return codes ? { encoding, mark, encode: (text) => encodeBy(codes, text) } : encoderOf('utf-8');
    }
  }
}

/**
 * Encodings in which this program cannot write files. The bytes of a character depend on the characters before it, or a
 * character can take four bytes.
 */
const unwritable: ReadonlySet<string> = new Set(['iso-2022-jp', 'gb18030', 'x-user-defined']);

function codesOf(encoding: string): Map<string, number> | undefined {
  if (unwritable.has(encoding)) return undefined;
  const codes = new Map<string, number>();
  const decoder = new TextDecoder(encoding, { fatal: true });
  const add = (code: number, bytes: readonly number[]): void => {
    try {
      const text = decoder.decode(Uint8Array.from(bytes));
      if ([...text].length === 1 && !codes.has(text)) codes.set(text, code);
    } catch {
      // These bytes mean no character.
    }
  };
  for (let byte = 0; byte < 256; byte += 1) add(byte, [byte]);
  if (!multibyte.has(encoding)) return codes;
  for (let first = 0x81; first < 0xff; first += 1)
    for (let second = 0x40; second < 0xff; second += 1) add(first * 256 + second, [first, second]);
  return codes;
}

const multibyte: ReadonlySet<string> = new Set(['gbk', 'big5', 'euc-jp', 'shift_jis', 'euc-kr']);

function encodeBy(codes: ReadonlyMap<string, number>, text: string): Buffer {
  const bytes: number[] = [];
  for (const character of text) {
    const code = codes.get(character) ?? 0x3f;
    if (code > 0xff) bytes.push(code >> 8);
    bytes.push(code & 0xff);
  }
  return Buffer.from(bytes);
}

export async function* gunzipIfPacked(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const chunks = stream[Symbol.asyncIterator]();
  const first = await firstBytes(chunks);
  const all = followed(first, chunks);
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  yield* isPacked ? (pipeline(all, createGunzip(), () => undefined) as unknown as AsyncIterable<Buffer>) : all;
}

export const isGzipFault = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('Z_');

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
  try {
    if (first.length > 0) yield first;
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
  } finally {
    // Whoever stops early ends the source, too: it may have a request to drain.
    await rest.return?.();
  }
}

export interface FoundFile {
  format: 'csv' | 'ndjson' | 'xlsx' | undefined;
  /**
   * The encoding of the byte order mark. Without a mark, `utf-8` if the file is NDJSON or its bytes are UTF-8 (see
   * `faultsPerCharacter`), otherwise `windows-1252`. Undefined for XLSX.
   */
  encoding: string | undefined;
  hasMark: boolean;
}

const startBytes = 4 * 1024;

/**
 * A file counts as damaged UTF-8 if it has fewer invalid bytes than this for each valid multi-byte character. With
 * more, it has another encoding.
 */
const faultsPerCharacter = 10;

/** Detects the format and the encoding of a file. Call `add` with each chunk, then read `found`. */
export class FileProbe {
  readonly #given: ImportFormat;
  #start: Buffer = Buffer.alloc(0);
  #isUtf8 = true;
  #characters = 0;
  #faults = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(format: ImportFormat) {
    this.#given = format;
  }

  add(chunk: Buffer): void {
    if (this.#start.length < startBytes)
      this.#start = Buffer.concat([this.#start, chunk.subarray(0, startBytes - this.#start.length)]);
    if (this.isZip) return;
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const length = bytes.length - unfinishedLength(bytes);
    const whole = bytes.subarray(0, length);
    if (!isAscii(whole)) this.#count(whole);
    this.#rest = Buffer.from(bytes.subarray(length));
  }

  #count(bytes: Buffer): void {
    const isValid = isUtf8(bytes);
    this.#isUtf8 &&= isValid;
    // Each invalid byte becomes one of these characters, which needs three bytes.
    const text = isValid ? bytes : Buffer.from(bytes.toString());
    let characters = 0;
    for (const byte of text) if (byte >= 0xc0) characters += 1;
    const faults = isValid ? 0 : bytes.toString().split('\ufffd').length - 1;
    this.#characters += characters - faults;
    this.#faults += faults;
  }

  get isZip(): boolean {
    return (
      this.#start.length >= 4 &&
      (this.#start.readUInt32LE() === 0x04034b50 || this.#start.readUInt32LE() === 0x06054b50)
    );
  }

  get found(): FoundFile {
    if (this.isZip) return { format: 'xlsx', encoding: undefined, hasMark: false };
    const mark = encodingOfMark(this.#start);
    const format = this.#textFormat(mark ?? 'latin1');
    // An unfinished character at the end is not valid.
    const isUtf8Whole = this.#isUtf8 && this.#rest.length === 0;
    // Texts have tabs and line breaks, and no other control characters.
    const isText = !this.#start.some((byte) => byte < 9 || (byte > 13 && byte < 32));
    const isDamaged = isText && this.#characters * faultsPerCharacter > this.#faults;
    // JSON is UTF-8 (RFC 8259 §8.1): one invalid byte must not change how all others are read.
    const isNdjson = (this.#given === 'auto' ? format : this.#given) === 'ndjson';
    const encoding = mark ?? (isUtf8Whole || isDamaged || isNdjson ? 'utf-8' : 'windows-1252');
    return { format, encoding, hasMark: mark !== undefined };
  }

  #textFormat(encoding: string): FoundFile['format'] {
    const text = new TextDecoder(encoding).decode(this.#start);
    if (text === '') return undefined;
    return text.trimStart().startsWith('{') ? 'ndjson' : 'csv';
  }
}

export interface ImportFile extends Pick<Import, 'object' | 'mode' | 'match' | 'format'> {
  encoding: string;
  /** Encoding detected from the bytes of the file. Null for XLSX, and until the upload is complete. */
  found_encoding: string | null;
  /**
   * Field of each header in a CSV or XLSX file; null ignores the column. A header without an entry is itself the field
   * name.
   */
  mapping: Mapping | null;
  guess: boolean;
  has_header: boolean;
  /**
   * True: columns that name no field are ignored. False: they make the import fail, unless fields are guessed
   * (`guess`).
   */
  ignore_unknown: boolean;
  /** Whether invalid values make their record fail or are skipped. Null: the default of the format. */
  invalid_values: InvalidValues | null;
  declared?: readonly DeclaredField[];
  takesNotes?: boolean;
}

export function importColumn(object: ImportFile['object'], field: string): FileColumn | undefined {
  if (object === 'contacts' && field === fullNameColumn.name) return fullNameColumn;
  if ((object === 'contacts' || object === 'companies') && field === noteColumn.name) return noteColumn;
  return columnNamed(importedFields[object], field);
}

export const declaredColumn = ({ declared }: ImportFile, field: string | null): DeclaredField | undefined =>
  declared?.find(({ key }) => field === `custom_fields.${key}`);

/** Returns what happens to an invalid value. `skip`: it is omitted with a warning. `fail`: its record fails. */
export const invalidValuesOf = ({ format, invalid_values: given }: ImportFile): InvalidValues =>
  given ?? (format === 'ndjson' ? 'fail' : 'skip');

/** Returns true if records of the file could have notes (contacts and companies), but the import may not create any. */
export const takesNoNotes = ({ object, format, takesNotes }: ImportFile): boolean =>
  !takesNotes && format !== 'ndjson' && importColumn(object, noteColumn.name) !== undefined;

/**
 * Returns the fields that an import ignores: read-only fields such as `score`, and `id` if records are not matched by
 * it.
 */
export function ignoredFields(file: ImportFile): ReadonlySet<string> {
  const { shown, create } = importedFields[file.object];
  const written = new Set<string | null>([...Object.keys(create.properties), file.match]);
  return new Set(Object.keys(shown.properties).filter((name) => !written.has(name)));
}
