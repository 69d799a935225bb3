let last: Promise<void> = Promise.resolve();

/**
 * Returns a promise that resolves after the event loop has handled other events, such as requests. A long computation
 * must await this function regularly, so that requests are not blocked.
 */
export function yieldToEventLoop(): Promise<void> {
  // Calls are queued: one computation resumes per round of the loop, so many together delay a request by one time slice.
  last = last.then(
    () =>
      new Promise<void>((resolve) => {
        setImmediate(resolve);
      }),
  );
  return last;
}

/** Maximum time that a computation may block the event loop without a pause (ms). */
const timeSliceMs = 10;

/** Measures how long a computation has blocked the event loop since its last pause. */
export class TimeSlice {
  #since = performance.now();

  /** True if the computation has run for `timeSliceMs` without a pause. The computation must then call `pause`. */
  get isOver(): boolean {
    return performance.now() - this.#since >= timeSliceMs;
  }

  /** Lets the event loop handle other events, such as requests. Then starts a new measurement. */
  async pause(): Promise<void> {
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}
