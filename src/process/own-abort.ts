/**
 * Runs `work` with an abort controller that also aborts with `outer`. Its listener on `outer` is removed when the work
 * has ended, so `outer` may live as long as the process. (A signal of `AbortSignal.any` that has a listener stays in
 * memory as long as its sources.)
 */
export async function withOwnAbort<T>(
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
