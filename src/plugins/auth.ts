import type { FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import type { Caller, SessionCaller } from '../caller.ts';
import { forbidden, Unauthorized } from '../errors.ts';
import { UnauthenticatedLimit } from '../limits/unauthenticated.ts';
import type { Actor } from '../schemas/audit.ts';
import type { Access, Scope } from '../schemas/scopes.ts';
import { keyAuthenticator } from './api-key-auth.ts';
import { requestCounter } from './rate-limits.ts';
import { sessionAuthenticator } from './session-auth.ts';

/**
 * Authenticates and authorises every request before its body is read: first 401, then 429, then 403. Each route
 * declares its credential and scope in `config.access`; a route without it stops the start.
 */
export default fp(
  async (app) => {
    const unauthenticatedLimit = new UnauthenticatedLimit(app.rateLimits.unauthenticated);
    const authenticateKey = keyAuthenticator(app, unauthenticatedLimit);
    const authenticateSession = sessionAuthenticator(app, unauthenticatedLimit);
    const countRequest = requestCounter(app.rateLimits);
    app.decorateRequest('caller');
    app.addHook('onRoute', requireAccess);
    app.addHook('onRequest', async (request, reply) => {
      const wanted = accessOf(request);
      if ('public' in wanted) return;
      const { address } = request;
      const authenticate = 'session' in wanted ? authenticateSession : authenticateKey;
      try {
        request.caller = await authenticate(request);
      } catch (error) {
        if (error instanceof Unauthorized) await unauthenticatedLimit.count(address);
        throw error;
      }
      request.belongsTo(request.caller.customerId);
      await countRequest(request, reply);
      if (mayPass(request.caller, wanted)) return;
      request.log.info({ wanted }, 'forbidden');
      throw forbidden();
    });
  },
  { name: 'auth', dependencies: ['services', 'requester', 'rate-limits'] },
);

/**
 * Rejects a route that does not declare `config.access`.
 * @throws Error at start
 */
function requireAccess(route: RouteOptions): void {
  if (!route.config?.access) {
    throw new Error(
      `The route ${String(route.method)} ${route.url} does not declare config.access: add who may call it`,
    );
  }
}

/**
 * Returns the access that a request's route declares. An unknown path is public, so that it answers 404 to everyone.
 * @throws Error if a route declares none, so that a mistake denies access
 */
function accessOf(request: FastifyRequest): Access {
  if (request.is404) return { public: true };
  const declared = request.routeOptions.config.access;
  if (!declared) throw new Error(`The route ${request.routeOptions.url} does not declare config.access`);
  return declared;
}

/** Returns whether a caller has the role or scope that a route requires. */
function mayPass(caller: Caller, wanted: Exclude<Access, { public: true }>): boolean {
  if (caller.kind === 'session') return 'session' in wanted && (wanted.session === 'member' || caller.role === 'admin');
  return scopesOf(wanted).some((scope) => caller.scopes.includes(scope));
}

/** Returns the scopes of which a route requires one. */
function scopesOf(wanted: Access): readonly Scope[] {
  if ('scope' in wanted) return [wanted.scope];
  return 'anyScope' in wanted ? wanted.anyScope : [];
}

/**
 * Returns the logged-in user on a route with session access.
 * @throws Error on a route without session access
 */
export function sessionOf(request: FastifyRequest): SessionCaller {
  if (request.caller.kind !== 'session') throw new Error('This route does not declare session access in config.access');
  return request.caller;
}

/** Returns the logged-in user and their address, for the audit log. */
export const actorOf = (request: FastifyRequest): Actor => ({
  actor: sessionOf(request).email,
  address: request.address,
});
