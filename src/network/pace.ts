/** Measures how fast a number of bytes grows, at regular times. */
export class Pace {
  readonly #span: number;
  #measured: number[] = [];

  constructor(span: number) {
    this.#span = span;
  }

  reset(): void {
    this.#measured = [];
  }

  /**
   * Returns by how many bytes the number grew during the last `span` intervals, or Infinity if the first measurement is
   * not as old.
   */
  add(bytes: number): number {
    // The number never decreases. If it seems to, the earlier measurements were too high.
    this.#measured = [...this.#measured.map((earlier) => Math.min(earlier, bytes)), bytes].slice(-this.#span - 1);
    return this.#measured.length > this.#span ? bytes - this.#measured[0]! : Infinity;
  }
}
