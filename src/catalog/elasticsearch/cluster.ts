import { createRequire } from 'node:module';
import type * as Package from '@elastic/elasticsearch';
import type { errors, estypes, Client } from '@elastic/elasticsearch';
import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable, type DomainError } from '../../errors.ts';
import type { Config } from '../../process/config.ts';
import { ConcurrencyLimiter } from '../../access/concurrency-limiter.ts';
import { catalogCallDuration } from '../../process/metrics.ts';
import { withLinkedAbort } from '../../process/event-loop.ts';
import { serviceItself, type Requester } from '../../access/credentials.ts';

const load = createRequire(import.meta.url);

/** Loads the client of Elasticsearch at its first use. Its 240 modules take a third of a command's start time. */
const elasticsearch = (): typeof Package => load('@elastic/elasticsearch') as typeof Package;

/**
 * What an error of the cluster means for the caller:
 * - `wait`: the cluster cannot run the request now, and has changed nothing. A retry or an operator can help.
 * - `missing`: the index does not exist.
 * - `refused`: the request does not fit the index, so a retry does not help.
 */
type Meaning = 'wait' | 'missing' | 'refused';

/**
 * Meanings of error types whose HTTP status is misleading. For all other types, 401, 429 and statuses from 500 mean
 * `wait`, and any other status means `refused`.
 */
const meanings: Record<string, Meaning> = {
  // A block on writes, reads or metadata that somebody has set. (The block of a nearly full disk has status 429.)
  cluster_block_exception: 'wait',
  index_closed_exception: 'wait',
  // The cluster rejects the service's credentials or permissions: the configuration is wrong, not the catalog.
  security_exception: 'wait',
  // An index cannot be deleted while a snapshot reads it.
  snapshot_in_progress_exception: 'wait',
  // The cluster has reached its limit of shards.
  validation_exception: 'wait',
  index_not_found_exception: 'missing',
};

const meaningOf = (status: number, type: string | undefined): Meaning =>
  meanings[type ?? ''] ?? (status >= 500 || status === 429 || status === 401 ? 'wait' : 'refused');

export class ClusterRefusal extends Error {
  readonly meaning: Exclude<Meaning, 'wait'>;

  constructor(meaning: Exclude<Meaning, 'wait'>, message: string) {
    super(message);
    this.name = 'Refusal';
    this.meaning = meaning;
  }
}

class PartialAnswer extends Error {}

interface Shards {
  timed_out?: boolean;
  _shards?: Pick<estypes.ShardStatistics, 'total' | 'successful' | 'failed'>;
}

function requireAllShards<T extends Shards>(answer: T): T {
  const { timed_out = false, _shards: { total, successful, failed } = { total: 0, successful: 0, failed: 0 } } = answer;
  if (timed_out || failed > 0 || successful < total)
    throw new PartialAnswer(timed_out ? 'the search timed out in the cluster' : 'not all shards responded');
  return answer;
}

/**
 * Returns the cluster's response if no shard failed to refresh. Accepts a copy of a shard that is offline: it gets all
 * writes when it comes back.
 * @throws PartialAnswer if a shard failed
 */
function requireRefreshed<T extends Shards>(answer: T): T {
  const { _shards: shards } = answer;
  if (shards && shards.failed > 0) throw new PartialAnswer('not all shards were refreshed');
  return answer;
}

export function requireAllDocuments<T>(docs: readonly estypes.MgetResponseItem<T>[]): estypes.GetGetResult<T>[] {
  return docs.map((doc) => {
    if ('error' in doc) throw new PartialAnswer('not all documents were read');
    return doc;
  });
}

function isUnavailableError(error: unknown): boolean {
  const known = elasticsearch().errors;
  if (error instanceof known.ResponseError) return meaningOf(error.statusCode ?? 500, typeOf(error)) === 'wait';
  const noAnswers = [known.TimeoutError, known.ConnectionError, known.NoLivingConnectionsError];
  return [...noAnswers, known.DeserializationError, PartialAnswer].some((kind) => error instanceof kind);
}

const typeOf = (error: errors.ResponseError): string | undefined => {
  const body = error.body as { error?: { type?: string } } | undefined;
  return body?.error?.type;
};

/**
 * Runs `work`, and converts errors of the client to our own. They do not contain the request, which has personal data.
 * @throws DomainError `unavailable` if the cluster cannot respond now
 * @throws ClusterRefusal if it rejected the request
 */
