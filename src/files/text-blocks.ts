import { isUtf8 } from 'node:buffer';
import { FileRefused } from './file-refused.ts';

/** Maximum size of a block (bytes). One block is scanned without a pause. */
const blockBytes = 64 * 1024;

/**
 * Decodes the bytes of a file. Yields its text in blocks, whatever the sizes of the chunks are. Yields the text before
 * bytes that are not UTF-8, and then throws.
 * @param chunks the bytes; they must begin with a complete character
 * @throws FileRefused if the bytes are not valid UTF-8
 */
export async function* textBlocks(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += blockBytes) {
      const piece = chunk.subarray(at, at + blockBytes);
      const block = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      const length = block.length - unfinishedLength(block);
      yield* decode(block.subarray(0, length));
      rest = block.subarray(length);
    }
    // The next chunk may overwrite the memory of this one.
    rest = Buffer.from(rest);
  }
  if (rest.length > 0) throw new FileRefused(notUtf8);
}

const notUtf8 = 'is not valid UTF-8';

function* decode(bytes: Buffer): Generator<string> {
  const isValid = isUtf8(bytes);
  const text = bytes.toString('utf8', 0, isValid ? bytes.length : validLength(bytes));
  if (text !== '') yield text;
  if (!isValid) throw new FileRefused(notUtf8);
}

/** Returns the length of the text before the first bytes that are not UTF-8 (bytes). */
function validLength(bytes: Buffer): number {
  let length = 0;
  for (;;) {
    const next = length + characterLength(bytes[length]!);
    if (!isUtf8(bytes.subarray(length, next))) return length;
    length = next;
  }
}

/** Returns the number of bytes at the end that begin a character of UTF-8 and do not complete it. */
function unfinishedLength(bytes: Buffer): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length += 1) {
    const byte = bytes[bytes.length - length]!;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < characterLength(byte) ? length : 0;
  }
  return 0;
}

/** Returns the number of bytes of a character of UTF-8, from its first byte. */
const characterLength = (first: number): number => (first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1);
