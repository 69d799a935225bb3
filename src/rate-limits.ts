import type { FastifyBaseLogger } from 'fastify';
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Config } from './config.ts';
import { rateLimited } from './errors.ts';
import { limitedRequests } from './metrics.ts';
import { RedisServer } from './redis.ts';

/** The policies, in the order in which they refuse, each with the variable that says how often a minute. */
const variables = {
  default: 'RATE_LIMIT_DEFAULT',
  prospects: 'RATE_LIMIT_PROSPECTS',
  jobs: 'RATE_LIMIT_JOBS',
  keys: 'RATE_LIMIT_KEYS',
  login: 'RATE_LIMIT_LOGIN',
  unauthenticated: 'RATE_LIMIT_UNAUTHENTICATED',
} as const satisfies Record<string, keyof Config>;

export type Policy = keyof typeof variables;

export const policies = Object.keys(variables) as Policy[];

/** Seconds of a window. It begins with the first request that is counted in it. */
export const windowSeconds = 60;

/** How far a limit is used by somebody, in the window that runs. */
export interface Use {
  limit: Limit;
  /** Requests counted in the window, the present one included. */
  used: number;
  /** Until the window ends (ms). */
  msLeft: number;
  /** When that is, on the clock of `performance.now()`. */
  endsAt: number;
  /** Whether it was counted on the shared server. */
  isShared: boolean;
}

/**
 * Refuses a request that is past a limit.
 * @throws DomainError `rate_limited` that names the first of them
 */
export function refuseIfPast(uses: Use[]): void {
  const past = uses.find(({ limit, used }) => used > limit.quota);
  if (past) throw rateLimited(past.limit.policy, Math.max(1, secondsLeft(past)));
}

/** Seconds until the window ends, rounded up. */
export const secondsLeft = ({ msLeft }: Use): number => Math.ceil(msLeft / 1000);

/**
 * A number of requests a minute, counted by key: on the shared server while there is one and it answers, else in this
 * process. The limiter's own insurance against an outage is not used: it does not tell who counted, and a place must be
 * given back where it was taken.
 */
export class Limit {
  readonly policy: Policy;
  readonly quota: number;
  readonly #own: BoundedMemory;
  readonly #allowed: ReturnType<typeof limitedRequests.labels>;
  readonly #refused: ReturnType<typeof limitedRequests.labels>;
  readonly #server: RedisServer | undefined;
  readonly #shared: RateLimiterRedis | undefined;

  /** @param name tells it from the other limits on the server */
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

  /** Counts one request. */
  async count(key: string): Promise<Use> {
    const shared = this.#server && (await this.#server.ask(() => this.#shared!.penalty(key)));
    const use = shared ? this.#use(shared, true) : this.#use(await this.#own.count(key), false);
    if (use.used > this.quota) this.#refused.inc();
    else this.#allowed.inc();
    return use;
  }

  /** How far the limit is used, without counting. */
  async read(key: string): Promise<Use> {
    const shared = await this.#server?.ask(async () => (await this.#shared!.get(key)) ?? unused);
    return this.#use(shared ?? (await this.#own.get(key)) ?? unused, shared !== undefined);
  }

  /** Takes back what `count` counted, unless its window has ended since. */
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

/** Of somebody who has no window. */
const unused: Counted = { consumedPoints: 0, msBeforeNext: 0 };

/** Keys that one limit counts at once in one process: some 20 MB. */
export const mostKeys = 50_000;

/**
 * Counts in memory, of a bounded number of keys: the limiter forgets a key when its window ends, but somebody with a
 * whole network can use millions of addresses within a minute. The oldest windows go first.
 */
class BoundedMemory extends RateLimiterMemory {
  /** The last windows that were begun, as a ring; `#next` is the oldest of them. */
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
    this.#next = (this.#next + 1) % mostKeys;
    if (oldest && oldest.endsAt > performance.now()) await this.delete(oldest.key);
  }
}

/** The limits that are on. */
export interface RateLimits extends Partial<Record<Policy, Limit>> {
  /** Failed logins from one address, whatever the account: three times as many as of one account. */
  loginAddress?: Limit;
  /** Whether the shared server counts, if there is one. */
  isUp(): Promise<boolean>;
  close(): void;
}

/** Opens the limits of the configuration; waits a second at most for the shared server. */
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
