import { LRUCache } from 'lru-cache';
import { addressGroup } from './address-group.ts';
import { LookUpPlaces } from './look-up-places.ts';
import { refuseIfPast, type Limit } from './rate-limits.ts';

/** How long (ms) it is believed that an address is not past its limit, though other instances may have counted since. */
const trustMs = 1_000;

/** The limit on requests without a valid credential, by address. */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #places = new LookUpPlaces();
  /** Whether addresses are past the limit, as far as this process knows. */
  readonly #known = new LRUCache<string, boolean>({ max: 10_000, ttl: trustMs });

  /** @param limit undefined when it is off */
  constructor(limit: Limit | undefined) {
    this.#limit = limit;
  }

  /**
   * Counts a request that is to be answered 401.
   * @throws DomainError `rate_limited` when its address is past the limit
   */
  async count(address: string): Promise<void> {
    if (!this.#limit) return;
    const name = addressGroup(address);
    const use = await this.#limit.count(name);
    if (use.used >= this.#limit.quota) this.#known.set(name, true, { ttl: use.msLeft });
    refuseIfPast([use]);
  }

  /** Looks a well-formed credential up, whatever its address did; but an address past the limit has few look-ups under way at once. */
  lookUp<T>(address: string, find: () => Promise<T>): Promise<T> {
    const limit = this.#limit;
    if (!limit) return find();
    const name = addressGroup(address);
    return this.#places.run(name, () => this.#isPast(limit, name), find);
  }

  async #isPast(limit: Limit, name: string): Promise<boolean> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { used } = await limit.read(name);
    this.#known.set(name, used >= limit.quota);
    return used >= limit.quota;
  }
}
