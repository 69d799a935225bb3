import type { FastifyBaseLogger } from 'fastify';
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Config } from '../config.ts';
import { rateLimited } from '../errors.ts';
import { limitedRequests } from '../metrics.ts';
import { RedisServer } from './redis.ts';

/**
 * For each rate limit, the environment variable that sets its maximum number of requests per minute. The limits are
 * checked in this order.
 */
const variables = {
  default: 'RATE_LIMIT_DEFAULT',
  prospects: 'RATE_LIMIT_PROSPECTS',
  jobs: 'RATE_LIMIT_JOBS',
  bulk: 'RATE_LIMIT_BULK',
  keys: 'RATE_LIMIT_KEYS',
  pages: 'RATE_LIMIT_PAGES',
  login: 'RATE_LIMIT_LOGIN',
  unauthenticated: 'RATE_LIMIT_UNAUTHENTICATED',
} as const satisfies Record<string, keyof Config>;

/** The name of a rate limit, e.g. `default` or `login`. */
export type Policy = keyof typeof variables;

/** The names of all rate limits, in the order in which they are checked. */
export const policies = Object.keys(variables) as Policy[];

/**
 * Length of the time window in which a rate limit counts requests (seconds). A window begins with the first request
 * that it counts.
 */
export const windowSeconds = 60;

/** How much of a rate limit one key (e.g. an API key or an IP address) has used in its current window of one minute. */
export interface Use {
  limit: Limit;
  /** Requests counted in this window, including the current one. */
  used: number;
  /** Milliseconds until the current window of one minute ends. */
  msLeft: number;
  /** When the current window ends, as a `performance.now()` time. */
  endsAt: number;
  /** True if Redis counted the request, false if this process counted it. */
  isShared: boolean;
}

/**
 * Throws if a request exceeds one of its rate limits.
 * @param uses for each rate limit of the request, how much of it is used; in the order of checking
 * @throws DomainError `rate_limited`, naming the first exceeded limit
 */
export function refuseIfPast(uses: Use[]): void {
  const past = uses.find(({ limit, used }) => used > limit.quota);
  if (past) throw rateLimited(past.limit.policy, Math.max(1, secondsLeft(past)));
}

/** Returns the seconds until the rate limit's current window ends, rounded up. */
export const secondsLeft = ({ msLeft }: Use): number => Math.ceil(msLeft / 1000);

/**
 * A rate limit: a maximum number of requests per minute for each key (an API key, a user, an IP address or an account).
 * Requests are counted in Redis while it responds, otherwise in this process.
 */
export class Limit {
  readonly policy: Policy;
  readonly quota: number;
  readonly #own: BoundedMemory;
  readonly #allowed: ReturnType<typeof limitedRequests.labels>;
  readonly #refused: ReturnType<typeof limitedRequests.labels>;
  readonly #server: RedisServer | undefined;
  // The library's own fallback is not used, because it does not report where a request was counted. A count must be
  // reverted where it was made.
  readonly #shared: RateLimiterRedis | undefined;

  /**
   * Creates a rate limit.
   * @param quota maximum number of requests per minute
   * @param server the Redis server that counts; undefined to count in this process only
   * @param name distinguishes this limit from others on the same Redis server
   */
  constructor(policy: Policy, quota: number, server: RedisServer | undefined, name: string = policy) {
    const options = { points: quota, duration: windowSeconds, keyPrefix: `sales-data-api:limit:${name}` };
    this.policy = policy;
    this.#allowed = limitedRequests.labels(policy, 'allowed');
    this.#refused = limitedRequests.labels(policy, 'refused');
    this.quota = quota;
    this.#own = new BoundedMemory(options);
    this.#server = server;
    this.#shared = server && new RateLimiterRedis({ ...options, storeClient: server.client });
  }

