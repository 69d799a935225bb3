import { ConnectionError, errorOf, ResponseError, TimeoutError } from './errors.ts';

/** How calls are made. */
export interface Settings {
  /** The URL of the service, such as `https://api.example.com`. */
  baseUrl: string;
  /** The API key. */
  key?: string | undefined;
  /** The token of a session, for the operations that manage API keys. */
  session?: string | undefined;
  /** Maximum time for one attempt in milliseconds. Default: 30 seconds; files have no limit. */
  timeoutMs: number;
  /** How often a call is repeated at most. Default: 4. */
  maxRetries: number;
  /** Maximum time in milliseconds for which a call is repeated, pauses included. Default: 2 minutes. */
  maxRetryMs: number;
  fetch: typeof globalThis.fetch;
}

/** One call. */
export interface Call {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: BodyInit | undefined;
  /** Whether the call may be repeated although the service may have executed it. */
  isRepeatable: boolean;
  isFile: boolean;
  signal?: AbortSignal | undefined;
}

/**
 * Makes a call, and repeats it while the service is overloaded or a limit is used up, and after failed connections.
 * @throws ResponseError, ConnectionError or TimeoutError; the reason of the signal if it is aborted
 */
export async function send(settings: Settings, call: Call): Promise<Response> {
  const end = Date.now() + settings.maxRetryMs;
  const most = call.body instanceof ReadableStream ? 0 : settings.maxRetries; // a stream is used up after one attempt
  for (let retries = 0; ; retries += 1) {
    const outcome = await attempt(settings, call);
    if (outcome instanceof Response) return outcome;
    const pause = pauseAfter(outcome, retries, call);
    if (pause === undefined || retries >= most || Date.now() + pause > end) throw outcome;
    await sleep(pause, call.signal);
  }
}

/** Makes one attempt. Returns the response, or the error. */
async function attempt(settings: Settings, call: Call): Promise<Response | Error> {
  const { method, path, headers, body, signal } = call;
  const late = new AbortController();
  const timer = call.isFile ? undefined : setTimeout(() => late.abort(), settings.timeoutMs);
  try {
    const response = await settings.fetch(settings.baseUrl.replace(/\/+$/, '') + path, {
      method,
      headers,
      redirect: 'error', // never carries the key to another host
      ...(body === undefined ? {} : { body }),
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}), // fetch demands it for streams
      signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
    });
    if (!response.ok) return await errorOf(response);
    // The body is read before the time is up, so that a response which stops in the middle is repeated too.
    return call.isFile ? response : new Response(await readBody(response), response);
  } catch (cause) {
    signal?.throwIfAborted();
    if (late.signal.aborted) return new TimeoutError(`No response within ${settings.timeoutMs} ms`, { cause });
    return new ConnectionError(`The connection failed: ${reasonOf(cause)}`, { cause });
  } finally {
    clearTimeout(timer);
  }
}

const readBody = async (response: Response): Promise<ArrayBuffer | null> =>
  response.status === 204 ? null : response.arrayBuffer();

function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: unknown };
  return cause instanceof Error ? cause.message : (message ?? String(error));
}

/** Returns how long to wait before the call is repeated (ms); undefined if it must not be. */
function pauseAfter(error: Error, retries: number, { isRepeatable }: Call): number | undefined {
  if (!(error instanceof ResponseError)) return isRepeatable ? backOff(retries) : undefined;
  const { status, retryAfter } = error;
  // With 429 and 503 the service says that it has executed nothing.
  if (status === 429 || status === 503) return Math.max((retryAfter ?? 0) * 1000, backOff(retries));
  // Another attempt with the same idempotency key is still running.
  if (status === 409 && isRepeatable && error.message.endsWith('is still running')) return backOff(retries);
  return isRepeatable && (status === 502 || status === 504) ? backOff(retries) : undefined;
}

/** Doubles from half a second to 8 seconds. Half of it is random, so that many clients do not repeat at once. */
const backOff = (retries: number): number => Math.min(500 * 2 ** retries, 8_000) * (0.5 + Math.random() / 2);

/** Waits. @throws the reason of the signal if it is aborted */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
