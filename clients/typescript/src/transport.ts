import { AbortError, ConnectionError, errorOf, ResponseError, SalesDataError, TimeoutError } from './errors.ts';

/** How calls are made. */
export interface Settings {
  /** The URL of the service, such as `https://api.example.com`. */
  baseUrl: string;
  /** The API key. */
  key?: string | undefined;
  /** The token of a session, for the operations that manage API keys. */
  session?: string | undefined;
  /**
   * Maximum time for one attempt in milliseconds. Default: 30 seconds. When a file is downloaded, it is the time for which
   * nothing may arrive.
   */
  timeoutMs: number;
  /** Maximum time for one attempt to upload a file in milliseconds. Default: 1 hour, the limit of the service. */
  uploadTimeoutMs: number;
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
  isUpload: boolean;
  isDownload: boolean;
  signal?: AbortSignal | undefined;
}

/**
 * Makes a call, and repeats it while the service is overloaded or a limit is used up, and after failed connections.
 * @throws ResponseError, ConnectionError, TimeoutError or AbortError
 */
export async function send(settings: Settings, call: Call): Promise<Response> {
  const end = Date.now() + settings.maxRetryMs;
  const most = call.body instanceof ReadableStream ? 0 : settings.maxRetries; // a stream is used up after one attempt
  for (let retries = 0; ; retries += 1) {
    try {
      return await attempt(settings, call);
    } catch (error) {
      const pause = pauseAfter(error, retries, call);
      if (pause === undefined || retries >= most || Date.now() + pause > end) throw error;
      await sleep(pause, call.signal);
    }
  }
}

/** Makes one attempt. */
async function attempt(settings: Settings, call: Call): Promise<Response> {
  const { method, path, headers, body } = call;
  const limit = new TimeLimit(call.isUpload ? settings.uploadTimeoutMs : settings.timeoutMs, call.signal);
  return limit.run(async () => {
    const response = await settings.fetch(settings.baseUrl.replace(/\/+$/, '') + path, {
      method,
      headers,
      redirect: 'error', // never carries the key to another host
      ...(body === undefined ? {} : { body }),
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}), // fetch demands it for streams
      signal: limit.signal,
    });
    if (!response.ok || response.status === 202) throw await errorOf(response);
    if (call.isDownload) return new Response(limitedBody(response, limit), response);
    // The body is read before the time is up, so that a response which stops in the middle is repeated too.
    return new Response(await readBody(response), response);
  });
}

/** Ends what takes too long or is aborted, and throws the errors of this package for it. */
class TimeLimit {
  /** Aborts when the time is up, and with the signal of the call. */
  readonly signal: AbortSignal;
  readonly #late = new AbortController();
  readonly #ms: number;
  readonly #given: AbortSignal | undefined;

  constructor(ms: number, given?: AbortSignal) {
    this.#ms = ms;
    this.#given = given;
    this.signal = given ? AbortSignal.any([given, this.#late.signal]) : this.#late.signal;
  }

  async run<T>(act: () => Promise<T>): Promise<T> {
    const timer = setTimeout(() => this.#late.abort(), Math.min(this.#ms, maxTimerMs));
    try {
      return await act();
    } catch (error) {
      throw this.#translated(error);
    } finally {
      clearTimeout(timer);
    }
  }

  #translated(cause: unknown): SalesDataError {
    if (cause instanceof SalesDataError) return cause;
    if (this.#given?.aborted) return new AbortError(this.#given);
    if (this.#late.signal.aborted) return new TimeoutError(`No response within ${this.#ms} ms`, { cause });
    return new ConnectionError(`The connection failed: ${reasonOf(cause)}`, { cause });
  }
}

/** Longest time of a timer (ms). */
const maxTimerMs = 2 ** 31 - 1;

/** Returns the body of a response. The time limit holds for each piece of it, but not for the time between the reads. */
function limitedBody({ body }: Response, limit: TimeLimit): ReadableStream<Uint8Array> | null {
  const reader = body?.getReader();
  if (!reader) return null;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const { value } = await limit.run(() => reader.read());
        if (value) controller.enqueue(value);
        else controller.close();
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 }, // reads only what is asked for
  );
}

const readBody = async (response: Response): Promise<ArrayBuffer | null> =>
  response.status === 204 ? null : response.arrayBuffer();

function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: unknown };
  return cause instanceof Error ? cause.message : (message ?? String(error));
}

/** Returns how long to wait before the call is repeated (ms); undefined if it must not be. */
function pauseAfter(error: unknown, retries: number, { isRepeatable }: Call): number | undefined {
  if (error instanceof AbortError) return undefined;
  if (!(error instanceof ResponseError)) return isRepeatable ? backOff(retries) : undefined;
  const { status, retryAfter } = error;
  const pause = Math.max((retryAfter ?? 0) * 1000, backOff(retries));
  if (status === 429) return pause; // the service has executed nothing
  // The service also sends 503 if it lost the database while this committed. So it may have executed the call.
  if (!isRepeatable) return undefined;
  if (status === 503) return pause;
  // Another attempt with the same idempotency key is still running.
  const isRunning = status === 409 && error.message.endsWith('is still running');
  return isRunning || status === 502 || status === 504 ? backOff(retries) : undefined;
}

/** Doubles from half a second to 8 seconds. Half of it is random, so that many clients do not repeat at once. */
const backOff = (retries: number): number => Math.min(500 * 2 ** retries, 8_000) * (0.5 + Math.random() / 2);

/** Waits. @throws AbortError if the signal is aborted */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new AbortError(signal));
    const stop = () => {
      clearTimeout(timer);
      reject(new AbortError(signal!));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