async function asDomainErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { ElasticsearchClientError, ResponseError } = elasticsearch().errors;
    if (error instanceof PartialAnswer) throw doesNotAnswer(error);
    if (!(error instanceof ElasticsearchClientError)) throw error;
    const { name } = error;
    if (!(error instanceof ResponseError))
      throw isUnavailableError(error) ? doesNotAnswer(new Error(name)) : new Error(name);
    const type = typeOf(error);
    const text = [name, error.statusCode, type ?? ''].join(' ').trim();
    const meaning = meaningOf(error.statusCode ?? 500, type);
    throw meaning === 'wait' ? doesNotAnswer(new Error(text)) : new ClusterRefusal(meaning, text);
  }
}

const doesNotAnswer = (cause: Error): DomainError =>
  unavailable('The prospect catalog does not answer at the moment', 1, cause);

interface CallOptions {
  requestTimeout: number;
  signal?: AbortSignal;
  retryBackoff: () => number;
}

// By default, the client waits 1 to 2 s before it retries a call on the only node. The call would hold its slot so long.
const retryBackoff = (): number => 0;

export interface Reader {
  /**
   * Runs a read, after a wait if too many reads are running.
   * @throws DomainError `unavailable` if the cluster is down, overloaded or does not respond, or if the wait takes too
   * long
   */
  read<T>(call: Call<T>): Promise<T>;
}

type Call<T> = (client: Client, options: CallOptions) => Promise<T>;

/** Milliseconds for which an import retries its calls. The cluster needs less time to detect a lost node. */
const importRetryTimeoutMs = 300_000;
const askMs = 1_000;
const readQueue = { maxWaiting: 500, maxWaitMs: 1_000 };
const firstPauseMs = 100;
const maxPauseMs = 5_000;

/**
 * Sends calls to a cluster. Retries a broken connection or a status 502 to 504 once, on another node. Limits concurrent
 * reads, and shares them fairly between customers.
 */
export class ClusterClient {
  readonly #client: Client;
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly limiter: ConcurrencyLimiter;
  readonly #closing = new AbortController();

