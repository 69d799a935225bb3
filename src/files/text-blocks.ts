import { isUtf8 } from 'node:buffer';
import { FileRefused } from './file-refused.ts';

/** Maximum size of a block of text (bytes). Limits the time for which parsing one block occupies the event loop. */
const blockBytes = 64 * 1024;

/**
 * Decodes the bytes of a file as UTF-8. Yields the text in blocks of up to 64 KiB. All text before invalid bytes is
 * yielded before the error is thrown.
 * @param chunks The bytes of the file, in chunks of any size. The first chunk must begin at the start of a character.
 * @throws FileRefused if the bytes are not valid UTF-8.
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

/** Returns the number of bytes before the first byte that is not valid UTF-8. */
function validLength(bytes: Buffer): number {
  let length = 0;
  for (;;) {
    const next = length + characterLength(bytes[length]!);
    if (!isUtf8(bytes.subarray(length, next))) return length;
    length = next;
  }
}

/**
 * Returns how many bytes at the end of `bytes` belong to an incomplete UTF-8 character. Returns 0 if the last character
 * is complete.
 */
function unfinishedLength(bytes: Buffer): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length += 1) {
    const byte = bytes[bytes.length - length]!;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < characterLength(byte) ? length : 0;
  }
  return 0;
}

/** Returns the number of bytes of a UTF-8 character with the given first byte. */
const characterLength = (first: number): number => (first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1);