  /** Counts one request of a key (e.g. an API key or an IP address). Returns how much of the limit the key has used. */
  async count(key: string): Promise<Use> {
    const shared = this.#server && (await this.#server.ask(() => this.#shared!.penalty(key)));
    const use = shared ? this.#use(shared, true) : this.#use(await this.#own.count(key), false);
    if (use.used > this.quota) this.#refused.inc();
    else this.#allowed.inc();
    return use;
  }

  /** Returns how much of the limit a key has used. Does not count a request. */
  async read(key: string): Promise<Use> {
    const shared = await this.#server?.ask(async () => (await this.#shared!.get(key)) ?? unused);
    return this.#use(shared ?? (await this.#own.get(key)) ?? unused, shared !== undefined);
  }

  /**
   * Undoes `count` for one request of a key. Does nothing if the time window in which the request was counted has
   * ended.
   */
  async giveBack(key: string, { isShared, endsAt }: Use): Promise<void> {
    if (performance.now() >= endsAt) return;
    if (isShared) await this.#server!.ask(() => this.#shared!.reward(key));
    else await this.#own.reward(key);
  }

  #use({ consumedPoints, msBeforeNext }: Counted, isShared: boolean): Use {
    const msLeft = Math.max(0, msBeforeNext);
    return { limit: this, used: consumedPoints, msLeft, endsAt: performance.now() + msLeft, isShared };
  }
}

/** The number of requests of a key and the time left in its window, as the rate limit library returns them. */
type Counted = Pick<RateLimiterRes, 'consumedPoints' | 'msBeforeNext'>;

/** The request count of a key without requests in the last minute. */
const unused: Counted = { consumedPoints: 0, msBeforeNext: 0 };

/** Maximum number of keys that one rate limit counts in the memory of this process (about 20 MB). */
export const maxKeys = 50_000;

/**
 * A request counter in memory that holds at most `maxKeys` keys; beyond that, it forgets the oldest keys. Otherwise
 * requests from millions of IP addresses could fill the memory.
 */
class BoundedMemory extends RateLimiterMemory {
  /** The newest time windows and their keys, as a ring buffer. `#next` is the index of the oldest one. */
  readonly #windows: { key: string; endsAt: number }[] = [];
  #next = 0;

  async count(key: string): Promise<RateLimiterRes> {
    const result = await this.penalty(key);
    if (result.isFirstInDuration) await this.#begin({ key, endsAt: performance.now() + result.msBeforeNext });
    return result;
  }

  async #begin(window: { key: string; endsAt: number }): Promise<void> {
    const oldest = this.#windows[this.#next];
    this.#windows[this.#next] = window;
    this.#next = (this.#next + 1) % maxKeys;
    if (oldest && oldest.endsAt > performance.now()) await this.delete(oldest.key);
  }
}

/** The rate limits that are switched on, by name. A limit that is switched off is undefined. */
export interface RateLimits extends Partial<Record<Policy, Limit>> {
  /**
   * Limits the failed logins of one IP address to all accounts together. It is three times the limit for one account.
   */
  loginAddress?: Limit;
  /** Returns false if a Redis server is configured and does not respond, otherwise true. */
  isUp(): Promise<boolean>;
  close(): void;
}

/**
 * Creates the rate limits that the configuration switches on. Connects to Redis first, and waits at most one second for
 * it.
 */
export async function openRateLimits(config: Config, log: FastifyBaseLogger): Promise<RateLimits> {
  const isOn = config.RATE_LIMITS === 'on';
  const server = isOn && config.REDIS_URL ? await RedisServer.open(config.REDIS_URL, 'rate limits', log) : undefined;
  const limits: Partial<Record<Policy, Limit>> = {};
  for (const policy of policies) {
    const quota = config[variables[policy]];
    if (isOn && quota > 0) limits[policy] = new Limit(policy, quota, server);
  }
  const probe = server && new Limit('default', 1, server, 'probe');
  return {
    ...limits,
    ...(limits.login && { loginAddress: new Limit('login', 3 * config.RATE_LIMIT_LOGIN, server, 'login-address') }),
    isUp: async () => !probe || (await probe.count('probe')).isShared,
    close: () => server?.close(),
  };
}
