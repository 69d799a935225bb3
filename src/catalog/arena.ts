/**
 * Memory for texts that come together and go together. Bytes that live as long as a write takes are freed by V8 late, and
 * the process keeps the most it ever held: used again, they stay as few as they are.
 */
export class Arena {
  readonly #bytes: Buffer;
  #used = 0;

  /** @param size in bytes; texts beyond it are kept elsewhere */
  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  /** Keeps a text, right behind the one before, and answers its UTF-8 bytes, which are good until all are cleared. */
  keep(text: string): Buffer {
    if (this.#used + longestCharacter * text.length > this.#bytes.length) return Buffer.from(text);
    const start = this.#used;
    this.#used += this.#bytes.write(text, start);
    return this.#bytes.subarray(start, this.#used);
  }

  clear(): void {
    this.#used = 0;
  }
}

/** In UTF-8, of a unit of UTF-16 (bytes). */
const longestCharacter = 3;

/** All pieces in one: themselves where they stand one behind the other, else a copy. */
export function joined(pieces: Buffer[]): Buffer {
  const [first] = pieces;
  const areAdjacent = pieces.every(({ buffer, byteOffset }, i) => {
    const before = pieces[i - 1];
    return !before || (buffer === before.buffer && byteOffset === before.byteOffset + before.length);
  });
  if (!first || !areAdjacent) return Buffer.concat(pieces);
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return Buffer.from(first.buffer, first.byteOffset, length);
}
