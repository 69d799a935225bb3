let last: Promise<void> = Promise.resolve();

/**
 * Lets the event loop handle other requests and responses, then resolves. A long computation must await it regularly,
 * so that it does not block requests.
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

/** Measures how long a computation has run without a pause. During this time it blocks the event loop. */
export class TimeSlice {
  #since = performance.now();

  /** True if the computation has run for `timeSliceMs` without a pause and must now call `pause`. */
  get isOver(): boolean {
    return performance.now() - this.#since >= timeSliceMs;
  }

  /** Lets the event loop handle waiting requests and responses, then restarts the measurement. */
  async pause(): Promise<void> {
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}
