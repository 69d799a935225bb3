import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@elastic/elasticsearch';
import type { Config } from '../../process/config.ts';
import { unavailable } from '../../errors.ts';
import { Gate } from '../../limits/gate.ts';
import { catalogCallDuration } from '../../process/metrics.ts';
import { withOwnAbort } from '../../process/own-abort.ts';
import { serviceItself, type Requester } from '../../credentials/requester.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import {
  asDomainErrors,
  isAborted,
  isRejected,
  isNoAnswer,
  isTimeout,
  isUnavailableError,
  mayBeBetterElsewhere,
} from './errors.ts';

/** Options that every call to the cluster must pass to the Elasticsearch client. */
export interface CallOptions {
  requestTimeout: number;
  maxRetries: 0;
  signal?: AbortSignal;
}

/** An object that sends reads to the search cluster, either for one customer or for the service itself. */
export interface Reader {
  /**
   * Sends a read to the cluster. If too many reads are running, first waits until one of them ends.
   * @throws DomainError `unavailable` if the cluster is down, does not respond or is overloaded, or if the wait takes
   *   too long
   */
  read<T>(call: Call<T>): Promise<T>;
}

/**
 * A function that sends one call to the search cluster. It must use the given client, which is connected to one node,
 * and the given options.
 */
export type Call<T> = (client: Client, options: CallOptions, route: Route) => Promise<T>;

/** Search parameters that make the cluster prefer nodes that respond. The object is empty if all nodes respond. */
export interface Route {
  preference?: string;
}

/**
 * How likely it is that a node is down. 0: the node responded. 1: it did not respond in time, so it may be down or only
 * busy. 2: no connection, or the connection broke.
 */
type Doubt = 0 | 1 | 2;

interface Node {
  client: Client;
  /** How likely it is that the node is down, according to its last health check. */
  doubt: Doubt;
  /** True if the node responded to its last health check. */
  answers: boolean;
  /** The node's id in the cluster. Undefined until the node has responded to a health check. */
  id: string | undefined;
}

/**
 * How long the calls of an import are retried while the cluster is unavailable (ms). This time is longer than the
 * cluster needs to detect a lost node.
 */
export const importPatienceMs = 300_000;
/** The timeout of a health probe of a node, and the pause between two probes (ms). */
const probeMs = 1_000;
/**
 * The limits for reads that must wait because too many other reads are running: the maximum number of waiting reads,
 * and the maximum time that one read waits (ms).
 */
const readQueue = { maxWaiting: 500, maxWaitMs: 1_000 };
/** The number of consecutive failed reads after which the health of all nodes is probed. */
const failuresInDoubt = 5;
const firstPauseMs = 100;
const maxPauseMs = 5_000;

// A node that accepts connections but never responds also blocks searches that arrive through other nodes. So when a
// search times out, all nodes are probed, and nodes that do not respond get no calls until they respond again.
/**
 * Sends calls to the nodes of an Elasticsearch cluster, and avoids nodes that do not respond. Limits the number of
 * concurrent reads, shares it fairly between customers, and rejects reads at once while the cluster is down.
 */
export class SearchNodes {
  readonly #nodes: Node[];
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly #gate: Gate;
  readonly #breaker = new CircuitBreaker('The prospect catalog', 1_000);
  readonly #closing = new AbortController();
  #next = 0;
  /** The number of consecutive failed reads. A successful call resets it to 0. */
  #failures = 0;
  #watching = false;
  #probing: Promise<unknown> | undefined;

