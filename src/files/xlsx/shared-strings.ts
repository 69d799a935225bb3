import { FileRefused } from '../file-refused.ts';
import { maxCellLength, maxSharedBytes } from './limits.ts';
import { readXml } from './xml.ts';
import type { Zip } from './zip.ts';

/** Texts that cells refer to by number. Held as bytes, because millions of strings would need several times the memory. */
export class SharedStrings {
  readonly #bytes: Buffer;
  #ends = new Uint32Array(1024);
  #count = 0;

  /** @param size at least that of all texts (bytes) */
  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafe(size);
  }

  add(text: string): void {
    if (this.#count === this.#ends.length) {
      const longer = new Uint32Array(this.#count * 2);
      longer.set(this.#ends);
      this.#ends = longer;
    }
    const start = this.#startOf(this.#count);
    this.#ends[this.#count] = start + this.#bytes.write(text.slice(0, maxCellLength + 1), start);
    this.#count += 1;
  }

  /** Returns a text that is too long only as far as `maxCellLength` + 1, and an empty text for a number that no text has. */
  get(number: number): string {
    if (!(number >= 0 && number < this.#count)) return '';
    return this.#bytes.toString('utf8', this.#startOf(number), this.#ends[number]);
  }

  #startOf(number: number): number {
    return number === 0 ? 0 : this.#ends[number - 1]!;
  }
}

/** @throws FileRefused if the texts are too large */
export async function readSharedStrings(zip: Zip, part: string | undefined): Promise<SharedStrings> {
  if (part === undefined) return new SharedStrings(0);
  const size = zip.sizeOf(part)!;
  if (size > maxSharedBytes)
    throw new FileRefused(
      `has more than ${maxSharedBytes / 1024 / 1024} MiB of texts`,
      undefined,
      'save it as CSV, or split it into several files',
    );
  // A text is never longer than the XML in which it is written.
  const strings = new SharedStrings(size);
  let text = '';
  let isText = false;
  let isPhonetic = false;
  await readXml(zip.open(part), {
    open(name) {
      if (name === 'si') text = '';
      else if (name === 'rPh') isPhonetic = true;
      else if (name === 't') isText = !isPhonetic;
    },
    text(piece) {
      if (isText && text.length <= maxCellLength) text += piece;
    },
    close(name) {
      if (name === 'si') strings.add(text);
      else if (name === 'rPh') isPhonetic = false;
      else if (name === 't') isText = false;
    },
  });
  return strings;
}
