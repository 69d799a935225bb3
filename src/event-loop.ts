let last: Promise<void> = Promise.resolve();

/**
 * Yields to the event loop: resolves after the requests and answers that are waiting have been handled. Only one caller
 * resumes per round, so even with many computations nothing waits longer than one time slice.
 */
export function yieldToEventLoop(): Promise<void> {
  last = last.then(
    () =>
      new Promise<void>((resolve) => {
        setImmediate(resolve);
      }),
  );
  return last;
}

/** How long a computation may run without yielding (ms). */
const timeSliceMs = 10;

/** Measures how long a computation has blocked the event loop. */
export class TimeSlice {
  #since = performance.now();

  /** Whether the computation should yield now. */
  get isOver(): boolean {
    return performance.now() - this.#since >= timeSliceMs;
  }

  /** Yields to the event loop, then starts a new time slice. */
  async pause(): Promise<void> {
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}
