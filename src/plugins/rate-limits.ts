import type { FastifyContextConfig, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { serializeItem, serializeList, type Item } from 'structured-headers';
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
} from '../rate-limits.ts';

declare module 'fastify' {
  interface FastifyInstance {
    rateLimits: RateLimits;
  }
  interface FastifyContextConfig {
    /** The policy that requests with a key count under besides `default`. */
    limit?: 'prospects' | 'jobs';
  }
}

/** Opens the rate limits, and closes them with the app. */
export default fp(
  async (app) => {
    const limits = await openRateLimits(app.config, app.log);
    app.decorate('rateLimits', limits);
    app.addHook('onClose', async () => limits.close());
    app.addHook('onRoute', demandLimit);
  },
  { name: 'rate-limits', dependencies: ['services'] },
);

/** Calls that spend credits start a job or estimate one: the policy cannot be forgotten there. */
function demandLimit({ method, url, schema, config }: RouteOptions): void {
  const responses: unknown = schema?.response;
  const spends = typeof responses === 'object' && responses !== null && 402 in responses;
  if (spends && config?.limit !== 'jobs')
    throw new Error(`The route ${String(method)} ${url} spends credits and does not declare config.limit: 'jobs'`);
}

/** The policies that count a route's requests, in the order in which they refuse. */
export function policiesOf({ access, limit }: FastifyContextConfig): Policy[] {
  if (!access || 'public' in access) return [];
  if ('session' in access) return ['keys'];
  return limit ? ['default', limit] : ['default'];
}

/**
 * Counts a request of a known caller under each policy of its route, and says in its headers how far they are used.
 * @throws DomainError `rate_limited`
 */
export type RequestCounter = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** The limits that are on for a route, and the header that describes them. */
interface RouteLimits {
  limits: Limit[];
  described: string;
}

export function requestCounter(all: RateLimits): RequestCounter {
  const byRoute = new WeakMap<FastifyContextConfig, RouteLimits>();
  const limitsOf = (config: FastifyContextConfig): RouteLimits => {
    const limits = policiesOf(config).flatMap((policy) => all[policy] ?? []);
    const made = { limits, described: describe(limits) };
    byRoute.set(config, made);
    return made;
  };
  return async ({ caller, routeOptions: { config } }, reply) => {
    const { limits, described } = byRoute.get(config) ?? limitsOf(config);
    if (limits.length === 0) return;
    const holder = caller.kind === 'key' ? caller.keyId : caller.userId;
    const uses = await Promise.all(limits.map((limit) => limit.count(holder)));
    void reply.header('ratelimit-policy', described).header('ratelimit', uses.map(itemOf).join(', '));
    refuseIfPast(uses);
  };
}

// Both headers are lists of structured fields (RFC 9651), in the form that draft-ietf-httpapi-ratelimit-headers has since -08.

const describe = (limits: Limit[]): string =>
  serializeList(
    limits.map(({ policy, quota }): Item => [policy, new Map(Object.entries({ q: quota, w: windowSeconds }))]),
  );

/** Made anew for every request, so without the library, which takes as long as all the rest: integers are their digits there. */
function itemOf(use: Use): string {
  const { policy, quota } = use.limit;
  return `${names[policy]};r=${Math.max(0, quota - use.used)};t=${secondsLeft(use)}`;
}

const names = Object.fromEntries(policies.map((policy) => [policy, serializeItem(policy)])) as Record<Policy, string>;
