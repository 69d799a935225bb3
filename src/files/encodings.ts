import { FileRefused } from './file-refused.ts';
import { countLineBreaks } from './record-formats.ts';
import { textBlocks } from './text-blocks.ts';

const marks: readonly (readonly [name: string, mark: readonly number[]])[] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
];

/** Returns the encoding that the byte order mark at the start of a file names. */
export const encodingOfMark = (start: Uint8Array): string | undefined =>
  marks.find(([, mark]) => mark.every((byte, i) => start[i] === byte))?.[0];

/** Returns the name of an encoding for one of its labels (WHATWG Encoding standard), such as `windows-1252` for `latin1`. */
export function encodingNamed(label: string): string | undefined {
  try {
    return new TextDecoder(label).encoding;
  } catch {
    return undefined;
  }
}

/**
 * Decodes text in blocks of up to 64 KiB.
 * @param chunks of any size
 * @throws FileRefused if a byte is not valid in the encoding. Of UTF-8, the record with it has the fault instead
 */
export const textsOf = (chunks: AsyncIterable<Buffer>, encoding: string): AsyncGenerator<string> =>
  encoding === 'utf-8' ? textBlocks(chunks) : decoded(chunks, encoding);

/** Bytes. Limits how long decoding a block occupies the event loop. */
const blockBytes = 64 * 1024;

/** The byte order mark is left out. */
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

/** Line breaks in a block before its first invalid byte. The first bytes may be the end of a character. */
function linesBeforeFault(encoding: string, block: Uint8Array): number {
  const text = new TextDecoder(encoding).decode(block);
  return countLineBreaks(text.slice(0, Math.max(0, text.indexOf('\ufffd', 3))), true);
}

/** @param encoding as shown to callers, such as `utf-16le` */
export const invalidBytes = (encoding: string, line: number, advice = nameEncoding): FileRefused =>
  new FileRefused(`is not valid ${encoding.toUpperCase()}`, line, advice);

const nameEncoding = 'save it in one encoding, or name the encoding that it has, such as windows-1252';

/** Converts a text to bytes. */
export type Encode = (text: string) => Buffer;

/**
 * Returns how a file is written in an encoding. A character that the encoding lacks becomes `?`. An encoding that cannot
 * be written is replaced by UTF-8 with a byte order mark.
 * @returns `mark`: the first bytes of the file. `encoding`: the one that is written
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

/** These change the meaning of later bytes, or have characters of four bytes. */
const unwritable: ReadonlySet<string> = new Set(['iso-2022-jp', 'gb18030', 'x-user-defined']);

/** Returns the bytes of each character (as a number of one or two bytes). */
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
