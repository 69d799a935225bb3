import { isAscii, isUtf8 } from 'node:buffer';
import type { ImportFormat } from '../schemas/imports.ts';
import { encodingOfMark } from './encodings.ts';
import { unfinishedLength } from './text-blocks.ts';

/** What a file is, by its bytes. */
export interface FoundFile {
  /** Undefined for an empty file. */
  format: 'csv' | 'ndjson' | 'xlsx' | undefined;
  /**
   * By the byte order mark, else `utf-8` if all bytes are valid or the file is NDJSON, else `windows-1252`. A damaged UTF-8
   * file is `utf-8` too, so that it is refused: it must not be read as something else. Undefined for XLSX.
   */
  encoding: string | undefined;
  /** True if the file begins with a byte order mark. */
  hasMark: boolean;
}

/** Bytes of the start of a file in which its first character is looked for. */
const startBytes = 4 * 1024;

/**
 * In a file of another encoding, bytes are hardly ever valid UTF-8 by chance: with one character of several bytes for so
 * many faults, the file is UTF-8 in part.
 */
const faultsPerCharacter = 10;

/** Detects the format and the encoding of a file while its bytes pass. */
export class FileProbe {
  readonly #given: ImportFormat;
  #start: Buffer = Buffer.alloc(0);
  #isUtf8 = true;
  /** Characters of several bytes. */
  #characters = 0;
  /** Bytes that are not valid UTF-8. */
  #faults = 0;
  /** Bytes of a character that is not complete yet. */
  #rest: Buffer = Buffer.alloc(0);

  /** @param format the one that the caller names, or `auto` */
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

  /** The first bytes are those of a ZIP file. */
  get isZip(): boolean {
    return (
      this.#start.length >= 4 &&
      (this.#start.readUInt32LE() === 0x04034b50 || this.#start.readUInt32LE() === 0x06054b50)
    );
  }

  /** To be read after the last chunk. */
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
