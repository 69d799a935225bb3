import type { FastifyBaseLogger } from 'fastify';
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Config } from '../config.ts';
import { rateLimited } from '../errors.ts';
import { limitedRequests } from '../metrics.ts';
import { RedisServer } from './redis.ts';

/**
 * For each rate limit policy, the configuration variable that sets its requests per minute. The policies are checked in
 * this order.
 */
const variables = {
  default: 'RATE_LIMIT_DEFAULT',
  prospects: 'RATE_LIMIT_PROSPECTS',
  jobs: 'RATE_LIMIT_JOBS',
  keys: 'RATE_LIMIT_KEYS',
  login: 'RATE_LIMIT_LOGIN',
  unauthenticated: 'RATE_LIMIT_UNAUTHENTICATED',
} as const satisfies Record<string, keyof Config>;

/** Name of a rate limit policy. */
export type Policy = keyof typeof variables;

/** All policies, in the order in which they are checked. */
export const policies = Object.keys(variables) as Policy[];

/** Length of a rate limit window (seconds). A window begins with the first request that it counts. */
export const windowSeconds = 60;

/** How many requests of a limit a key has used in its current window of one minute. */
export interface Use {
  limit: Limit;
  /** Requests counted in this window, including the current one. */
  used: number;
  /** Milliseconds until the current window of one minute ends. */
  msLeft: number;
  /** When the current window ends, as a `performance.now()` time. */
  endsAt: number;
  /** Whether Redis counted the request. If not, this process counted it. */
  isShared: boolean;
}

/**
 * Throws if a request exceeds one of its rate limits.
 * @param uses the state of each limit that counts the request, in the order of checking
 * @throws DomainError `rate_limited`, naming the first exceeded limit
 */
export function refuseIfPast(uses: Use[]): void {
  const past = uses.find(({ limit, used }) => used > limit.quota);
  if (past) throw rateLimited(past.limit.policy, Math.max(1, secondsLeft(past)));
}

/** Returns the seconds until the rate limit's current window ends, rounded up. */
export const secondsLeft = ({ msLeft }: Use): number => Math.ceil(msLeft / 1000);

/**
 * A rate limit: a maximum number of requests per minute for each key (an API key, a user, an address or an account).
 * Counts in Redis while it responds, otherwise in this process. It does not use the library's own fallback, because
 * that does not report where a request was counted. A count must be reverted where it was made.
 */
export class Limit {
  readonly policy: Policy;
  readonly quota: number;
  readonly #own: BoundedMemory;
  readonly #allowed: ReturnType<typeof limitedRequests.labels>;
  readonly #refused: ReturnType<typeof limitedRequests.labels>;
  readonly #server: RedisServer | undefined;
  readonly #shared: RateLimiterRedis | undefined;

  /**
   * Creates a rate limit.
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

  /** Counts one request of a key. Returns how much of the limit the key has used. */
  async count(key: string): Promise<Use> {
    const shared = this.#server && (await this.#server.ask(() => this.#shared!.penalty(key)));
    const use = shared ? this.#use(shared, true) : this.#use(await this.#own.count(key), false);
    if (use.used > this.quota) this.#refused.inc();
    else this.#allowed.inc();
    return use;
  }

  /** Returns how much of the limit a key has used, without counting a request. */
  async read(key: string): Promise<Use> {
    const shared = await this.#server?.ask(async () => (await this.#shared!.get(key)) ?? unused);
    return this.#use(shared ?? (await this.#own.get(key)) ?? unused, shared !== undefined);
  }

  /** Reverts the count of one request. Does nothing if the window in which it was counted has ended. */
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

/** The request count of a key, in the form that the rate limit library returns. */
type Counted = Pick<RateLimiterRes, 'consumedPoints' | 'msBeforeNext'>;

/** The request count of a key that has no current window. */
const unused: Counted = { consumedPoints: 0, msBeforeNext: 0 };

/** Maximum number of keys that one rate limit counts in one process. They take about 20 MB of memory. */
export const maxKeys = 50_000;

/**
 * An in-memory request counter that holds at most `maxKeys` keys. Above that, it drops the keys with the oldest
 * windows. Without this bound, a caller that owns a whole network could fill the memory with millions of addresses
 * within a minute.
 */
class BoundedMemory extends RateLimiterMemory {
  /** The latest windows, as a ring buffer. `#next` is the index of the oldest one. */
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

/** The rate limits that are switched on, by policy name. */
export interface RateLimits extends Partial<Record<Policy, Limit>> {
  /** Limits the failed logins of one address, for all accounts together. Three times the limit for one account. */
  loginAddress?: Limit;
  /** Returns false if a Redis server is configured and does not respond, otherwise true. */
  isUp(): Promise<boolean>;
  close(): void;
}

/** Creates the rate limits of the configuration. Waits at most one second for the connection to Redis. */
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
