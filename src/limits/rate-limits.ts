import type { FastifyBaseLogger } from 'fastify';
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Config } from '../process/config.ts';
import { rateLimited } from '../errors.ts';
import { limitedRequests } from '../process/metrics.ts';
import { RedisServer } from './redis.ts';

/**
 * Key: the name of a rate limit. Value: the environment variable that sets its maximum number of requests per minute.
 * The limits are checked in this order.
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

export type Policy = keyof typeof variables;

/** The names of all rate limits, in the order in which they are checked. */
export const policies = Object.keys(variables) as Policy[];

/**
 * Length of the time window in which a rate limit counts requests (seconds). The window begins with the first counted
 * request.
 */
export const windowSeconds = 60;

/**
 * How many requests a rate limit has counted for one key (e.g. an API key or an IP address) in the current time window
 * of one minute.
 */
export interface Use {
  limit: Limit;
  used: number;
  msLeft: number;
  /** The end of the current time window, on the clock of `performance.now()` (ms). */
  endsAt: number;
  /** True if Redis counted the request, false if this process counted it. */
  isShared: boolean;
}

/** @throws DomainError `rate_limited`, with the name of the first exceeded limit, if a request exceeds one of them. */
export function refuseIfPast(uses: Use[]): void {
  const past = uses.find(({ limit, used }) => used > limit.quota);
  if (past) throw rateLimited(past.limit.policy, Math.max(1, secondsLeft(past)));
}

export const secondsLeft = ({ msLeft }: Use): number => Math.ceil(msLeft / 1000);

/**
 * A rate limit: a maximum number of requests per minute for each key (an API key, a user, an IP address or an account).
 * Redis counts the requests. While Redis does not respond, or if none is configured, this process counts them in
 * memory.
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
   * @param server If undefined, only this process counts the requests.
   * @param name A name that is unique among the rate limits on the Redis server.
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

  /** Counts one request for a key. */
  async count(key: string): Promise<Use> {
    const shared = this.#server && (await this.#server.ask(() => this.#shared!.penalty(key)));
    const use = shared ? this.#use(shared, true) : this.#use(await this.#own.count(key), false);
    if (use.used > this.quota) this.#refused.inc();
    else this.#allowed.inc();
    return use;
  }

  /** As `count`, but does not count a request. */
  async read(key: string): Promise<Use> {
    const shared = await this.#server?.ask(async () => (await this.#shared!.get(key)) ?? unused);
    return this.#use(shared ?? (await this.#own.get(key)) ?? unused, shared !== undefined);
  }

  /**
   * Subtracts one request that `count` has counted for a key. Does nothing if the time window of that request has
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

type Counted = Pick<RateLimiterRes, 'consumedPoints' | 'msBeforeNext'>;

const unused: Counted = { consumedPoints: 0, msBeforeNext: 0 };

/** Maximum number of keys for which one rate limit counts requests in memory. This many keys need about 20 MB. */
export const maxKeys = 50_000;

/**
 * A request counter in memory for at most `maxKeys` keys (e.g. IP addresses). If there are more keys, deletes the
 * counts of the keys with the oldest time windows. So requests from millions of IP addresses cannot fill the memory.
 */
class BoundedMemory extends RateLimiterMemory {
  /** The newest time windows and their keys, as a ring buffer. `#next` is the index of the oldest time window. */
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

/** The enabled rate limits, by name. A disabled rate limit is undefined. */
export interface RateLimits extends Partial<Record<Policy, Limit>> {
  /**
   * Limits the failed logins of one IP address, summed over all accounts. The maximum is three times the maximum for
   * one account.
   */
  loginAddress?: Limit;
  /** Returns true if Redis responds or if no Redis server is configured. */
  isUp(): Promise<boolean>;
  close(): void;
}

/**
 * Creates the rate limits that the configuration enables. If Redis is configured, waits up to one second for the
 * connection to Redis.
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
