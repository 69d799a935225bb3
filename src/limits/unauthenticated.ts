import { LRUCache } from 'lru-cache';
import { addressGroup } from '../network/address-group.ts';
import { LookupSlots } from './lookup-slots.ts';
import { refuseIfPast, type Limit } from './rate-limits.ts';

/**
 * How long this process remembers that an address is not above its rate limit (ms). Short, because other instances may
 * count more requests of the address.
 */
const trustMs = 1_000;

/** Limits the requests of each IP address that have no valid credential (API key or session token). */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #slots = new LookupSlots();
  /** Whether an address is above its rate limit, as this process last saw it. */
  readonly #known = new LRUCache<string, boolean>({ max: 10_000, ttl: trustMs });

  /**
   * Creates the limiter.
   * @param limit the rate limit of each address; undefined if it is switched off
   */
  constructor(limit: Limit | undefined) {
    this.#limit = limit;
  }

  /**
   * Counts a request that is about to be answered with 401.
   * @throws DomainError `rate_limited` when its address is above the limit; the answer is then 429
   */
  async count(address: string): Promise<void> {
    if (!this.#limit) return;
    const name = addressGroup(address);
    const use = await this.#limit.count(name);
    if (use.used >= this.#limit.quota) this.#known.set(name, true, { ttl: Math.max(1, use.msLeft) });
    refuseIfPast([use]);
  }

  /**
   * Looks up a credential in the database. If the address is above its rate limit, the look-up is not rejected, but may
   * wait: only a few look-ups of the address run at once.
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
