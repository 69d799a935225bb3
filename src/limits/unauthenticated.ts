import { LRUCache } from 'lru-cache';
import { addressGroup } from '../network/address-group.ts';
import { Gate } from './gate.ts';
import { refuseIfPast, type Limit } from './rate-limits.ts';

/** Maximum number of look-ups that run at the same time for one IP address that has reached its rate limit. */
const maxLookUps = 8;
const maxWaitMs = 10_000;

/** Limits the number of requests without a valid API key or session token from each IP address. */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #lookUps = new Gate({ name: 'look_ups', limit: Infinity, perHolder: maxLookUps, maxWaitMs });
  /** The IP addresses that have reached their rate limit, until their minute ends. */
  readonly #past = new LRUCache<string, true>({ max: 10_000 });

  /** @param limit The rate limit of each IP address, or undefined if it is disabled. */
  constructor(limit: Limit | undefined) {
    this.#limit = limit;
  }

  /**
   * Counts a request that has no valid API key or session token, and that gets a 401 response.
   * @throws DomainError `rate_limited` if the IP address exceeds its limit. The response is then 429 instead of 401.
   */
  async count(address: string): Promise<void> {
    if (!this.#limit) return;
    const name = addressGroup(address);
    const use = await this.#limit.count(name);
    if (use.used >= this.#limit.quota) this.#past.set(name, true, { ttl: Math.max(1, use.msLeft) });
    refuseIfPast([use]);
  }

  /**
   * Runs the database look-up of an API key or session token. If the IP address has reached its rate limit, at most
   * `maxLookUps` of its look-ups run at the same time. So a valid key from such an address is delayed, not rejected.
   * @throws DomainError `unavailable` if the look-up waits too long.
   */
  lookUp<T>(address: string, find: () => Promise<T>): Promise<T> {
    const name = addressGroup(address);
    return this.#past.has(name) ? this.#lookUps.run({ customerId: name }, find) : find();
  }
}
