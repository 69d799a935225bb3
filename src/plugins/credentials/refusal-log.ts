import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { DomainError } from '../../errors.ts';
import { withoutStack } from '../../process/logger.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** True if `RefusalLog` has counted this request in its summary. The request then has no log line of its own. */
    isCounted: boolean;
  }
}

/** Minimum time between two log lines of `RefusalLog` (ms). */
const intervalMs = 1_000;

interface Counted {
  message: string;
  cause: Record<string, unknown> | undefined;
  count: number;
  example: string;
}

/**
 * Logs requests that get the response 503. Writes at most one log line per second, with the number of requests for each
 * reason, because thousands of requests per second can get 503.
 */
export class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #reasons = new Map<string, Counted>();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: FastifyBaseLogger) {
    this.#log = log;
  }

  add(request: FastifyRequest, error: DomainError): void {
    request.isCounted = true;
    const cause = error.cause === undefined ? undefined : withoutStack(error.cause);
    const name = `${error.message} ${String(cause?.['code'])}`;
    const counted = this.#reasons.get(name) ?? { message: error.message, cause, count: 0, example: request.id };
    counted.count += 1;
    this.#reasons.set(name, counted);
    if (!this.#timer) this.flush();
  }

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
