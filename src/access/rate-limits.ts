import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Redis } from 'ioredis';
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Config } from '../process/config.ts';
import { rateLimited, Unauthorized } from '../errors.ts';
import { limitedRequests } from '../process/metrics.ts';
import { addressGroup } from '../process/ip-addresses.ts';
import { fold } from '../text/fold.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';

// Callers wait 100 ms at most, so some time is left for their fallback.
const answerMs = 75;
const openMs = 1_000;
const reconnectMs = 250;
/** Milliseconds that Redis may stay silent while a response is expected. After that, the client connects again. */
const silenceMs = 2_000;

/**
 * A client for a Redis or Valkey server that may become unavailable. After a failed command, all commands fail at once
 * until a new connection is open. So an outage does not delay requests.
 */
export class RedisServer {
  readonly client: Redis;
  readonly #log: FastifyBaseLogger;
  #isUsable = false;
  #isWorking = true;
  #connectionFault = 'no connection yet';

  private constructor(client: Redis, log: FastifyBaseLogger) {
    this.#log = log;
    this.client = client;
    this.client.on('ready', () => {
      this.#isUsable = true;
      this.#connectionFault = 'the connection was closed';
    });
    this.client.on('close', () => (this.#isUsable = false));
    this.client.on('error', ({ message }) => (this.#connectionFault = message));
  }

  /** Connects to a Redis server. Waits at most one second; after that, connecting continues in the background. */
  static async open(url: string, log: FastifyBaseLogger): Promise<RedisServer> {
    const { Redis } = await import('ioredis'); // few installations use it
    const client = new Redis(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      connectTimeout: silenceMs,
      socketTimeout: silenceMs,
      retryStrategy: () => reconnectMs,
    });
    const server = new RedisServer(client, log);
    await Promise.race([server.client.connect().catch(() => undefined), sleep(openMs, undefined, { ref: false })]);
    return server;
  }

  async ask<T extends object>(command: () => Promise<T>): Promise<T | undefined> {
    if (!this.#isUsable) return this.#fail(this.#connectionFault);
    try {
      const answer = await inTime(command());
      if (!this.#isWorking) this.#log.info('the server for rate limits answers again');
      this.#isWorking = true;
      return answer;
    } catch (error) {
      return this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  close(): void {
    this.client.disconnect();
  }

  /** Closes the connection after a failed command, and opens a new one. Logs the reason only once per outage. */
  #fail(reason: string): undefined {
    if (this.#isWorking) this.#log.warn({ reason }, 'the server for rate limits does not answer');
    this.#isWorking = false;
    if (!this.#isUsable) return;
    this.#isUsable = false;
    this.client.disconnect(true);
  }
}

function inTime<T>(answer: Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  // After the timeout it waits one more round of the event loop: if this process was stalled, the answer may have
  // arrived unread.
  const timer = setTimeout(() => setImmediate(() => reject(new Error(`no answer in ${answerMs} ms`))), answerMs);
  answer.then(resolve, reject);
  return promise.finally(() => clearTimeout(timer));
}

/**
 * Environment variables with the maximum number of requests per minute, by rate limit. Requests are checked against the
 * limits in this order.
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

export const policies = Object.keys(variables) as Policy[];

export const windowSeconds = 60;

export interface Use {
  limit: Limit;
  used: number;
  msLeft: number;
  /** End of the time window (ms), on the clock of `performance.now()`. */
  endsAt: number;
  isShared: boolean;
}

export function refuseIfPast(uses: Use[]): void {
  const past = uses.find(({ limit, used }) => used > limit.quota);
  if (past) throw rateLimited(past.limit.policy, Math.max(1, secondsLeft(past)));
}

export const secondsLeft = ({ msLeft }: Use): number => Math.ceil(msLeft / 1000);

/**
 * Limits the requests per minute of each key (an API key, a user, an IP address or an account). Redis counts the
 * requests. This process counts them if Redis is not configured or does not respond.
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
   * @param server undefined: only this process counts the requests
   * @param name unique among the rate limits on the Redis server
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

  async count(key: string): Promise<Use> {
    const shared = this.#server && (await this.#server.ask(() => this.#shared!.penalty(key)));
    const use = shared ? this.#use(shared, true) : this.#use(await this.#own.count(key), false);
    if (use.used > this.quota) this.#refused.inc();
    else this.#allowed.inc();
    return use;
  }

  async read(key: string): Promise<Use> {
    const shared = await this.#server?.ask(async () => (await this.#shared!.get(key)) ?? unused);
    return this.#use(shared ?? (await this.#own.get(key)) ?? unused, shared !== undefined);
  }

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

/** Maximum number of keys whose requests one rate limit counts in memory. They need about 20 MB. */
export const maxKeys = 50_000;

/**
 * Counts requests in memory for at most `maxKeys` keys, such as IP addresses. Beyond that, deletes the keys with the
 * oldest time windows.
 */
class BoundedMemory extends RateLimiterMemory {
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

export interface RateLimits extends Partial<Record<Policy, Limit>> {
  /** Limits failed logins from one IP address, over all accounts. Allows three times as many as for one account. */
  loginAddress?: Limit;
  isUp(): Promise<boolean>;
  close(): void;
}

/**
 * Creates the rate limits that the configuration enables. Waits up to one second for the connection to Redis, if it is
 * configured.
 */
export async function openRateLimits(config: Config, log: FastifyBaseLogger): Promise<RateLimits> {
  const isOn = config.RATE_LIMITS === 'on';
  const server = isOn && config.REDIS_URL ? await RedisServer.open(config.REDIS_URL, log) : undefined;
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

// There is no limit for an account alone, because anybody could use such a limit to lock out the owner.
export class LoginAttempts {
  readonly #perAccount: Limit | undefined;
  readonly #perAddress: Limit | undefined;

  constructor({ login, loginAddress }: Pick<RateLimits, 'login' | 'loginAddress'>) {
    this.#perAccount = login;
    this.#perAddress = loginAddress;
  }

  async check(address: string): Promise<void> {
    const use = await this.#perAddress?.read(addressGroup(address));
    if (use) refuseIfPast([{ ...use, used: use.used + 1 }]);
  }

  /**
   * Runs a login attempt. If `attempt` throws `Unauthorized`, counts a failed login for the IP address and the account.
   * @param email the e-mail address of the account, which need not exist
   * @throws DomainError `rate_limited` if the limit of failed logins is reached; then does not call `attempt`
   */
  async run<T>(address: string, email: string, attempt: () => Promise<T>): Promise<T> {
    // Counted as failed before it runs, so that concurrent attempts count too. A successful attempt is subtracted again.
    const slots = await this.#take(address, email);
    const giveBack = () => Promise.all(slots.map(({ limit, key, use }) => limit.giveBack(key, use)));
    try {
      refuseIfPast(slots.map(({ use }) => use));
      const result = await attempt();
      await giveBack();
      return result;
    } catch (error) {
      if (!(error instanceof Unauthorized)) await giveBack();
      throw error;
    }
  }

  async #take(address: string, email: string): Promise<{ limit: Limit; key: string; use: Use }[]> {
    const group = addressGroup(address);
    const counted = [
      { limit: this.#perAccount, key: `${group} ${digest(fold(email))}` },
      { limit: this.#perAddress, key: group },
    ];
    const slots = counted.map(async ({ limit, key }) => limit && { limit, key, use: await limit.count(key) });
    return (await Promise.all(slots)).filter((slot) => slot !== undefined);
  }
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

const maxLookUps = 8;
const maxWaitMs = 10_000;

/** Limits the number of requests without a valid API key or session token from each IP address. */
export class UnauthenticatedLimit {
  readonly #limit: Limit | undefined;
  readonly #lookUps = new ConcurrencyLimiter({ name: 'look_ups', limit: Infinity, perHolder: maxLookUps, maxWaitMs });
  readonly #past = new LRUCache<string, true>({ max: 10_000 });

  constructor(limit: Limit | undefined) {
    this.#limit = limit;
  }

  /**
   * Counts a request that gets a 401 response, because it has no valid API key or session token.
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
   * Looks up an API key or session token. If the IP address has reached its rate limit, at most `maxLookUps` of its
   * look-ups run at the same time. So a valid key from such an address is delayed, but not rejected.
   * @throws DomainError `unavailable` if the look-up waits too long.
   */
  lookUp<T>(address: string, find: () => Promise<T>): Promise<T> {
    const name = addressGroup(address);
    return this.#past.has(name) ? this.#lookUps.run({ customerId: name }, find) : find();
  }
}
