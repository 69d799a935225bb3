import { isUtf8 } from 'node:buffer';

/** Bytes. Limits how long decoding a block occupies the event loop. */
const blockBytes = 64 * 1024;

/** A byte that is not valid in its place is decoded as a lone surrogate, which no valid text has. */
export const invalidByte = /\p{Surrogate}/u;

const firstEscape = 0xdc00;

/**
 * Decodes UTF-8 in blocks of up to 64 KiB.
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

/** Returns how many bytes at the end belong to an incomplete character. */
export function unfinishedLength(bytes: Buffer): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length += 1) {
    const byte = bytes[bytes.length - length]!;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < characterLength(byte) ? length : 0;
  }
  return 0;
}

/** From the first byte. */
const characterLength = (first: number): number => (first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1);
