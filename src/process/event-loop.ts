let last: Promise<void> = Promise.resolve();

/**
 * Lets the event loop handle other events. A long computation must await this regularly, so that requests are not
 * blocked.
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

const timeSliceMs = 10;

export class TimeSlice {
  #since = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#since >= timeSliceMs;
  }

  async pause(): Promise<void> {
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}

/**
 * Runs `work` with an abort controller that also aborts with `outer`. Removes its listener when the work has ended, so
 * `outer` may live as long as the process. `AbortSignal.any` would keep memory that long.
 */
export async function withLinkedAbort<T>(
  outer: AbortSignal | undefined,
  work: (own: AbortController) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  const abort = () => own.abort(outer!.reason);
  if (outer?.aborted) abort();
  outer?.addEventListener('abort', abort);
  try {
    return await work(own);
  } finally {
    outer?.removeEventListener('abort', abort);
  }
}

/**
 * Returns the result of `work`, or that of `late` if it is not finished after `ms` or if `outer` aborts. The signal of
 * `work` then aborts.
 */
export function within<T>(
  ms: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
  late: () => T,
): Promise<T> {
  return withLinkedAbort(outer, async (ending) => {
    if (ending.signal.aborted) return late();
    const { promise: over, resolve } = Promise.withResolvers<void>();
    ending.signal.addEventListener('abort', () => resolve());
    const timer = setTimeout(() => ending.abort(), Math.max(0, ms));
    try {
      // Some work notices the signal late: a client of HTTP only when it has connected.
      return await Promise.race([over.then(late), work(ending.signal)]);
    } finally {
      clearTimeout(timer);
    }
  });
}
