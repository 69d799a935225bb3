let last: Promise<void> = Promise.resolve();

/**
 * Interrupts a long computation until the event loop has handled the waiting requests and responses. Only one
 * computation resumes per round of the loop, so many computations together delay a request by one time slice at most.
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

/** How long a computation may run before it lets the event loop handle other work (ms). */
const timeSliceMs = 10;

/** Measures how long a computation has blocked the event loop. */
export class TimeSlice {
  #since = performance.now();

  /** True if the computation has blocked the event loop long enough and should call `pause`. */
  get isOver(): boolean {
    return performance.now() - this.#since >= timeSliceMs;
  }

  /** Lets the event loop handle waiting work, then starts a new time slice. */
  async pause(): Promise<void> {
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}
