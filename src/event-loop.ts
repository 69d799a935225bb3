let last: Promise<void> = Promise.resolve();

/**
 * Resolves after the event loop has handled waiting requests and responses. A long computation awaits it from time to
 * time, so that it does not block requests.
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

/** How long a computation may block the event loop before it must let other work run (ms). */
const timeSliceMs = 10;

/** Measures how long a computation has blocked the event loop since its last pause. */
export class TimeSlice {
  #since = performance.now();

  /** True if the computation has run for `timeSliceMs` without a pause. It should then call `pause`. */
  get isOver(): boolean {
    return performance.now() - this.#since >= timeSliceMs;
  }

  /** Lets the event loop handle waiting requests and responses, then restarts the measurement. */
  async pause(): Promise<void> {
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}
