import { SalesDataError, TimeoutError } from './errors.ts';
import { Feed } from './events.ts';
import { operations } from './generated/operations.ts';
import { importFile, type ImportOptions, type ImportResult } from './imports.ts';
import { send, sleep, type Settings } from './transport.ts';
import type {
  BatchItem,
  BatchOperation,
  BatchResult,
  BatchSettings,
  Input,
  Item,
  Operation,
  Paged,
  Result,
} from './types.ts';

/** Settings of a client. */
export type ClientOptions = Pick<Settings, 'baseUrl' | 'key' | 'session'> &
  Partial<Pick<Settings, 'timeoutMs' | 'uploadTimeoutMs' | 'maxRetries' | 'maxRetryMs' | 'fetch'>>;

/** Settings of one call. */
export interface CallOptions {
  /** Ends the call with an AbortError. The service may still execute it. */
  signal?: AbortSignal;
  /** Identifies the call, so that it is executed once however often it is sent. Default: a new one for each call. */
  idempotencyKey?: string;
  /** The version of the record that the call may change, from `etag` of `request`. */
  ifMatch?: string;
}

/** The result of a call with what its headers say. */
export interface Answer<T> {
  data: T;
  /** The version of the record that was read, for `ifMatch`. */
  etag: string | undefined;
  requestId: string | undefined;
  /** The id of the change that the call made, for `undoChange`; undefined if no record changed. Its events have it. */
  changeId: string | undefined;
  /** The cursor of the next page; undefined on the last one. The feed always has one. */
  nextCursor: string | undefined;
  /** Whether the feed has more that can be read at once. */
  hasMore: boolean;
  /** Whether the service had executed this call before, and returns its stored response. */
  isReplayed: boolean;
}

/** Settings for waiting until a job or an import has ended. */
export interface WaitOptions<T> {
  signal?: AbortSignal;
  /** Maximum time to wait in milliseconds. Default: no limit. */
  timeoutMs?: number;
  /** Called with the state whenever it was asked for. */
  onProgress?: (state: T) => void;
}

type Job = Result<'getJob'>;
type Import = Result<'getImport'>;

/** The calls of all operations, by the name of the operation. */
export type Calls = {
  [K in Operation]: object extends Input<K>
    ? (input?: Input<K>, options?: CallOptions) => Promise<Result<K>>
    : (input: Input<K>, options?: CallOptions) => Promise<Result<K>>;
};

interface OperationEntry {
  method: string;
  path: string;
  takes?: string;
  isKeyed?: boolean;
  isRead?: boolean;
  returns: 'json' | 'file' | 'nothing';
  /** The service answers so for an unknown id. */
  mayBeNull?: boolean;
  /** The names of what the query can say. */
  query?: readonly string[];
  /** Where a request for a page says which one it wants. */
  pages?: 'paginate' | 'root' | 'query';
}

/** Maximum number of items in one call of a batch, and the largest body that is sent (the service takes 5 MiB). */
const most = { items: 1_000, bytes: 4.5 * 1024 * 1024 };

/** Records in a page, if the caller does not say how many. */
const pageSize = 100;

/** A client of the Sales Data API. It has a method for every operation. */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- the constructor defines the methods
export class SalesData {
  readonly #settings: Settings;
  /** The feed of changes. */
  readonly events: Feed;

  constructor(options: ClientOptions) {
    this.#settings = {
      timeoutMs: 30_000,
      uploadTimeoutMs: 3_600_000,
      maxRetries: 4,
      maxRetryMs: 120_000,
      fetch: (...given) => globalThis.fetch(...given),
      ...options,
    };
    if (!URL.canParse(this.#settings.baseUrl) || !/^https?:/.test(this.#settings.baseUrl))
      throw new TypeError('baseUrl must be a URL such as https://api.example.com');
    for (const secret of [options.key, options.session])
      if (secret !== undefined && !/^[!-~]+$/.test(secret))
        throw new TypeError('The key or session contains white space or a character that a header cannot have');
    for (const name of Object.keys(operations) as Operation[])
      Object.defineProperty(this, name, {
        value: async (input?: Input<typeof name>, options?: CallOptions) =>
          (await this.request(name, input as never, options)).data,
      });
    this.events = new Feed(this, this.#settings.timeoutMs);
  }

  /** Calls an operation. Unlike the method with its name, it also returns what the headers of the response say. */
  async request<K extends Operation>(name: K, input?: Input<K>, options: CallOptions = {}): Promise<Answer<Result<K>>> {
    const operation: OperationEntry = operations[name];
    const { body, isGzip, ...named } = (input ?? {}) as { body?: unknown; isGzip?: boolean; [name: string]: unknown };
    refuseUnknown(name, operation, named);
    const isUpload = operation.takes === 'application/octet-stream';
    const response = await send(this.#settings, {
      method: operation.method,
      path:
        operation.path.replace(/\{(\w+)\}/g, (_, part: string) => encodeURIComponent(String(named[part]))) +
        queryOf(operation, named),
      headers: {
        ...this.#credentials(),
        ...(operation.takes ? { 'content-type': operation.takes } : {}),
        ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
        ...(operation.isKeyed ? { 'idempotency-key': options.idempotencyKey ?? crypto.randomUUID() } : {}),
        ...(options.ifMatch === undefined ? {} : { 'if-match': options.ifMatch }),
      },
      body: operation.takes === undefined ? undefined : isUpload ? (body as BodyInit) : JSON.stringify(body ?? {}),
      isRepeatable: isRepeatable(operation, options, body),
      isUpload,
      isDownload: operation.returns === 'file',
      signal: options.signal,
    });
    const { headers } = response;
    return {
      data: (await contentOf(operation, response)) as Result<K>,
      etag: headers.get('etag') ?? undefined,
      requestId: headers.get('x-request-id') ?? undefined,
      changeId: headers.get('x-change-id') ?? undefined,
      nextCursor: headers.get('x-next-cursor') ?? undefined,
      hasMore: headers.get('x-more') === 'true',
      isReplayed: headers.get('idempotency-replayed') === 'true',
    };
  }

  #credentials(): Record<string, string> {
    const { key, session } = this.#settings;
    if (key !== undefined) return { authorization: `X-API-Key ${key}` };
    return session === undefined ? {} : { authorization: `Bearer ${session}` };
  }

