import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { DomainError } from '../errors.ts';
import { loggableError } from './request-log.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether the answer is counted by the `RefusalLog` instead of having a line of its own. */
    isCounted: boolean;
  }
}

/** How often a line is written at most (ms). */
const intervalMs = 1_000;

interface Counted {
  message: string;
  cause: Record<string, unknown> | undefined;
  count: number;
  /** The id of one of the requests. */
  example: string;
}

/**
 * Logs that requests were not answered. There can be thousands a second when the service is at its limit, so they are
 * counted: the first one is logged at once, the others together, one line a second, with the reasons and how often each.
 */
export class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #reasons = new Map<string, Counted>();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: FastifyBaseLogger) {
    this.#log = log;
  }

  /** Counts a request that was not answered because of this error. */
  add(request: FastifyRequest, error: DomainError): void {
    request.isCounted = true;
    const cause = causeOf(error);
    const name = `${error.message} ${String(cause?.['code'])}`;
    const counted = this.#reasons.get(name) ?? { message: error.message, cause, count: 0, example: request.id };
    counted.count += 1;
    this.#reasons.set(name, counted);
    if (!this.#timer) this.flush();
  }

  /** Logs what was counted since the last line. */
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

/** The cause as it may be logged, without the stack. */
function causeOf({ cause }: DomainError): Record<string, unknown> | undefined {
  if (cause === undefined) return undefined;
  const { stack, ...rest } = loggableError(cause);
  void stack;
  return rest;
}
