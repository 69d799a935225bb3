import type { FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import type { Caller, SessionCaller } from '../caller.ts';
import { forbidden, Unauthorized } from '../errors.ts';
import type { Actor } from '../schemas/audit.ts';
import type { Access, Scope } from '../schemas/scopes.ts';
import { UnauthenticatedLimit } from '../unauthenticated.ts';
import { keyAuthenticator } from './api-key-auth.ts';
import { requestCounter } from './rate-limits.ts';
import { sessionAuthenticator } from './session-auth.ts';

/**
 * Lets a request pass that may use its route: 401, then 429, then 403, before a byte of its body is read. Which credential
 * and scope a route wants stands in its `config.access`; one without it stops the boot.
 */
export default fp(
  async (app) => {
    const strangers = new UnauthenticatedLimit(app.rateLimits.unauthenticated);
    const authenticateKey = keyAuthenticator(app, strangers);
    const authenticateSession = sessionAuthenticator(app, strangers);
    const countRequest = requestCounter(app.rateLimits);
    app.decorateRequest('caller');
    app.addHook('onRoute', demandAccess);
    app.addHook('onRequest', async (request, reply) => {
      const wanted = accessOf(request);
      if ('public' in wanted) return;
      const { address } = request;
      const authenticate = 'session' in wanted ? authenticateSession : authenticateKey;
      try {
        request.caller = await authenticate(request);
      } catch (error) {
        if (error instanceof Unauthorized) await strangers.count(address);
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

function demandAccess(route: RouteOptions): void {
  if (!route.config?.access) {
    throw new Error(`The route ${String(route.method)} ${route.url} does not declare config.access: who may call it?`);
  }
}

/** The answer to an unknown path is for everybody; anything else that declares nothing fails closed. */
function accessOf(request: FastifyRequest): Access {
  if (request.is404) return { public: true };
  const declared = request.routeOptions.config.access;
  if (!declared) throw new Error(`The route ${request.routeOptions.url} does not declare config.access`);
  return declared;
}

function mayPass(caller: Caller, wanted: Exclude<Access, { public: true }>): boolean {
  if (caller.kind === 'session') return 'session' in wanted && (wanted.session === 'member' || caller.role === 'admin');
  return scopesOf(wanted).some((scope) => caller.scopes.includes(scope));
}

function scopesOf(wanted: Access): readonly Scope[] {
  if ('scope' in wanted) return [wanted.scope];
  return 'anyScope' in wanted ? wanted.anyScope : [];
}

/** The logged-in user of a route that wants a session. */
export function sessionOf(request: FastifyRequest): SessionCaller {
  if (request.caller.kind !== 'session') throw new Error('this route was not declared with session access');
  return request.caller;
}

/** That user, for the audit log. */
export const actorOf = (request: FastifyRequest): Actor => ({
  actor: sessionOf(request).email,
  address: request.address,
});
