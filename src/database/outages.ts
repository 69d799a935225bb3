import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { isConnectionLost } from './lanes.ts';

/** Interval at which an unavailable database is checked (ms). */
const retryMs = 500;

/**
 * Logs one line when the database becomes unavailable, and one line when it is available again. A test statement checks
 * whether the database is available, because a single connection can also break for other reasons.
 */
export class Outages {
  readonly #ping: () => Promise<unknown>;
  #log: FastifyBaseLogger | undefined;
  #isChecking = false;
  #isClosed = false;

  /**
   * Creates the logger.
   * @param ping Runs a test statement in the database.
   */
  constructor(ping: () => Promise<unknown>) {
    this.#ping = ping;
  }

  /** Sets the logger and enables the checks. Before this call, nothing is checked or logged. */
  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /** Checks whether the database is available, if no check is running. Must be called when a connection has closed. */
  suspect(): void {
    if (!this.#log || this.#isChecking || this.#isClosed) return;
    this.#isChecking = true;
    void this.#check(this.#log).finally(() => (this.#isChecking = false));
  }

  /** Stops a running check, and prevents further checks. */
  close(): void {
    this.#isClosed = true;
  }

  /**
   * Checks whether the database is available. If not, logs the outage, waits until the database is available again, and
   * logs this too.
   */
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
   * Runs the test statement. Returns the error code and message if the database cannot be reached. Returns undefined if
   * the database responds, even if it responds with an error.
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
 * Returns the log level for an error after which an operation is retried. For a lost database connection, the level is
 * only `debug`, because `Outages` already logs the outage.
 */
export const retryLevel = (error: unknown): 'debug' | 'warn' => (isConnectionLost(error) ? 'debug' : 'warn');