  constructor(config: Config) {
    const auth = config.ELASTICSEARCH_API_KEY ? { auth: { apiKey: config.ELASTICSEARCH_API_KEY } } : {};
    this.#nodes = config.ELASTICSEARCH_URL!.split(',').map((node) => ({
      // The scan for dangerous keys in responses is not needed: the documents were all written by this service.
      client: new Client({ node, ...auth, maxRetries: 0, disablePrototypePoisoningProtection: true }),
      doubt: 0,
      answers: true,
      id: undefined,
    }));
    this.#gate = new Gate({ name: 'catalog', limit: config.ELASTICSEARCH_READS, ...readQueue });
    this.#readMs = config.ELASTICSEARCH_TIMEOUT_MS;
    this.#writeMs = config.ELASTICSEARCH_BULK_TIMEOUT_MS;
  }

  /** The limiter of concurrent reads, with the queue of waiting reads. Used for metrics. */
  get gate(): Gate {
    return this.#gate;
  }

  /** True if all reads are rejected at the moment, because the cluster is down. */
  get isRefusing(): boolean {
    return this.#breaker.isOpen;
  }

  /** The maximum time of a read, including one retry and the health checks (ms). */
  get maxReadMs(): number {
    return 2 * (this.#readMs + probeMs);
  }

  /**
   * Returns an object that reads from the cluster for one request. The number of concurrent reads is limited and shared
   * fairly between customers. The reads of this request use the share of the customer who sent it. If the signal of
   * `requester` aborts, the reads are cancelled.
   */
  for(requester: Requester): Reader {
    return {
      read: (call) =>
        asDomainErrors(async () => {
          this.#breaker.requireClosed();
          return this.#gate.run(requester, () =>
            this.#breaker.run(
              () => this.#read(call, requester.signal),
              (error) => this.#isDown(error),
            ),
          );
        }),
    };
  }

  /** Sends a read to the cluster for the service itself, not for a customer. */
  read<T>(call: Call<T>): Promise<T> {
    return this.for({ customerId: serviceItself }).read(call);
  }

  /**
   * Sends a call to the cluster and retries it while the cluster is unavailable. The call must be idempotent.
   * @param patienceMs how long to retry (ms); the default is the time for imports
   * @throws DomainError `unavailable` if the cluster is still unavailable after `patienceMs`
   * @throws ClusterRefusal if the cluster rejects the call and a retry would not help
   */
  work<T>(call: Call<T>, patienceMs = importPatienceMs): Promise<T> {
    return asDomainErrors(async () => {
      const deadline = performance.now() + patienceMs;
      for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, maxPauseMs)) {
        try {
          return await this.#attempt(call, this.#writeMs);
        } catch (error) {
          if (!isUnavailableError(error) || performance.now() + pause > deadline || this.#closing.signal.aborted)
            throw error;
          // A random pause, so that calls that failed together do not retry together.
          await sleep(pause * (0.5 + Math.random()), undefined, { signal: this.#closing.signal });
        }
      }
    });
  }

  /**
   * Sends a call about the state of the cluster. The call has a timeout of at most one second, and is not retried.
   * @throws DomainError `unavailable` if the cluster does not respond. If earlier reads have shown that the cluster is
   *   down, throws this error without sending the call
   */
  ask<T>(call: Call<T>): Promise<T> {
    return asDomainErrors(async () => {
      if (this.#breaker.isOpen) throw unavailable('The prospect catalog does not answer at the moment');
      return this.#attempt(call, Math.min(this.#readMs, 1_000));
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#gate.close();
    await Promise.all(this.#nodes.map(({ client }) => client.close()));
  }

  async #read<T>(call: Call<T>, signal: AbortSignal | undefined): Promise<T> {
    const once = () => this.#attempt(call, this.#readMs, signal);
    return once().catch((error: unknown) => (this.#isWorthRetry(error) ? once() : Promise.reject(error as Error)));
  }

  /**
   * Returns true if a failed read is worth a retry. Returns false if the read timed out although all nodes respond: the
   * read itself is then slow, and a retry would double the load.
   */
  #isWorthRetry(error: unknown): boolean {
    if (!mayBeBetterElsewhere(error)) return false;
    const { length } = this.#nodes.filter(({ answers }) => answers);
    return isTimeout(error) ? length > 0 && length < this.#nodes.length : true;
  }

  // Failed reads alone do not show that the cluster is down, because one customer's queries may all be slow.
  /**
   * Returns true if a failed read shows that the cluster is down: no node responds to a health check, or the cluster
   * rejected the read because its queues are full. Returns undefined if the caller aborted the read, and false
   * otherwise.
   */
  async #isDown(error: unknown): Promise<boolean | undefined> {
    if (isAborted(error)) return undefined;
    this.#failures = isUnavailableError(error) ? this.#failures + 1 : 0;
    if (this.#failures === 0) return false;
    const isJudged = mayBeBetterElsewhere(error); // #attempt has just probed all nodes
    if (!isJudged && this.#failures < failuresInDoubt) return false;
    if (!isJudged) await this.#probeAll();
    this.#failures %= failuresInDoubt;
    return isRejected(error) || this.#nodes.every(({ answers }) => !answers);
  }

  async #attempt<T>(call: Call<T>, requestTimeout: number, signal?: AbortSignal): Promise<T> {
    const node = this.#pick();
    const stop = catalogCallDuration.startTimer();
    try {
      // The call gets its own signal, because the client fires the abort event of its signal when the call times out.
      const answer = await withOwnAbort(signal, (own) =>
        call(node.client, { requestTimeout, maxRetries: 0, signal: own.signal }, this.#route()),
      );
      this.#failures = 0;
      stop({ outcome: 'ok' });
      return answer;
    } catch (error) {
      stop({ outcome: outcomeOf(error) });
      if (mayBeBetterElsewhere(error)) {
        // The faulty node may be another one than the node that was called. It may have held up this call, or its shard
        // may have failed. So all nodes are probed, and the retry avoids the faulty one.
        await this.#probeAll();
        this.#watch();
      }
      throw error;
    }
  }

  /** Returns the node for the next call. Chooses among the healthiest nodes, and uses them one after the other. */
  #pick(): Node {
    const least = Math.min(...this.#nodes.map(({ doubt }) => doubt));
    const among = this.#nodes.filter(({ doubt }) => doubt === least);
    this.#next += 1;
    return among[this.#next % among.length]!;
  }

  /**
   * Returns the search parameters that make the cluster prefer nodes that respond. The returned object is empty if all
   * nodes respond.
   */
  #route(): Route {
    const sound = this.#nodes.flatMap(({ doubt, id }) => (doubt > 0 || id === undefined ? [] : [id]));
    if (sound.length === 0 || this.#nodes.every(({ doubt }) => doubt === 0)) return {};
    return { preference: `_prefer_nodes:${sound.join(',')}` };
  }

  /** Checks the health of each node and saves the results. Concurrent callers share one check. */
  #probeAll(): Promise<unknown> {
    this.#probing ??= Promise.all(this.#nodes.map((node) => probe(node))).finally(() => (this.#probing = undefined));
    return this.#probing;
  }

  /**
   * Starts to check the health of all nodes regularly, until all of them respond. Does nothing if these checks are
   * already running.
   */
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
    // `close` aborts the sleep, which ends the loop.
    void again().then(
      () => (this.#watching = false),
      () => undefined,
    );
  }
}

/** Returns the label for metrics that describes why a call failed. */
function outcomeOf(error: unknown): string {
  if (isAborted(error)) return 'aborted';
  if (isTimeout(error)) return 'timeout';
  return isUnavailableError(error) ? 'trouble' : 'error';
}

/**
 * Checks whether a node responds, and saves the result in `node`. Requests the node's own id, which the node knows
 * without asking other nodes.
 */
async function probe(node: Node): Promise<void> {
  try {
    const answer = await node.client.nodes.info(
      { node_id: '_local', metric: '_none', filter_path: 'nodes' },
      { requestTimeout: probeMs, maxRetries: 0 },
    );
    node.id = Object.keys(answer.nodes)[0];
    node.doubt = 0;
    node.answers = true;
  } catch (error) {
    node.doubt = doubtAfter(error);
    node.answers = !isUnavailableError(error);
  }
}

function doubtAfter(error: unknown): Doubt {
  if (isTimeout(error)) return 1;
  return isNoAnswer(error) ? 2 : 0;
}
