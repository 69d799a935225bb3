import { LRUCache } from 'lru-cache';
import { addressGroup } from '../network/address-group.ts';
import { LookupSlots } from './lookup-slots.ts';
import { refuseIfPast, type Limit } from './rate-limits.ts';

/**
 * How long this process remembers that an IP address is below its rate limit (ms). The time is short, because other
 * processes of the service count requests of the address too.
 */
const trustMs = 1_000;

/** Limits the number of requests without a valid API key or session token, for each IP address. */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #slots = new LookupSlots();
  /** For each IP address, whether it was above its rate limit when this process checked last. */
  readonly #known = new LRUCache<string, boolean>({ max: 10_000, ttl: trustMs });

  /**
   * Creates the limiter.
   * @param limit the rate limit of each address; undefined if it is switched off
   */
  constructor(limit: Limit | undefined) {
    this.#limit = limit;
  }

  /**
   * Counts a request that has no valid API key or session token and will get the response 401.
   * @throws DomainError `rate_limited` if its IP address is above the limit; the response is then 429
   */
  async count(address: string): Promise<void> {
    if (!this.#limit) return;
    const name = addressGroup(address);
    const use = await this.#limit.count(name);
    if (use.used >= this.#limit.quota) this.#known.set(name, true, { ttl: Math.max(1, use.msLeft) });
    refuseIfPast([use]);
  }

  /**
   * Looks up an API key or session token in the database. If the IP address is above its rate limit, only a few
   * look-ups run at the same time; the others wait.
   * @param find the look-up
   */
  lookUp<T>(address: string, find: () => Promise<T>): Promise<T> {
    const limit = this.#limit;
    if (!limit) return find();
    const name = addressGroup(address);
    return this.#slots.run(name, () => this.#isPast(limit, name), find);
  }

  async #isPast(limit: Limit, name: string): Promise<boolean> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { used } = await limit.read(name);
    this.#known.set(name, used >= limit.quota);
    return used >= limit.quota;
  }
}
