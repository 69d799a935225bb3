import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@elastic/elasticsearch';
import type { Config } from '../../config.ts';
import { unavailable } from '../../errors.ts';
import { Gate } from '../../limits/gate.ts';
import { catalogCallDuration } from '../../metrics.ts';
import { serviceItself, type Requester } from '../../requester.ts';
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

/** Transport options that every call passes to the client. */
export interface CallOptions {
  requestTimeout: number;
  maxRetries: 0;
  signal?: AbortSignal;
}

/** Read access to the cluster for one requester. */
export interface Reader {
  /**
   * Runs a read of the cluster for a request. If too many reads are running, first waits until one of them ends.
   * @throws DomainError `unavailable` if the cluster is down, silent or overloaded, or if the wait takes too long
   */
  read<T>(call: Call<T>): Promise<T>;
}

/** A function that sends one call to the cluster. It must use the client that it gets, which belongs to one node. */
export type Call<T> = (client: Client, options: CallOptions, route: Route) => Promise<T>;

/** Search parameters that keep a search away from nodes that do not respond. Empty if all nodes respond. */
export interface Route {
  preference?: string;
}

/** How doubtful a node is. 0: it responded. 1: it timed out, as a busy node may. 2: no connection, or a broken one. */
type Doubt = 0 | 1 | 2;

interface Node {
  client: Client;
  /** How doubtful the node is, by its last health probe. */
  doubt: Doubt;
  /** Whether the node responded to the last health probe. */
  answers: boolean;
  /** The node's id in the cluster. Known after its first response. */
  id: string | undefined;
}

/** How long an import waits for the cluster (ms). Longer than the cluster needs to give up a lost node. */
export const importPatienceMs = 300_000;
/** Timeout of a health probe, and the pause between two probes (ms). */
const probeMs = 1_000;
/**
 * How many reads may wait while too many are running, and for how long (ms). The limits equal those for database
 * connections.
 */
const readQueue = { maxWaiting: 500, maxWaitMs: 1_000 };
/** The number of consecutive failed reads after which all nodes are probed. */
const failuresInDoubt = 5;
const firstPauseMs = 100;
const maxPauseMs = 5_000;

/**
 * A client for all nodes of a search cluster, with limits.
 *
 * The number of concurrent reads is limited, and customers share it fairly. Each read has a timeout and is sent at most
 * twice. While the cluster is known to be down, reads are rejected at once.
 *
 * A node that accepts connections but never responds also blocks searches that arrive through other nodes. So when a
 * search times out, all nodes are probed, and nodes that do not respond get no calls until they respond again.
 */
export class SearchNodes {
  readonly #nodes: Node[];
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly #gate: Gate;
  readonly #breaker = new CircuitBreaker('The prospect catalog', 1_000);
  readonly #closing = new AbortController();
  #next = 0;
  /** The number of reads that have failed since the last successful read. */
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

  /** The queue in which reads wait while too many are running, for metrics. */
  get gate(): Gate {
    return this.#gate;
  }

  /** Whether reads are rejected at the moment without being sent, because the cluster is down. */
  get isRefusing(): boolean {
    return this.#breaker.isOpen;
  }

  /** The longest time that a read can take, including its retry (ms). */
  get maxReadMs(): number {
    return 2 * (this.#readMs + probeMs);
  }

  /**
   * Returns read access to the cluster for a request. Customers share the concurrent reads fairly, and these reads
   * count for the requester's customer. They end when the requester's signal aborts.
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

  /** Runs a read for the service itself. It does not count as any customer's read. */
  read<T>(call: Call<T>): Promise<T> {
    return this.for({ customerId: serviceItself }).read(call);
  }

  /**
   * Runs a call and retries it while the cluster is unavailable. The call must be idempotent.
   * @param patienceMs how long to retry (ms); by default as long as an import does
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
   * Runs a call about the state of the cluster, with a timeout of at most one second and no retry.
   * @throws DomainError `unavailable`; at once while the cluster is known to be down
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
   * Returns whether to send a failed read again. False if the read timed out although all nodes respond: then the read
   * itself is slow, and a retry would double the load.
   */
  #isWorthRetry(error: unknown): boolean {
    if (!mayBeBetterElsewhere(error)) return false;
    const { length } = this.#nodes.filter(({ answers }) => answers);
    return isTimeout(error) ? length > 0 && length < this.#nodes.length : true;
  }

  /**
   * Returns whether the cluster is down: no node responds to a probe, or the cluster rejects a read because its queues
   * are full. Undefined if that is not known. Failed reads alone do not suffice, because one customer's queries may all
   * be slow.
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
    // The call gets its own signal, because the client fires the abort event of its signal when the call times out.
    const given = signal ? { signal: AbortSignal.any([signal]) } : {};
    const stop = catalogCallDuration.startTimer();
    try {
      const answer = await call(node.client, { requestTimeout, maxRetries: 0, ...given }, this.#route());
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

  /**
   * Picks the node for the next call. Nodes that respond come first; among equally good nodes, each is used once before
   * the first is used again.
   */
  #pick(): Node {
    const least = Math.min(...this.#nodes.map(({ doubt }) => doubt));
    const among = this.#nodes.filter(({ doubt }) => doubt === least);
    this.#next += 1;
    return among[this.#next % among.length]!;
  }

  /** Returns search parameters that prefer healthy nodes. Empty if all nodes respond. */
  #route(): Route {
    const sound = this.#nodes.flatMap(({ doubt, id }) => (doubt > 0 || id === undefined ? [] : [id]));
    if (sound.length === 0 || this.#nodes.every(({ doubt }) => doubt === 0)) return {};
    return { preference: `_prefer_nodes:${sound.join(',')}` };
  }

  /** Probes all nodes. Concurrent callers share one probe. */
  #probeAll(): Promise<unknown> {
    this.#probing ??= Promise.all(this.#nodes.map((node) => probe(node))).finally(() => (this.#probing = undefined));
    return this.#probing;
  }

  /** Starts to probe all nodes regularly, until all of them respond. Does nothing if this is already running. */
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

/** How a failed call is counted in metrics. */
function outcomeOf(error: unknown): string {
  if (isAborted(error)) return 'aborted';
  if (isTimeout(error)) return 'timeout';
  return isUnavailableError(error) ? 'trouble' : 'error';
}

/**
 * Probes a node and records whether it responds. Asks for its id, which a node knows without contacting other nodes.
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
