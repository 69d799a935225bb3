import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@elastic/elasticsearch';
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
import { elasticsearch } from './package.ts';

/** Every call must pass these to the client. */
interface CallOptions {
  requestTimeout: number;
  maxRetries: 0;
  signal?: AbortSignal;
}

export interface Reader {
  /**
   * Waits first if too many reads are running.
   * @throws DomainError `unavailable` if the cluster is down, does not respond or is overloaded, or if the wait takes
   * too long
   */
  read<T>(call: Call<T>): Promise<T>;
}

/** Sends one call. It must use the given client, which is connected to one node, and the options. */
export type Call<T> = (client: Client, options: CallOptions, route: Route) => Promise<T>;

/** Makes the cluster prefer nodes that respond. Empty if all do. */
interface Route {
  preference?: string;
}

/**
 * How likely a node is down. 0: it responded. 1: not in time, so it may be down or only busy. 2: no connection, or the
 * connection broke.
 */
type FailureLevel = 0 | 1 | 2;

interface Node {
  client: Client;
  /** By its last health check. */
  failureLevel: FailureLevel;
  /** It responded to its last health check. */
  answers: boolean;
  /** In the cluster. Undefined until it has responded to a health check. */
  id: string | undefined;
}

/** How long an import's calls are retried (ms). Longer than the cluster needs to detect a lost node. */
export const importPatienceMs = 300_000;
/** Timeout of a health probe, and pause between two (ms). */
const probeMs = 1_000;
const readQueue = { maxWaiting: 500, maxWaitMs: 1_000 };
/** Consecutive failed reads after which all nodes are probed. */
const failuresBeforeProbe = 5;
const firstPauseMs = 100;
const maxPauseMs = 5_000;

/**
 * Sends calls to the nodes of a cluster, avoiding those that do not respond. Limits concurrent reads, shared fairly
 * between customers, and rejects reads at once while the cluster is down.
 *
 * A node that accepts connections but never responds also blocks searches that arrive through other nodes. So when a
 * search times out, all nodes are probed, and those that do not respond get no calls until they do.
 */
export class SearchNodes {
  readonly #nodes: Node[];
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly #gate: Gate;
  readonly #breaker = new CircuitBreaker('The prospect catalog', 1_000);
  readonly #closing = new AbortController();
  #next = 0;
  #failures = 0;
  #watching = false;
  #probing: Promise<unknown> | undefined;

  constructor(config: Config) {
    const auth = config.ELASTICSEARCH_API_KEY ? { auth: { apiKey: config.ELASTICSEARCH_API_KEY } } : {};
    const { Client } = elasticsearch();
    this.#nodes = config.ELASTICSEARCH_URL!.split(',').map((node) => ({
      // The scan for dangerous keys in responses is not needed: the documents were all written by this service.
      client: new Client({ node, ...auth, maxRetries: 0, disablePrototypePoisoningProtection: true }),
      failureLevel: 0,
      answers: true,
      id: undefined,
    }));
    this.#gate = new Gate({ name: 'catalog', limit: config.ELASTICSEARCH_READS, ...readQueue });
    this.#readMs = config.ELASTICSEARCH_TIMEOUT_MS;
    this.#writeMs = config.ELASTICSEARCH_BULK_TIMEOUT_MS;
  }

  get gate(): Gate {
    return this.#gate;
  }

  /** All reads are rejected at the moment, because the cluster is down. */
  get isRefusing(): boolean {
    return this.#breaker.isOpen;
  }

  /** Maximum time of a read, with one retry and the health checks (ms). */
  get maxReadMs(): number {
    return 2 * (this.#readMs + probeMs);
  }

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

  read<T>(call: Call<T>): Promise<T> {
    return this.for({ customerId: serviceItself }).read(call);
  }

  /**
   * Retries an idempotent call while the cluster is unavailable.
   * @param patienceMs how long (ms); by default as long as an import
   * @throws DomainError `unavailable` if it still is after `patienceMs`
   * @throws ClusterRefusal if a retry would not help
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
   * Sends a call about the cluster's state: at most one second, no retry.
   * @throws DomainError `unavailable` if the cluster does not respond, or earlier reads have shown that it is down
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
   * False if the read timed out although all nodes respond: then it is slow itself, and a retry would double the load.
   */
  #isWorthRetry(error: unknown): boolean {
    if (!mayBeBetterElsewhere(error)) return false;
    const { length } = this.#nodes.filter(({ answers }) => answers);
    return isTimeout(error) ? length > 0 && length < this.#nodes.length : true;
  }

  /**
   * True if no node responds to a health check, or the cluster rejected the read because its queues are full. Undefined
   * if the caller aborted the read. Failed reads alone do not show that the cluster is down: one customer's queries may
   * all be slow.
   */
  async #isDown(error: unknown): Promise<boolean | undefined> {
    if (isAborted(error)) return undefined;
    this.#failures = isUnavailableError(error) ? this.#failures + 1 : 0;
    if (this.#failures === 0) return false;
    const isJudged = mayBeBetterElsewhere(error); // #attempt has just probed all nodes
    if (!isJudged && this.#failures < failuresBeforeProbe) return false;
    if (!isJudged) await this.#probeAll();
    this.#failures %= failuresBeforeProbe;
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

  /** Takes the healthiest nodes in turn. */
  #pick(): Node {
    const least = Math.min(...this.#nodes.map(({ failureLevel }) => failureLevel));
    const among = this.#nodes.filter(({ failureLevel }) => failureLevel === least);
    this.#next += 1;
    return among[this.#next % among.length]!;
  }

  #route(): Route {
    const sound = this.#nodes.flatMap(({ failureLevel, id }) => (failureLevel > 0 || id === undefined ? [] : [id]));
    if (sound.length === 0 || this.#nodes.every(({ failureLevel }) => failureLevel === 0)) return {};
    return { preference: `_prefer_nodes:${sound.join(',')}` };
  }

  /** Checks each node's health. Concurrent callers share one check. */
  #probeAll(): Promise<unknown> {
    this.#probing ??= Promise.all(this.#nodes.map((node) => probe(node))).finally(() => (this.#probing = undefined));
    return this.#probing;
  }

  /** Checks all nodes regularly until all respond, unless these checks are running. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = true;
    const { signal } = this.#closing;
    const again = async (): Promise<void> => {
      while (this.#nodes.some(({ failureLevel }) => failureLevel > 0)) {
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

function outcomeOf(error: unknown): string {
  if (isAborted(error)) return 'aborted';
  if (isTimeout(error)) return 'timeout';
  return isUnavailableError(error) ? 'trouble' : 'error';
}

/** Saves in `node` whether it responds. Requests the node's own id, which it knows without asking others. */
async function probe(node: Node): Promise<void> {
  try {
    const answer = await node.client.nodes.info(
      { node_id: '_local', metric: '_none', filter_path: 'nodes' },
      { requestTimeout: probeMs, maxRetries: 0 },
    );
    node.id = Object.keys(answer.nodes)[0];
    node.failureLevel = 0;
    node.answers = true;
  } catch (error) {
    node.failureLevel = failureLevelAfter(error);
    node.answers = !isUnavailableError(error);
  }
}

function failureLevelAfter(error: unknown): FailureLevel {
  if (isTimeout(error)) return 1;
  return isNoAnswer(error) ? 2 : 0;
}
