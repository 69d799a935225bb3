import { rateLimited } from '../errors.ts';

/** Limits how many requests of one kind each customer may run at once in this process. */
export class ConcurrencyLimit {
  readonly #name: string;
  readonly #most: number;
  readonly #running = new Map<string, number>();

  /**
   * Creates a limit.
   * @param name The name of the limit, which appears in the error message.
   * @param most The maximum number of requests that one customer may run at once.
   */
  constructor(name: string, most: number) {
    this.#name = name;
    this.#most = most;
  }

  /**
   * Counts one more running request of a customer. The caller must call `leave` when the request has ended.
   * @throws DomainError `rate_limited` if the customer already runs the maximum number of requests.
   */
  enter(customerId: string): void {
    const running = this.#running.get(customerId) ?? 0;
    if (running >= this.#most) throw rateLimited(this.#name, retryAfter);
    this.#running.set(customerId, running + 1);
  }

  leave(customerId: string): void {
    const running = this.#running.get(customerId)! - 1;
    if (running > 0) this.#running.set(customerId, running);
    else this.#running.delete(customerId);
  }
}

/** Value of the `Retry-After` header in the response to a rejected request (seconds). */
const retryAfter = 5;