  /**
   * Returns all records of a list, one after another, and reads further pages when they are needed.
   *
   *     for await (const contact of client.each('listContacts', { body: { filters: { industry: 'Software' } } })) …
   */
  async *each<K extends Paged>(
    name: K,
    input?: Input<K>,
    options: CallOptions = {},
  ): AsyncGenerator<Item<K>, void, undefined> {
    const { pages } = operations[name] as OperationEntry;
    const { body = {}, ...rest } = (input ?? {}) as { body?: Record<string, unknown> };
    const inPlace = { query: rest, root: body, paginate: body['paginate'] ?? {} };
    const given: { limit?: number } = inPlace[pages!];
    const limit = given.limit ?? pageSize;
    for (let place: object = { ...given, limit }; ;) {
      const asked = {
        query: { ...rest, ...place },
        root: { ...rest, body: { ...body, ...place } },
        paginate: { ...rest, body: { ...body, paginate: place } },
      };
      const { data, nextCursor } = await this.request(name, asked[pages!] as unknown as Input<K>, options);
      if (!Array.isArray(data)) throw new SalesDataError(unexpected);
      const records = data as unknown as Item<K>[];
      yield* records;
      if (nextCursor === undefined) return;
      if (nextCursor === (place as { cursor?: string }).cursor)
        throw new SalesDataError('The service returned the same page again.'); // would never end
      place = { limit, cursor: nextCursor };
    }
  }

  /**
   * Sends any number of items in batches of up to 1,000. Returns what became of each item, in the order of the items;
   * `index` counts from the first item. One failed item does not stop the others: look at `status`.
   * @throws the error of a call that failed as a whole. The items of earlier calls are written then: see its `results`
   */
  async batch<K extends BatchOperation>(
    name: K,
    items: readonly BatchItem<K>[],
    settings: BatchSettings<K> = {} as BatchSettings<K>,
    options: Pick<CallOptions, 'signal'> = {},
  ): Promise<BatchResult<K>[]> {
    const results: BatchResult<K>[] = [];
    for (const part of partsOf(items)) {
      const input = { body: { ...settings, items: part } } as unknown as Input<K>;
      const { data } = await this.request(name, input, options).catch((error: unknown) => {
        if (error instanceof SalesDataError) error.results = results as SalesDataError['results'];
        throw error;
      });
      const start = results.length;
      const { results: some } = (data as unknown as { data?: { results?: { index: number }[] } | null }).data ?? {};
      if (!Array.isArray(some)) throw Object.assign(new SalesDataError(unexpected), { results });
      for (const result of some) results.push({ ...result, index: start + result.index } as BatchResult<K>);
    }
    return results;
  }

  /**
   * Waits until a job is COMPLETED, FAILED or CANCELLED, and returns it.
   * @throws TimeoutError if it has not ended in time
   */
  waitForJob(id: string, options: WaitOptions<Job> = {}): Promise<Job> {
    return this.#waitFor((call) => this.request('getJob', { id }, call).then(({ data }) => data), options);
  }

  /**
   * Waits until an import is COMPLETED, FAILED or CANCELLED, and returns it.
   * @throws TimeoutError if it has not ended in time
   */
  waitForImport(id: string, options: WaitOptions<Import> = {}): Promise<Import> {
    return this.#waitFor((call) => this.request('getImport', { id }, call).then(({ data }) => data), options);
  }

