/**
 * A reusable buffer for the encoded people of one batch. `clear` empties the buffer. One large buffer needs less memory
 * than many small buffers, because V8 frees small buffers late.
 */
export class Arena {
  readonly #bytes: Buffer;
  #used = 0;

  /**
   * Allocates the buffer.
   * @param size the size of the buffer (bytes); when it is full, `keep` allocates a separate buffer for each text
   */
  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  /**
   * Writes a text into the buffer, directly after the previous text. Returns its UTF-8 bytes. They are valid until the
   * next call of `clear`.
   */
  keep(text: string): Buffer {
    if (this.#used + maxCharacterBytes * text.length > this.#bytes.length) return Buffer.from(text);
    const start = this.#used;
    this.#used += this.#bytes.write(text, start);
    return this.#bytes.subarray(start, this.#used);
  }

  /** Removes all texts from the buffer. Bytes that `keep` has returned are invalid from then on. */
  clear(): void {
    this.#used = 0;
  }
}

/** The maximum number of UTF-8 bytes for one UTF-16 unit of a JavaScript string. */
const maxCharacterBytes = 3;

/** Joins buffers into one buffer. Does not copy the bytes if they are adjacent in memory. */
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
