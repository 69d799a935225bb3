/**
 * A reusable buffer for the encoded people of one batch. `clear` removes all texts at once. A separate buffer for each
 * text would cost more memory, because V8 would free them late.
 */
export class Arena {
  readonly #bytes: Buffer;
  #used = 0;

  /**
   * Allocates the buffer.
   * @param size in bytes; a text that does not fit gets a buffer of its own
   */
  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  /** Writes a text directly behind the previous one. Returns its UTF-8 bytes, which are valid until `clear`. */
  keep(text: string): Buffer {
    if (this.#used + maxCharacterBytes * text.length > this.#bytes.length) return Buffer.from(text);
    const start = this.#used;
    this.#used += this.#bytes.write(text, start);
    return this.#bytes.subarray(start, this.#used);
  }

  /** Makes the whole buffer free again. Bytes returned by `keep` are invalid from now on. */
  clear(): void {
    this.#used = 0;
  }
}

/** The most UTF-8 bytes that one UTF-16 unit can take. */
const maxCharacterBytes = 3;

/** Concatenates pieces. Returns a view without copying if they are adjacent in memory, otherwise a copy. */
export function concatenate(pieces: Buffer[]): Buffer {
  const [first] = pieces;
  const areAdjacent = pieces.every(({ buffer, byteOffset }, i) => {
    const before = pieces[i - 1];
    return !before || (buffer === before.buffer && byteOffset === before.byteOffset + before.length);
  });
  if (!first || !areAdjacent) return Buffer.concat(pieces);
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return Buffer.from(first.buffer, first.byteOffset, length);
}
