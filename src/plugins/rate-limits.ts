import type { FastifyContextConfig, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { plugin } from './plugin.ts';
import { serializeItem, serializeList, type Item } from 'structured-headers';
import underPressure from '@fastify/under-pressure';
import { FairSemaphore } from '../access/concurrency-limiter.ts';
import { rateLimited, unavailable } from '../errors.ts';
import { isInside } from './requester.ts';
import { openRateLimits, policies, refuseIfPast, secondsLeft, windowSeconds } from '../access/rate-limits.ts';
import type { Limit, Policy, RateLimits, Use } from '../access/rate-limits.ts';

declare module 'fastify' {
  interface FastifyInstance {
    rateLimits: RateLimits;
  }
  interface FastifyContextConfig {
    limit?: 'prospects' | 'jobs' | 'bulk';
    /**
     * Marks a route whose requests are expensive. Each customer may run two requests of the same kind at once in this
     * process, even if rate limits are disabled.
     */
    concurrent?: 'exports';
  }
}

export const rateLimits = plugin({ name: 'rate-limits', dependencies: ['services'] }, async (app) => {
  const limits = await openRateLimits(app.config, app.log);
  app.decorate('rateLimits', limits);
  app.addHook('onClose', async () => limits.close());
  app.addHook('onRoute', requireLimit);
});

function requireLimit({ method, url, schema, config }: RouteOptions): void {
  const responses: unknown = schema?.response;
  const spends = typeof responses === 'object' && responses !== null && 402 in responses;
  if (spends && config?.limit !== 'jobs')
    throw new Error(`The route ${String(method)} ${url} spends credits and does not declare config.limit: 'jobs'`);
}

export function policiesOf({ access, limit }: FastifyContextConfig): Policy[] {
  if (!access || 'public' in access) return [];
  if ('session' in access) return ['keys'];
  if ('page' in access) return ['pages'];
  return limit ? ['default', limit] : ['default'];
}

type RequestCounter = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

interface RouteLimits {
  limits: Limit[];
  described: string;
}

export function requestCounter(all: RateLimits): RequestCounter {
  const byRoute = new WeakMap<FastifyContextConfig, RouteLimits>();
  const limitsOf = (config: FastifyContextConfig): RouteLimits => {
    const limits = policiesOf(config).flatMap((policy) => all[policy] ?? []);
    const routeLimits = { limits, described: describe(limits) };
    byRoute.set(config, routeLimits);
    return routeLimits;
  };
  const ofRoute = (config: FastifyContextConfig): RouteLimits => byRoute.get(config) ?? limitsOf(config);
  const exports = new FairSemaphore(Infinity, 2);
  const enter = ({ caller: { customerId }, requester, routeOptions }: FastifyRequest, reply: FastifyReply): void => {
    if (!routeOptions.config.concurrent) return;
    requester.signal!.throwIfAborted(); // the caller has hung up, and `close` has been emitted already
    if (!exports.tryTake(customerId)) throw rateLimited('exports', 5);
    reply.raw.once('close', () => exports.release(customerId));
  };
  return async (request, reply) => {
    const { caller, routeOptions } = request;
    const { config } = routeOptions;
    const { limits: ofAll, described } = ofRoute(config);
    const limits = isInside() ? ofAll.filter(({ policy }) => policy !== 'default') : ofAll;
    if (limits.length === 0) return enter(request, reply);
    const holder = caller.kind === 'key' ? caller.keyId : caller.userId;
    const uses = await Promise.all(limits.map((limit) => limit.count(holder)));
    void reply.header('ratelimit-policy', described).header('ratelimit', uses.map(itemOf).join(', '));
    refuseIfPast(uses);
    enter(request, reply);
  };
}

// Both headers are lists of structured fields (RFC 9651), in the format of draft-ietf-httpapi-ratelimit-headers-08 and
// later.

const describe = (limits: Limit[]): string =>
  serializeList(
    limits.map(({ policy, quota }): Item => [policy, new Map(Object.entries({ q: quota, w: windowSeconds }))]),
  );

function itemOf(use: Use): string {
  // The library for structured fields would double the time of a request. Integers need no escaping.
  const { policy, quota } = use.limit;
  return `${names[policy]};r=${Math.max(0, quota - use.used)};t=${secondsLeft(use)}`;
}

const names = Object.fromEntries(policies.map((policy) => [policy, serializeItem(policy)])) as Record<Policy, string>;

// After `auth`, which sets the request's customer.
/**
 * Fastify plugin that rejects requests with 503 while the event loop of the process is delayed. Rejects only requests
 * of customers that have more than one running request. Never rejects health checks.
 */
export const overload = plugin({ name: 'overload', dependencies: ['auth', 'requester'] }, async (app) => {
  await app.register(underPressure, {
    maxEventLoopDelay: app.config.OVERLOAD_MS,
    sampleInterval: 250, // the default of 1 s misses short stalls
    pressureHandler: ({ requester, routeOptions }, _reply, _type, delay) => {
      if (delay === Infinity) return; // nothing was measured: the process itself got no CPU time
      if (routeOptions.config.isProbe) return; // whoever overloads the service must not take it out of rotation
      if (app.inFlight.heldBy(requester.customerId) > 1) throw unavailable('The service is overloaded');
    },
  });
});
