import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@elastic/elasticsearch';
import type { Config } from '../config.ts';
import { unavailable } from '../errors.ts';
import { Gate } from '../gate.ts';
import { catalogCallDuration } from '../metrics.ts';
import { serviceItself, type Requester } from '../requester.ts';
import { Breaker } from './breaker.ts';
import {
  asDomainErrors,
  isAborted,
  isRejected,
  isSilence,
  isTimeout,
  isTrouble,
  mayBeBetterElsewhere,
} from './elasticsearch-errors.ts';

/** What every call is given beside its own parameters. */
export interface CallOptions {
  requestTimeout: number;
  maxRetries: 0;
  signal?: AbortSignal;
}

/** The cluster as a requester reads it. */
export interface Reader {
  /**
   * A question that somebody waits for. It waits for a place if need be.
   * @throws DomainError `unavailable` when the cluster is down, silent or overloaded, or there is no place in time
   */
  read<T>(call: Call<T>): Promise<T>;
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
  /** Whether it answered when it was last asked for a sign of life. */
  answers: boolean;
  /** By which the cluster calls it; known once it has answered. */
  id: string | undefined;
}

/** How long a load waits for the cluster to come back: longer than a cluster takes to give up a lost node (ms). */
export const loadPatienceMs = 300_000;
/** How long a node may take for a sign of life, and the pause between two such questions. */
const probeMs = 1_000;
/** Readers that may wait, and how long: as for a connection to the database. */
const readQueue = { maxWaiting: 500, maxWaitMs: 1_000 };
/** Failed answers in a row after which the cluster is asked for a sign of life. */
const failuresInDoubt = 5;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * The nodes of a search cluster, with limits: reads have places, which customers share. Each call has its time, is sent
 * twice at most, and is not sent at all while the cluster does not answer. A slow read is not sent again. A node that holds its sockets and answers nothing also holds up searches that come in
 * through others, as long as the cluster counts it in; so when a search takes too long all nodes are asked for a sign of
 * life, and those that give none are left out, until they do.
 */
export class SearchNodes {
  readonly #nodes: Node[];
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly #gate: Gate;
  readonly #breaker = new Breaker('The prospect catalog', 1_000);
  readonly #closing = new AbortController();
  #next = 0;
  /** Failed answers in a row. */
  #failures = 0;
  #watching = false;
  #probing: Promise<unknown> | undefined;

  constructor(config: Config) {
    const auth = config.ELASTICSEARCH_API_KEY ? { auth: { apiKey: config.ELASTICSEARCH_API_KEY } } : {};
    this.#nodes = config.ELASTICSEARCH_URL!.split(',').map((node) => ({
      // What it answers is what was written here: nothing in it can be a prototype.
      client: new Client({ node, ...auth, maxRetries: 0, disablePrototypePoisoningProtection: true }),
      doubt: 0,
      answers: true,
      id: undefined,
    }));
    this.#gate = new Gate({ name: 'catalog', limit: config.ELASTICSEARCH_READS, ...readQueue });
    this.#readMs = config.ELASTICSEARCH_TIMEOUT_MS;
    this.#writeMs = config.ELASTICSEARCH_BULK_TIMEOUT_MS;
  }

  /** The gate of reads, for metrics. */
  get gate(): Gate {
    return this.#gate;
  }

  /** Whether reads are refused at the moment without being sent. */
  get isRefusing(): boolean {
    return this.#breaker.isOpen;
  }

  /** How long a read can take, its retry included (ms). */
  get longestReadMs(): number {
    return 2 * (this.#readMs + probeMs);
  }

  /** The cluster as a requester reads it: a read counts in the customer's share, and ends with the requester's signal. */
  for(requester: Requester): Reader {
    return {
      read: (call) =>
        asDomainErrors(async () => {
          this.#breaker.demandClosed();
          return this.#gate.run(requester, () =>
            this.#breaker.run(
              () => this.#read(call, requester.signal),
              (error) => this.#isDown(error),
            ),
          );
        }),
    };
  }

  /** A read of the service's own. */
  read<T>(call: Call<T>): Promise<T> {
    return this.for({ customerId: serviceItself }).read(call);
  }

  /**
   * Work that waits for the cluster to come back, and repeats itself until it did; so it must not matter how often it is done.
   * @param patienceMs how long to wait; as long as a load does when left out
   * @throws DomainError `unavailable` when that was too short
   * @throws Refusal
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

  /**
   * A question about the cluster's state, in a second at most.
   * @throws DomainError `unavailable`, at once while the cluster is known not to answer
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

  /** A read that was slow although all nodes answer is slow by itself: sent again it would only double the load. */
  #isWorthRetry(error: unknown): boolean {
    if (!mayBeBetterElsewhere(error)) return false;
    const { length } = this.#nodes.filter(({ answers }) => answers);
    return isTimeout(error) ? length > 0 && length < this.#nodes.length : true;
  }

  /**
   * Whether a failed read means that the cluster is down, for everybody. One customer's queries can be slow or refused one
   * after the other, so what counts is that no node gives a sign of life.
   */
  async #isDown(error: unknown): Promise<boolean | undefined> {
    if (isAborted(error)) return undefined;
    this.#failures = isTrouble(error) ? this.#failures + 1 : 0;
    if (this.#failures === 0) return false;
    const isJudged = mayBeBetterElsewhere(error); // all nodes were asked just now
    if (!isJudged && this.#failures < failuresInDoubt) return false;
    if (!isJudged) await this.#probeAll();
    this.#failures %= failuresInDoubt;
    return isRejected(error) || this.#nodes.every(({ answers }) => !answers);
  }

  async #attempt<T>(call: Call<T>, requestTimeout: number, signal?: AbortSignal): Promise<T> {
    const node = this.#pick();
    // A signal of its own: the client fires this one's event when the call takes too long.
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

  /** Whoever asks meanwhile gets the same answer. */
  #probeAll(): Promise<unknown> {
    this.#probing ??= Promise.all(this.#nodes.map((node) => probe(node))).finally(() => (this.#probing = undefined));
    return this.#probing;
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

/** How a failed call is counted in metrics. */
function outcomeOf(error: unknown): string {
  if (isAborted(error)) return 'aborted';
  if (isTimeout(error)) return 'timeout';
  return isTrouble(error) ? 'trouble' : 'error';
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
    node.answers = true;
  } catch (error) {
    node.doubt = doubtAfter(error);
    node.answers = !isTrouble(error);
  }
}

function doubtAfter(error: unknown): Doubt {
  if (isTimeout(error)) return 1;
  return isSilence(error) ? 2 : 0;
}
