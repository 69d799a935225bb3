/**
 * A reusable buffer for the encoded people of one batch. One large buffer needs less memory than many small ones, which
 * V8 frees late.
 */
export class Arena {
  readonly #bytes: Buffer;
  #used = 0;

  /** @param size bytes; when it is full, `keep` allocates a separate buffer for each text */
  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  /** Returns the text's UTF-8 bytes, directly after those of the previous. They are valid until the next `clear`. */
  keep(text: string): Buffer {
    if (this.#used + maxCharacterBytes * text.length > this.#bytes.length) return Buffer.from(text);
    const start = this.#used;
    this.#used += this.#bytes.write(text, start);
    return this.#bytes.subarray(start, this.#used);
  }

  /** Bytes that `keep` has returned are invalid from then on. */
  clear(): void {
    this.#used = 0;
  }
}

/** UTF-8 bytes for one UTF-16 unit. */
const maxCharacterBytes = 3;

/** Does not copy bytes that are adjacent in memory. */
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
