import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { isConnectionLost } from './lanes.ts';

/** Interval at which an unavailable database is checked (ms). */
const retryMs = 500;

/**
 * Logs one line when the database becomes unavailable, and one when it is available again. A test statement decides,
 * because a single connection can also break for other reasons.
 */
export class Outages {
  readonly #ping: () => Promise<unknown>;
  #log: FastifyBaseLogger | undefined;
  #isChecking = false;
  #isClosed = false;

  constructor(ping: () => Promise<unknown>) {
    this.#ping = ping;
  }

  /** Before this call, nothing is checked or logged. */
  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /** Starts a check, unless one is running. Call it when a connection has closed. */
  suspect(): void {
    if (!this.#log || this.#isChecking || this.#isClosed) return;
    this.#isChecking = true;
    void this.#check(this.#log).finally(() => (this.#isChecking = false));
  }

  close(): void {
    this.#isClosed = true;
  }

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

  /** Returns the error if the database cannot be reached. Undefined if it responds, even with an error. */
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

/** Returns the log level for an error that is retried: `debug` for a lost connection, because `Outages` logs it. */
export const retryLevel = (error: unknown): 'debug' | 'warn' => (isConnectionLost(error) ? 'debug' : 'warn');
