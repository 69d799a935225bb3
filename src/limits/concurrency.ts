import { rateLimited } from '../errors.ts';

/** Limits how many requests of one kind each customer may run at once in this process. */
export class ConcurrencyLimit {
  readonly #name: string;
  readonly #most: number;
  readonly #running = new Map<string, number>();

  /**
   * Creates a limit.
   * @param name names the limit in the error
   * @param most how many requests of one customer may run at once
   */
  constructor(name: string, most: number) {
    this.#name = name;
    this.#most = most;
  }

  /**
   * Counts one more running request of a customer. Call `leave` when the request has ended.
   * @throws DomainError `rate_limited` if the customer already has as many running requests as allowed
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

/** Seconds after which a rejected caller should try again. Nobody knows when a running request will end. */
const retryAfter = 5;
