import { LRUCache } from 'lru-cache';

const manyUses = 5;
/** Frequent texts in one period. A server process of PostgreSQL keeps a plan of some 50 KiB for each. */
const most = 64;
/** Milliseconds after which others may become frequent. Longer than the life of a connection, which keeps its plans. */
const period = 3_600_000;

/** Finds out which texts are used often, of any number of texts that callers make. */
export class FrequentTexts {
  readonly #uses = new LRUCache<string, number>({ max: 500 });
  readonly #frequent = new Set<string>();
  #since = performance.now();

  has(text: string): boolean {
    const now = performance.now();
    if (now - this.#since > period) {
      this.#frequent.clear();
      this.#since = now;
    }
    if (this.#frequent.has(text)) return true;
    if (this.#frequent.size >= most) return false;
    const uses = (this.#uses.get(text) ?? 0) + 1;
    this.#uses.set(text, uses);
    if (uses < manyUses) return false;
    this.#frequent.add(text);
    return true;
  }
}
