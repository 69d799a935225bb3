/** Measures how fast a number of bytes grows, by measurements that are taken at regular times. */
export class Pace {
  readonly #span: number;
  /** The last measurements, oldest first. */
  #measured: number[] = [];

  /**
   * Creates an object without measurements.
   * @param span The number of intervals between measurements over which the growth is calculated.
   */
  constructor(span: number) {
    this.#span = span;
  }

  /** Forgets all measurements. */
  reset(): void {
    this.#measured = [];
  }

  /**
   * Adds a measurement. Returns by how many bytes the number grew during the last `span` intervals, or Infinity if the
   * first measurement is not as old.
   */
  add(bytes: number): number {
    // The number never decreases. If it seems to, the earlier measurements were too high.
    this.#measured = [...this.#measured.map((earlier) => Math.min(earlier, bytes)), bytes].slice(-this.#span - 1);
    return this.#measured.length > this.#span ? bytes - this.#measured[0]! : Infinity;
  }
}
