import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { isConnectionLost } from './lanes.ts';

/** Time between two attempts to reach a database that does not answer (ms). */
const retryMs = 500;

/**
 * Logs when the database stops to answer and when it answers again: one line each, however many connections break. Many
 * connections can report the same fault, and a single one can break while the database is up, so a statement of its own
 * decides.
 */
export class Outages {
  readonly #ping: () => Promise<unknown>;
  #log: FastifyBaseLogger | undefined;
  #isChecking = false;
  #isClosed = false;

  /** @param ping runs a statement in the database */
  constructor(ping: () => Promise<unknown>) {
    this.#ping = ping;
  }

  /** Starts to log. Nothing is checked before this is called. */
  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /** Checks whether the database answers, unless a check is already running. Call this when a connection has closed. */
  suspect(): void {
    if (!this.#log || this.#isChecking || this.#isClosed) return;
    this.#isChecking = true;
    void this.#check(this.#log).finally(() => (this.#isChecking = false));
  }

  /** Ends the check that may be running. */
  close(): void {
    this.#isClosed = true;
  }

  /** Returns when the database answers. */
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

  /** Runs the statement. Returns why the database cannot be reached, or undefined if it answers, with an error or not. */
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
 * Returns the level at which to log an error of work that is retried: `debug` if the database was lost, because
 * `Outages` logs that once for all such work.
 */
export const retryLevel = (error: unknown): 'debug' | 'warn' => (isConnectionLost(error) ? 'debug' : 'warn');
