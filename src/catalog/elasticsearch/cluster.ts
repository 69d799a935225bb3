import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@elastic/elasticsearch';
import type { Config } from '../../process/config.ts';
import { Gate } from '../../limits/gate.ts';
import { catalogCallDuration } from '../../process/metrics.ts';
import { withOwnAbort } from '../../process/own-abort.ts';
import { serviceItself, type Requester } from '../../credentials/requester.ts';
import { asDomainErrors, isAborted, isTimeout, isUnavailableError } from './errors.ts';
import { elasticsearch } from './package.ts';

/** Every call must pass these to the client. */
interface CallOptions {
  requestTimeout: number;
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

/** Sends one call. It must use the given client and the options. */
export type Call<T> = (client: Client, options: CallOptions) => Promise<T>;

/** How long an import's calls are retried (ms). Longer than the cluster needs to detect a lost node. */
export const importPatienceMs = 300_000;
/** Timeout of a question about the cluster's state (ms). */
const askMs = 1_000;
const readQueue = { maxWaiting: 500, maxWaitMs: 1_000 };
const firstPauseMs = 100;
const maxPauseMs = 5_000;

/**
 * Sends calls to a cluster. The client's own pool chooses the node: one that broke a connection or did not respond in
 * time gets fewer calls until it responds. A broken connection or a 502 to 504 is retried once, on another node. Limits
 * concurrent reads, shared fairly between customers.
 */
export class ClusterClient {
  readonly #client: Client;
  readonly #readMs: number;
  readonly #writeMs: number;
  readonly #gate: Gate;
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
    this.#gate = new Gate({ name: 'catalog', limit: config.ELASTICSEARCH_READS, ...readQueue });
    this.#readMs = config.ELASTICSEARCH_TIMEOUT_MS;
    this.#writeMs = config.ELASTICSEARCH_BULK_TIMEOUT_MS;
  }

  get gate(): Gate {
    return this.#gate;
  }

  /** Maximum time of a read, with its retry (ms). */
  get maxReadMs(): number {
    return 2 * this.#readMs;
  }

  for(requester: Requester): Reader {
    return {
      read: (call) =>
        asDomainErrors(() => this.#gate.run(requester, () => this.#send(call, this.#readMs, requester.signal))),
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

  /**
   * Sends a call about the cluster's state: at most one second.
   * @throws DomainError `unavailable` if the cluster does not respond
   */
  ask<T>(call: Call<T>): Promise<T> {
    return asDomainErrors(() => this.#send(call, Math.min(this.#readMs, askMs)));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#gate.close();
    await this.#client.close();
  }

  async #send<T>(call: Call<T>, requestTimeout: number, signal?: AbortSignal): Promise<T> {
    const stop = catalogCallDuration.startTimer();
    try {
      // The call gets its own signal, because the client fires the abort event of its signal when the call times out.
      const answer = await withOwnAbort(signal, (own) => call(this.#client, { requestTimeout, signal: own.signal }));
      stop({ outcome: 'ok' });
      return answer;
    } catch (error) {
      stop({ outcome: outcomeOf(error) });
      throw error;
    }
  }
}

function outcomeOf(error: unknown): string {
  if (isAborted(error)) return 'aborted';
  if (isTimeout(error)) return 'timeout';
  return isUnavailableError(error) ? 'trouble' : 'error';
}
