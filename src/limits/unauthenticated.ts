import { LRUCache } from 'lru-cache';
import { addressGroup } from '../network/address-group.ts';
import { Gate } from './gate.ts';
import { refuseIfPast, type Limit } from './rate-limits.ts';

// Short, because other processes of the service count requests of the same address.
/** How long this process usually caches whether an IP address has reached its rate limit (ms). */
const trustMs = 1_000;
/** Maximum number of look-ups that run at the same time for one IP address that exceeds its rate limit. */
const maxLookUps = 8;
const maxWaitMs = 10_000;

/** Limits the number of requests without a valid API key or session token from each IP address. */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #lookUps = new Gate({ name: 'look_ups', limit: Infinity, perHolder: maxLookUps, maxWaitMs });
  /** Cache by IP address: true if the address had reached its rate limit at the last check. */
  readonly #known = new LRUCache<string, boolean>({ max: 10_000, ttl: trustMs });

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
    if (use.used >= this.#limit.quota) this.#known.set(name, true, { ttl: Math.max(1, use.msLeft) });
    refuseIfPast([use]);
  }

  /**
   * Runs the database look-up of an API key or session token. If the IP address exceeds its rate limit, only a few of
   * its look-ups run at the same time, and further look-ups wait. So a valid key from such an address is delayed, not
   * rejected.
   * @throws DomainError `unavailable` if the look-up waits too long.
   */
  async lookUp<T>(address: string, find: () => Promise<T>): Promise<T> {
    const limit = this.#limit;
    if (!limit) return find();
    const name = addressGroup(address);
    const mayExceed = this.#lookUps.heldBy(name) >= maxLookUps && !(await this.#isPast(limit, name));
    return mayExceed ? find() : this.#lookUps.run({ customerId: name }, find);
  }

  async #isPast(limit: Limit, name: string): Promise<boolean> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { used } = await limit.read(name);
    this.#known.set(name, used >= limit.quota);
    return used >= limit.quota;
  }
}
