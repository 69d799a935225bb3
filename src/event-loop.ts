let last: Promise<void> = Promise.resolve();

/**
 * Resolves in a later round of the event loop, after requests and answers that are waiting were served. Only one caller
 * goes on in each round: however many compute at once, nothing else waits for more than one stretch of their work.
 */
export function nextRound(): Promise<void> {
  last = last.then(
    () =>
      new Promise<void>((resolve) => {
        setImmediate(resolve);
      }),
  );
  return last;
}

/** Longest stretch (ms) of a computation without a pause. */
const stretchMs = 10;

/** Measures how long a computation has had the event loop to itself. */
export class Stretch {
  #since = performance.now();

  /** Whether the computation should pause now. */
  get isOver(): boolean {
    return performance.now() - this.#since >= stretchMs;
  }

  /** Lets others have the event loop, then begins anew. */
  async pause(): Promise<void> {
    await nextRound();
    this.#since = performance.now();
  }
}
