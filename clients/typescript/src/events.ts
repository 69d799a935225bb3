import type { Answer, CallOptions, SalesData } from './client.ts';
import { ConnectionError, ResponseError, SalesDataError, TimeoutError } from './errors.ts';
import { sleep } from './transport.ts';
import type { Input, Result, Schemas } from './types.ts';

/** What happened to a record, or another event. */
export type FeedEvent = Schemas['Event'];

/** A page of the feed. It can be empty: nothing has happened for a while, or nothing of the types that were asked for. */
export interface FeedPage {
  events: FeedEvent[];
  /** Continues after these events. Store it when they are handled, in the same transaction if possible. */
  cursor: string;
  /** Whether more can be read at once. */
  hasMore: boolean;
}

/** Which events are read, and where to begin. */
export interface FollowOptions {
  /** The cursor of the last page that was handled. */
  cursor?: string | undefined;
  /** Where to begin without a cursor: `start` (the default), `now` or a time. */
  from?: string;
  /** Only events of these types. Default: all that the key may read. */
  types?: FeedEvent['type'][];
  /** Whether each event has its record as it is now. */
  expand?: boolean;
  /** Maximum number of events in a page. Default: 100. */
  limit?: number;
  /** How long the service waits for an event before it returns an empty page (seconds, at most 20). */
  wait?: number;
  /** Ends the reading with an AbortError. */
  signal?: AbortSignal;
}

/** Longest pause between attempts while the service is unavailable (ms). */
const longestPause = 30_000;

/** The feed of changes. It stores nothing: where to continue is in the cursor of each page. */
export class Feed {
  readonly #api: SalesData;
  readonly #wait: number;

  /** @param timeoutMs maximum time for a call, so calls wait less */
  constructor(api: SalesData, timeoutMs: number) {
    this.#api = api;
    this.#wait = Math.min(20, Math.floor(timeoutMs / 1_500));
  }

  /**
   * Reads the feed for ever, page after page: each event once, those of a record in their order. Waits while nothing
   * happens, and while the service is unavailable after it has responded once.
   *
   *     await api.events.follow({ cursor }, async (events, next) => { … });
   *     for await (const { events, cursor } of api.events.follow({ cursor })) …
   *
   * @param handler is called for each page, also for an empty one. Its error ends the reading
   * @throws CursorExpiredError if events after the cursor are not kept any more: read all records anew
   */
  follow(options?: FollowOptions): AsyncGenerator<FeedPage, never, undefined>;
  follow(
    options: FollowOptions,
    handler: (events: FeedEvent[], cursor: string) => void | Promise<void>,
  ): Promise<never>;
  follow(
    options: FollowOptions = {},
    handler?: (events: FeedEvent[], cursor: string) => void | Promise<void>,
  ): AsyncGenerator<FeedPage, never, undefined> | Promise<never> {
    const pages = this.#pages(options);
    return handler ? handleAll(pages, handler) : pages;
  }

  async *#pages(options: FollowOptions): AsyncGenerator<FeedPage, never, undefined> {
    const { cursor: given, from, limit = 100, signal, wait = this.#wait, ...asked } = options;
    const call = signal ? { signal } : {};
    const body = (cursor: string | undefined) => ({
      ...asked,
      wait,
      paginate: { limit, ...(cursor === undefined ? {} : { cursor }) },
      ...(cursor === undefined && from !== undefined ? { from } : {}),
    });
    for (let cursor = given, hasResponded = false; ; hasResponded = true) {
      const input = { body: body(cursor) };
      const { data, nextCursor, hasMore } = hasResponded
        ? await this.#readAtLast(input, call)
        : await this.#api.request('listEvents', input, call);
      if (!Array.isArray(data) || nextCursor === undefined)
        throw new SalesDataError('The service returned no page of the feed. Is baseUrl the URL of the service?');
      cursor = nextCursor;
      yield { events: data, cursor, hasMore };
    }
  }

  /** Repeats a call until the service is available. */
  async #readAtLast(input: Input<'listEvents'>, call: CallOptions): Promise<Answer<Result<'listEvents'>>> {
    for (let pause = 1_000; ; pause = Math.min(2 * pause, longestPause)) {
      try {
        return await this.#api.request('listEvents', input, call);
      } catch (error) {
        if (!isOutage(error)) throw error;
        await sleep(pause, call.signal);
      }
    }
  }
}

const isOutage = (error: unknown): boolean =>
  error instanceof ConnectionError ||
  error instanceof TimeoutError ||
  (error instanceof ResponseError && [429, 502, 503, 504].includes(error.status));

async function handleAll(
  pages: AsyncGenerator<FeedPage, never, undefined>,
  handler: (events: FeedEvent[], cursor: string) => void | Promise<void>,
): Promise<never> {
  for (;;) {
    const { value } = await pages.next();
    await handler(value.events, value.cursor);
  }
}
