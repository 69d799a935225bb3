import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { DomainError } from '../errors.ts';
import { withoutStack } from '../logger.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** True if `RefusalLog` counts this request. The request then gets no log line of its own. */
    isCounted: boolean;
  }
}

/** Minimum time between two log lines about rejected requests (ms). */
const intervalMs = 1_000;

/** A reason for which requests are rejected, and the number of such requests since the last log line. */
interface Counted {
  message: string;
  cause: Record<string, unknown> | undefined;
  count: number;
  /** The id of one of the counted requests, as an example. */
  example: string;
}

/**
 * Logs requests that are answered with 503. There can be thousands per second, so it writes at most one line per
 * second, with the number of requests for each reason.
 */
export class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #reasons = new Map<string, Counted>();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: FastifyBaseLogger) {
    this.#log = log;
  }

  /** Counts a request that is answered with 503 because of this error. */
  add(request: FastifyRequest, error: DomainError): void {
    request.isCounted = true;
    const cause = error.cause === undefined ? undefined : withoutStack(error.cause);
    const name = `${error.message} ${String(cause?.['code'])}`;
    const counted = this.#reasons.get(name) ?? { message: error.message, cause, count: 0, example: request.id };
    counted.count += 1;
    this.#reasons.set(name, counted);
    if (!this.#timer) this.flush();
  }

  /** Writes one log line about the requests counted since the previous line, if any. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#reasons.size === 0) return;
    const reasons = [...this.#reasons.values()];
    this.#reasons.clear();
    this.#log.warn({ count: reasons.reduce((sum, { count }) => sum + count, 0), reasons }, 'requests not answered');
    this.#timer = setTimeout(() => this.flush(), intervalMs).unref();
  }
}
