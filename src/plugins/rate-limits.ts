import type { FastifyContextConfig, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { serializeItem, serializeList, type Item } from 'structured-headers';
import { ConcurrencyLimit } from '../limits/concurrency.ts';
import {
  openRateLimits,
  policies,
  refuseIfPast,
  secondsLeft,
  windowSeconds,
  type Limit,
  type Policy,
  type RateLimits,
  type Use,
} from '../limits/rate-limits.ts';

declare module 'fastify' {
  interface FastifyInstance {
    rateLimits: RateLimits;
  }
  interface FastifyContextConfig {
    /**
     * A second rate limit of the route. Requests with an API key count under this limit and under the limit `default`.
     */
    limit?: 'prospects' | 'jobs' | 'bulk';
    /**
     * The kind of a route whose requests are expensive for as long as they last. Of each kind, a customer may have two
     * running at once in this process, also if rate limits are off.
     */
    concurrent?: 'exports';
  }
}

/** Creates the rate limits (`app.rateLimits`) when the app starts, and closes them when the app closes. */
export default fp(
  async (app) => {
    const limits = await openRateLimits(app.config, app.log);
    app.decorate('rateLimits', limits);
    app.addHook('onClose', async () => limits.close());
    app.addHook('onRoute', requireLimit);
  },
  { name: 'rate-limits', dependencies: ['services'] },
);

/**
 * Checks that a route which can answer 402 (too few credits) declares the rate limit `jobs`.
 * @throws Error if it does not; the server then does not start
 */
function requireLimit({ method, url, schema, config }: RouteOptions): void {
  const responses: unknown = schema?.response;
  const spends = typeof responses === 'object' && responses !== null && 402 in responses;
  if (spends && config?.limit !== 'jobs')
    throw new Error(`The route ${String(method)} ${url} spends credits and does not declare config.limit: 'jobs'`);
}

/** Returns the rate limit policies that count a route's requests, in the order in which they are checked. */
export function policiesOf({ access, limit }: FastifyContextConfig): Policy[] {
  if (!access || 'public' in access) return [];
  if ('session' in access) return ['keys'];
  if ('page' in access) return ['pages'];
  return limit ? ['default', limit] : ['default'];
}

/**
 * Counts an authenticated request under each rate limit of its route, and sets the rate limit headers of the response.
 * @throws DomainError `rate_limited` when the request exceeds a limit
 */
export type RequestCounter = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** The enabled rate limits of a route, and the value of the response header `ratelimit-policy` that describes them. */
interface RouteLimits {
  limits: Limit[];
  described: string;
}

/** Creates the function that counts requests under the enabled rate limits of their routes. */
export function requestCounter(all: RateLimits): RequestCounter {
  const byRoute = new WeakMap<FastifyContextConfig, RouteLimits>();
  const limitsOf = (config: FastifyContextConfig): RouteLimits => {
    const limits = policiesOf(config).flatMap((policy) => all[policy] ?? []);
    const routeLimits = { limits, described: describe(limits) };
    byRoute.set(config, routeLimits);
    return routeLimits;
  };
  const exports = new ConcurrencyLimit('exports', 2);
  const enter = ({ caller: { customerId }, requester, routeOptions }: FastifyRequest, reply: FastifyReply): void => {
    if (!routeOptions.config.concurrent) return;
    requester.signal!.throwIfAborted(); // the caller has hung up, and `close` has been emitted already
    exports.enter(customerId);
    reply.raw.once('close', () => exports.leave(customerId));
  };
  return async (request, reply) => {
    const { caller, routeOptions } = request;
    const { config } = routeOptions;
    const { limits, described } = byRoute.get(config) ?? limitsOf(config);
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

/** Formats the `ratelimit-policy` header, which lists the limits of a route. */
const describe = (limits: Limit[]): string =>
  serializeList(
    limits.map(({ policy, quota }): Item => [policy, new Map(Object.entries({ q: quota, w: windowSeconds }))]),
  );

/**
 * Formats one item of the response header `ratelimit`: how many requests one rate limit still allows, and until when.
 */
function itemOf(use: Use): string {
  // The library for structured fields would double the time of a request. Integers need no escaping.
  const { policy, quota } = use.limit;
  return `${names[policy]};r=${Math.max(0, quota - use.used)};t=${secondsLeft(use)}`;
}

/** The names of the rate limit policies, in quotes for use in response headers. */
const names = Object.fromEntries(policies.map((policy) => [policy, serializeItem(policy)])) as Record<Policy, string>;
