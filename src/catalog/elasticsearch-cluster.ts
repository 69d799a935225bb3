import { setTimeout as sleep } from 'node:timers/promises';
import { Client, errors } from '@elastic/elasticsearch';
import type { Config } from '../config.ts';
import { DomainError, unavailable } from '../errors.ts';
import { Gate } from '../gate.ts';
import { Breaker } from './breaker.ts';

/** What every call is given beside its own parameters. */
export interface CallOptions {
  requestTimeout: number;
  maxRetries: 0;
}

/** One call, on whichever node it is told. */
export type Call<T> = (client: Client, options: CallOptions, route: Route) => Promise<T>;

/** Parameters of a search: the nodes to ask, while some of them are in doubt. */
export interface Route {
  preference?: string;
}

/** It has answered; it was late to, as a busy node may be; it could not be reached, or broke off. */
type Doubt = 0 | 1 | 2;

interface Node {
  client: Client;
  /** How little is to be hoped of it, by its last sign of life. */
  doubt: Doubt;
  /** By which the cluster calls it; known once it has answered. */
  id: string | undefined;
}

/** How long a load waits for the cluster to come back: longer than a cluster takes to give up a lost node (ms). */
export const loadPatienceMs = 300_000;
const probeMs = 500;
/** Reads under way at once; more would only wait in the cluster's own queues. */
const readLimits = { limit: 128, maxWaiting: 1_000, maxWaitMs: 1_000 };
const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * The nodes of a search cluster, with limits: each call has its time, is tried twice at most, and is not tried at all
 * while the cluster does not answer. A node that holds its sockets and answers nothing also holds up searches that come in
 * through others, as long as the cluster counts it in; so when a search takes too long all nodes are asked for a sign of
 * life, and those that give none are left out, until they do.
 */
export class SearchNodes {
  readonly #nodes: Node[];
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly #gate = new Gate(readLimits);
  readonly #breaker = new Breaker('The prospect catalog', { failures: 5, openMs: 1_000 });
  readonly #closing = new AbortController();
  #next = 0;
  #watching = false;

