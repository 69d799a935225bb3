import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { isConnectionLost } from './lanes.ts';

/** Time between two checks whether an unavailable database is available again (ms). */
const retryMs = 500;

/**
 * Logs when the database becomes unavailable and when it is available again. Writes only one line for each, even if
 * many connections break. A broken connection alone proves nothing, so a test statement decides.
 */
export class Outages {
  readonly #ping: () => Promise<unknown>;
  #log: FastifyBaseLogger | undefined;
  #isChecking = false;
  #isClosed = false;

  /**
   * Creates the logger.
   * @param ping runs a test statement in the database
   */
  constructor(ping: () => Promise<unknown>) {
    this.#ping = ping;
  }

  /** Starts to log. Before this call, the database is not checked. */
  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /**
   * Checks whether the database is available, unless a check is already running. Call this when a connection has
   * closed.
   */
  suspect(): void {
    if (!this.#log || this.#isChecking || this.#isClosed) return;
    this.#isChecking = true;
    void this.#check(this.#log).finally(() => (this.#isChecking = false));
  }

  /** Ends the check that may be running. */
  close(): void {
    this.#isClosed = true;
  }

  /** Checks the database. If it is unavailable, logs this and waits until it is available again. */
  async #check(log: FastifyBaseLogger): Promise<void> {
    let fault = await this.#faultOf();
    if (!fault || this.#isClosed) return;
    log.error(fault, 'the database does not answer');
    const since = performance.now();
    while (fault && !this.#isClosed) {
      await sleep(retryMs, undefined, { ref: false });
      fault = await this.#faultOf();
    }
    if (this.#isClosed) return;
    log.info({ seconds: Math.round((performance.now() - since) / 1000) }, 'the database answers again');
  }

  /**
   * Runs the test statement. Returns the reason if the database cannot be reached. Returns undefined if the database
   * responds, even with an error.
   */
  async #faultOf(): Promise<{ code: string | undefined; reason: string } | undefined> {
    try {
      await this.#ping();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (isConnectionLost(error)) return { code, reason: message };
    }
    return undefined;
  }
}

/**
 * Returns the log level for an error of work that is retried. Errors of a lost database connection get the level
 * `debug`, because `Outages` already logs the outage once.
 */
export const retryLevel = (error: unknown): 'debug' | 'warn' => (isConnectionLost(error) ? 'debug' : 'warn');
