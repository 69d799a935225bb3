import { LRUCache } from 'lru-cache';
import { addressGroup } from '../network/address-group.ts';
import { LookupSlots } from './lookup-slots.ts';
import { refuseIfPast, type Limit } from './rate-limits.ts';

/**
 * How long a "not above its limit" result for an address is cached (ms). Other instances may have counted more requests
 * since.
 */
const trustMs = 1_000;

/** Limits requests without a valid credential, by address. */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #slots = new LookupSlots();
  /** Whether an address is above its limit, as far as this process knows. */
  readonly #known = new LRUCache<string, boolean>({ max: 10_000, ttl: trustMs });

  /**
   * Creates the limiter.
   * @param limit undefined when the limit is switched off
   */
  constructor(limit: Limit | undefined) {
    this.#limit = limit;
  }

  /**
   * Counts a request that will be answered with 401.
   * @throws DomainError `rate_limited` when its address is above the limit
   */
  async count(address: string): Promise<void> {
    if (!this.#limit) return;
    const name = addressGroup(address);
    const use = await this.#limit.count(name);
    if (use.used >= this.#limit.quota) this.#known.set(name, true, { ttl: Math.max(1, use.msLeft) });
    refuseIfPast([use]);
  }

  /**
   * Looks up a well-formed credential. Addresses above their limit are not rejected, but have few look-ups in flight at
   * once.
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