  constructor(config: Config) {
    const auth = config.ELASTICSEARCH_API_KEY ? { auth: { apiKey: config.ELASTICSEARCH_API_KEY } } : {};
    this.#nodes = config.ELASTICSEARCH_URL!.split(',').map((node) => ({
      // What it answers is what was written here: nothing in it can be a prototype.
      client: new Client({ node, ...auth, maxRetries: 0, disablePrototypePoisoningProtection: true }),
      doubt: 0,
      id: undefined,
    }));
    this.#readMs = config.ELASTICSEARCH_TIMEOUT_MS;
    this.#writeMs = config.ELASTICSEARCH_BULK_TIMEOUT_MS;
  }

  /** How long a read can take, its retry included (ms). */
  get longestReadMs(): number {
    return 2 * this.#readMs + probeMs;
  }

  /**
   * A question that somebody waits for.
   * @throws DomainError `unavailable` when the cluster is down, silent or overloaded
   */
  read<T>(call: Call<T>): Promise<T> {
    const once = () => this.#attempt(call, this.#readMs);
    const twice = () =>
      once().catch((error: unknown) => (isWorthRetry(error) ? once() : Promise.reject(error as Error)));
    return asDomainErrors(() => this.#breaker.run(() => this.#gate.run(twice), isTrouble));
  }

  /**
   * Work that waits for the cluster to come back, and repeats itself until it did; so it must not matter how often it is done.
   * @param patienceMs how long to wait; as long as a load does when left out
   * @throws DomainError `unavailable` when that was too short
   */
  work<T>(call: Call<T>, patienceMs = loadPatienceMs): Promise<T> {
    return asDomainErrors(async () => {
      const deadline = performance.now() + patienceMs;
      for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, longestPauseMs)) {
        try {
          return await this.#attempt(call, this.#writeMs);
        } catch (error) {
          if (!isTrouble(error) || performance.now() + pause > deadline || this.#closing.signal.aborted) throw error;
          // Not all at the same moment: some may come from the same fault.
          await sleep(pause * (0.5 + Math.random()), undefined, { signal: this.#closing.signal });
        }
      }
    });
  }

  /** Whether the cluster answers, and has all data at hand. */
  async isUp(): Promise<boolean> {
    if (this.#breaker.isOpen) return false;
    const ask: Call<boolean> = async (client, options) => (await client.cluster.health({}, options)).status !== 'red';
    return this.#attempt(ask, Math.min(this.#readMs, 1_000)).catch(() => false);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#gate.close();
    await Promise.all(this.#nodes.map(({ client }) => client.close()));
  }

  async #attempt<T>(call: Call<T>, requestTimeout: number): Promise<T> {
    const node = this.#pick();
    try {
      return await call(node.client, { requestTimeout, maxRetries: 0 }, this.#route());
    } catch (error) {
      if (isWorthRetry(error) && this.#nodes.length > 1) {
        // A call that was given seconds may have waited for another node than the one that was asked, and a node that
        // answers that a shard failed may have lost another node: the retry must not go there.
        await this.#probeAll();
        this.#watch();
      }
      throw error;
    }
  }

  /** In turn, of those there is least doubt about. */
  #pick(): Node {
    const least = Math.min(...this.#nodes.map(({ doubt }) => doubt));
    const among = this.#nodes.filter(({ doubt }) => doubt === least);
    this.#next += 1;
    return among[this.#next % among.length]!;
  }

  /** While some are in doubt, the others' copies are asked where they have any. */
  #route(): Route {
    const sound = this.#nodes.flatMap(({ doubt, id }) => (doubt > 0 || id === undefined ? [] : [id]));
    if (sound.length === 0 || this.#nodes.every(({ doubt }) => doubt === 0)) return {};
    return { preference: `_prefer_nodes:${sound.join(',')}` };
  }

  #probeAll(): Promise<unknown> {
    return Promise.all(this.#nodes.map((node) => probe(node)));
  }

  /** Asks again until nobody is in doubt. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = true;
    const { signal } = this.#closing;
    const again = async (): Promise<void> => {
      while (this.#nodes.some(({ doubt }) => doubt > 0)) {
        await sleep(probeMs, undefined, { signal, ref: false });
        await this.#probeAll();
      }
    };
    // Closing ends the watch.
    void again().then(
      () => (this.#watching = false),
      () => undefined,
    );
  }
}

/** What a node itself answers, without asking another. */
async function probe(node: Node): Promise<void> {
  try {
    const answer = await node.client.nodes.info(
      { node_id: '_local', metric: '_none', filter_path: 'nodes' },
      { requestTimeout: probeMs, maxRetries: 0 },
    );
    node.id = Object.keys(answer.nodes)[0];
    node.doubt = 0;
  } catch (error) {
    node.doubt = doubtAfter(error);
  }
}

function doubtAfter(error: unknown): Doubt {
  if (error instanceof errors.TimeoutError) return 1;
  return isSilence(error) ? 2 : 0;
}

/** No answer came: too late, no connection, or one that broke. */
const isSilence = (error: unknown): boolean =>
  error instanceof errors.TimeoutError ||
  error instanceof errors.ConnectionError ||
  error instanceof errors.NoLivingConnectionsError;

const statusOf = (error: unknown): number | undefined =>
  error instanceof errors.ResponseError ? error.statusCode : undefined;

/** The cluster cannot answer now; 429 is its own overload. */
export const isTrouble = (error: unknown): boolean =>
  isSilence(error) ||
  error instanceof errors.DeserializationError ||
  [429, 502, 503, 504].includes(statusOf(error) ?? 0);

/** Not when it is overloaded: that would make it worse. */
const isWorthRetry = (error: unknown): boolean => isTrouble(error) && statusOf(error) !== 429;

/** The client's errors hold whole requests, with people in them: what goes on is their name, status and type. */
async function asDomainErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DomainError || !(error instanceof errors.ElasticsearchClientError)) throw error;
    const type = error instanceof errors.ResponseError ? [error.statusCode, error.body?.error?.type ?? ''] : [];
    const cause = new Error([error.name, ...type].join(' ').trim());
    throw isTrouble(error) ? unavailable('The prospect catalog does not answer at the moment', 1, cause) : cause;
  }
}