  /**
   * Imports contacts from a file (CSV, NDJSON or XLSX): sends it, waits until the import has ended, and returns its
   * numbers. Failed records do not stop the others: `failures()` reads them.
   *
   *     const { created, failures } = await client.importContacts(file, { mode: 'upsert', match: 'work_email', format: 'csv' });
   *
   * @throws ImportFailedError if the import as a whole has failed or was cancelled
   * @throws TimeoutError if it has not ended in time; it goes on
   */
  importContacts(file: BodyInit, options: ImportOptions): Promise<ImportResult> {
    return importFile(this, 'contacts', file, options);
  }

  /** Imports companies from a file, as `importContacts` does contacts. */
  importCompanies(file: BodyInit, options: ImportOptions): Promise<ImportResult> {
    return importFile(this, 'companies', file, options);
  }

  /** Imports products from a file, as `importContacts` does contacts. */
  importProducts(file: BodyInit, options: ImportOptions): Promise<ImportResult> {
    return importFile(this, 'products', file, options);
  }

  /** Imports opportunities from a file, as `importContacts` does contacts. */
  importOpportunities(file: BodyInit, options: ImportOptions): Promise<ImportResult> {
    return importFile(this, 'opportunities', file, options);
  }

  async #waitFor<T extends { status: string }>(
    read: (options: CallOptions) => Promise<T>,
    { signal, timeoutMs = Infinity, onProgress }: WaitOptions<T>,
  ): Promise<T> {
    const end = Date.now() + timeoutMs;
    for (let pause = 250; ; pause = Math.min(pause * 1.5, 5_000)) {
      const state = await read(signal ? { signal } : {});
      onProgress?.(state);
      if (['COMPLETED', 'FAILED', 'CANCELLED'].includes(state.status)) return state;
      const left = end - Date.now();
      if (left <= 0) throw new TimeoutError(`Still ${state.status} after ${timeoutMs} ms`);
      await sleep(Math.min(pause, left), signal);
    }
  }
}

// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- see the class
export interface SalesData extends Calls {}

/** @throws TypeError if something stands beside `body` that the operation does not take, such as `paginate` */
function refuseUnknown(name: string, { path, query = [] }: OperationEntry, named: Record<string, unknown>): void {
  const known = new Set<string>([...query, ...[...path.matchAll(/\{(\w+)\}/g)].map(([, part]) => part!)]);
  const unknown = Object.keys(named).filter((one) => named[one] !== undefined && !known.has(one));
  if (unknown.length === 0) return;
  const allowed = [...known, 'body'].join(', ');
  throw new TypeError(
    `${name} does not take ${unknown.join(', ')} here (allowed: ${allowed}). Put it into the body: { body: { … } }`,
  );
}

/** Returns the query of a URL, with `?`, or an empty text. */
function queryOf({ query = [] }: OperationEntry, named: Record<string, unknown>): string {
  const said = query.filter((name) => named[name] !== undefined).map((name) => [name, String(named[name])]);
  return said.length > 0 ? `?${new URLSearchParams(said).toString()}` : '';
}

/** Returns whether a call can be repeated although the service may have executed it. */
function isRepeatable(
  { method, path, isKeyed, isRead }: OperationEntry,
  { ifMatch }: CallOptions,
  body: unknown,
): boolean {
  if (body instanceof ReadableStream) return false;
  if (isRead || isKeyed || method === 'PUT') return true;
  if (method !== 'PATCH' || path.startsWith('/api/api-key/')) return false; // each rotation makes a key
  // Setting the same values twice changes nothing. With If-Match, the second time would be refused, and so would be adding
  // products to an opportunity or removing them.
  return ifMatch === undefined && !(body as { products?: unknown } | undefined)?.products;
}

/** Message of the error for a successful response that the service does not send. */
const unexpected = 'The response has an unexpected form. Is baseUrl the URL of the service?';

async function contentOf({ returns, mayBeNull }: OperationEntry, response: Response): Promise<unknown> {
  if (returns === 'nothing') return undefined;
  if (returns === 'file') return response.body!;
  const content: unknown = await response.json().catch((cause: unknown) => {
    throw new SalesDataError('The response is not JSON. Is baseUrl the URL of the service?', { cause });
  });
  if (typeof content !== 'object' || (content === null && !mayBeNull)) throw new SalesDataError(unexpected);
  return content;
}

/** Divides items into parts of up to 1,000 items and 4.5 MiB. */
function* partsOf<T>(items: readonly T[]): Generator<T[]> {
  let [part, bytes] = [[] as T[], 0];
  for (const item of items) {
    const size = new TextEncoder().encode(JSON.stringify(item)).length + 1;
    if (part.length > 0 && (part.length === most.items || bytes + size > most.bytes)) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(item);
    bytes += size;
  }
  if (part.length > 0) yield part;
}
