import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { DomainError } from '../errors.ts';
import { loggableError } from './request-log.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether `RefusalLog` counts this response instead of a log line of its own. */
    isCounted: boolean;
  }
}

/** Minimum time between two log lines (ms). */
const intervalMs = 1_000;

/** A reason, and how many requests were rejected for it since the last log line. */
interface Counted {
  message: string;
  cause: Record<string, unknown> | undefined;
  count: number;
  /** The id of one of these requests. */
  example: string;
}

/**
 * Logs requests that were answered with 503. There can be thousands per second when the service is at its limit, so
 * they are counted: the first is logged at once, the others together, in one line per second with each reason and its
 * count.
 */
export class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #reasons = new Map<string, Counted>();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: FastifyBaseLogger) {
    this.#log = log;
  }

  /** Counts a request that was rejected because of an error. */
  add(request: FastifyRequest, error: DomainError): void {
    request.isCounted = true;
    const cause = causeOf(error);
    const name = `${error.message} ${String(cause?.['code'])}`;
    const counted = this.#reasons.get(name) ?? { message: error.message, cause, count: 0, example: request.id };
    counted.count += 1;
    this.#reasons.set(name, counted);
    if (!this.#timer) this.flush();
  }

  /** Logs the requests counted since the last line. */
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

/** Returns an error's cause in loggable form, without the stack. */
function causeOf({ cause }: DomainError): Record<string, unknown> | undefined {
  if (cause === undefined) return undefined;
  const { stack, ...rest } = loggableError(cause);
  void stack;
  return rest;
}