  constructor(config: Config) {
    const { Client } = elasticsearch();
    this.#client = new Client({
      nodes: config.ELASTICSEARCH_URL!.split(','),
      ...(config.ELASTICSEARCH_API_KEY ? { auth: { apiKey: config.ELASTICSEARCH_API_KEY } } : {}),
      maxRetries: 1,
      // The scan for dangerous keys in responses is not needed: the documents were all written by this service.
      disablePrototypePoisoningProtection: true,
    });
    this.limiter = new ConcurrencyLimiter({ name: 'catalog', limit: config.ELASTICSEARCH_READS, ...readQueue });
    this.#readMs = config.ELASTICSEARCH_TIMEOUT_MS;
    this.#writeMs = config.ELASTICSEARCH_BULK_TIMEOUT_MS;
  }

  get maxReadMs(): number {
    return 2 * this.#readMs;
  }

  for(requester: Requester): Reader {
    return {
      read: (call) =>
        asDomainErrors(() => this.limiter.run(requester, () => this.#send(call, this.#readMs, requester.signal))),
    };
  }

  read<T>(call: Call<T>): Promise<T> {
    return this.for({ customerId: serviceItself }).read(call);
  }

  /**
   * Sends an idempotent call, and retries it while the cluster is unavailable.
   * @param retryTimeoutMs maximum time (ms); default: that of an import
   * @throws DomainError `unavailable` after `retryTimeoutMs`
   * @throws ClusterRefusal if a retry would not help
   */
  work<T>(call: Call<T>, retryTimeoutMs = importRetryTimeoutMs): Promise<T> {
    return asDomainErrors(async () => {
      const deadline = performance.now() + retryTimeoutMs;
      for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, maxPauseMs)) {
        try {
          return await this.#send(call, this.#writeMs);
        } catch (error) {
          if (!isUnavailableError(error) || performance.now() + pause > deadline || this.#closing.signal.aborted)
            throw error;
          // A random pause, so that calls that failed together do not retry together.
          await sleep(pause * (0.5 + Math.random()), undefined, { signal: this.#closing.signal });
        }
      }
    });
  }

  /** Returns a reader that retries its calls, as `work` does. */
  retrying(retryTimeoutMs?: number): Reader {
    return { read: (call) => this.work(call, retryTimeoutMs) };
  }

  ask<T>(call: Call<T>): Promise<T> {
    return asDomainErrors(() => this.#send(call, Math.min(this.#readMs, askMs)));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.limiter.close();
    await this.#client.close();
  }

  async #send<T>(call: Call<T>, requestTimeout: number, signal?: AbortSignal): Promise<T> {
    const stop = catalogCallDuration.startTimer();
    try {
      // The call gets its own signal, because the client fires the abort event of its signal when the call times out.
      const answer = await withLinkedAbort(signal, (own) =>
        call(this.#client, { requestTimeout, retryBackoff, signal: own.signal }),
      );
      stop({ outcome: 'ok' });
      return answer;
    } catch (error) {
      stop({ outcome: outcomeOf(error) });
      throw error;
    }
  }
}

function outcomeOf(error: unknown): string {
  const { RequestAbortedError, TimeoutError } = elasticsearch().errors;
  if (error instanceof RequestAbortedError) return 'aborted';
  if (error instanceof TimeoutError) return 'timeout';
  return isUnavailableError(error) ? 'trouble' : 'error';
}

export async function refresh(nodes: ClusterClient, index: string | string[], retryTimeoutMs?: number): Promise<void> {
  const ask = { index, ignore_unavailable: true };
  await nodes.work(
    async (client, options) => requireRefreshed(await client.indices.refresh(ask, options)),
    retryTimeoutMs,
  );
}

export const changeSettings = (
  nodes: ClusterClient,
  index: string,
  settings: estypes.IndicesIndexSettings,
): Promise<unknown> => nodes.work((client, options) => client.indices.putSettings({ index, settings }, options));

export async function changeAliases(nodes: ClusterClient, actions: estypes.IndicesUpdateAliasesAction[]) {
  if (actions.length > 0) await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
}

export const count = (reader: Reader, request: estypes.CountRequest): Promise<number> =>
  reader.read(async (client, options) => requireAllShards(await client.count(request, options)).count);

export const search = <T>(reader: Reader, request: estypes.SearchRequest): Promise<estypes.SearchResponse<T>> =>
  reader.read(async (client, options) =>
    requireAllShards(await client.search<T>({ allow_partial_search_results: false, ...request }, options)),
  );

export interface Operation {
  id: string;
  bytes: Buffer;
}

export const operationText = (action: object, source?: object): string =>
  source ? `${JSON.stringify(action)}\n${JSON.stringify(source)}\n` : `${JSON.stringify(action)}\n`;

export const toOperation = (id: string, action: object, source?: object): Operation => ({
  id,
  bytes: Buffer.from(operationText(action, source)),
});

interface ItemResult {
  status: number;
  result?: string | undefined;
  type?: string | undefined;
}

/**
 * Returns the meaning of a failed operation, or undefined if it succeeded. Deleting a missing document (404) and a
 * version conflict (409) count as success.
 */
const meaningOfItem = ({ status, type }: ItemResult): Meaning | undefined =>
  status < 300 || status === 409 || (status === 404 && type === undefined) ? undefined : meaningOf(status, type);

/**
 * Sends operations in a bulk request. Retries those that fail because the cluster is busy or the index is blocked.
 * @param alias must be an alias: with the name of a missing index, the cluster would create the index
 * @returns results by document id
 * @throws DomainError `unavailable` if some operations still fail after `retryTimeoutMs`
 * @throws ClusterRefusal if a retry would not help
 */
export async function bulk(
  nodes: ClusterClient,
  alias: string,
  operations: Operation[],
  retryTimeoutMs?: number,
): Promise<Map<string, ItemResult>> {
  const results = new Map<string, ItemResult>();
  if (operations.length === 0) return results;
  let left = operations;
  await nodes.work(async (client, options) => {
    const request = {
      index: alias,
      require_alias: true,
      // The client sends buffers unchanged, but its types only allow objects.
      operations: Buffer.concat(left.map(({ bytes }) => bytes)) as unknown as object[],
      filter_path: 'items.*.status,items.*.result,items.*.error.type',
    };
    const { items } = await client.bulk(request, options);
    const answers = items.map((item) => {
      const { status, result, error } = Object.values(item)[0]!;
      return { status, result, type: error?.type };
    });
    for (const [i, { id }] of left.entries()) results.set(id, answers[i]!);
    const meanings = answers.map(meaningOfItem);
    const refused = meanings.findIndex((meaning) => meaning === 'missing' || meaning === 'refused');
    const { status, type = '' } = answers[refused] ?? answers[meanings.indexOf('wait')] ?? {};
    if (refused >= 0)
      throw new ClusterRefusal(
        meanings[refused] as ClusterRefusal['meaning'],
        `The search cluster rejected a document: ${status} ${type}`,
      );
    left = left.filter((_, i) => meanings[i] === 'wait');
    if (left.length > 0) throw new PartialAnswer(`it rejects writes: ${status} ${type}`);
  }, retryTimeoutMs);
  return results;
}
