import type { FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { authorOf, type Caller, type SessionCaller } from '../../credentials/caller.ts';
import { forbidden, Unauthorized } from '../../errors.ts';
import { UnauthenticatedLimit } from '../../limits/unauthenticated.ts';
import type { Actor } from '../../schemas/audit.ts';
import { firstLacking, scopesOf, type Access, type Scope } from '../../schemas/base/scopes.ts';
import { keyAuthenticator } from './api-key-auth.ts';
import { requestCounter } from '../limits/rate-limits.ts';
import { bearerToken, sessionAuthenticator } from './session-auth.ts';
import { sessionCookies } from './session-cookie.ts';

/**
 * Fastify plugin that authenticates and authorises every request before its body is read. Checks the credential first
 * (401), then the rate limits (429), then the permission (403). Each route must declare in `config.access` who may call
 * it.
 */
export default fp(
  async (app) => {
    const unauthenticatedLimit = new UnauthenticatedLimit(app.rateLimits.unauthenticated);
    const authenticateKey = keyAuthenticator(app, unauthenticatedLimit);
    const authenticateSession = sessionAuthenticator(app, unauthenticatedLimit, bearerToken);
    const authenticatePage = sessionAuthenticator(app, unauthenticatedLimit, sessionCookies(app.config).tokenOf);
    const authenticatorFor = (wanted: Access) =>
      'page' in wanted ? authenticatePage : 'session' in wanted ? authenticateSession : authenticateKey;
    const countRequest = requestCounter(app.rateLimits);
    app.decorateRequest('caller');
    app.addHook('onRoute', requireAccess);
    app.addHook('onRoute', allowBody);
    app.addHook('onRequest', async (request, reply) => {
      const wanted = accessOf(request);
      if ('public' in wanted) return;
      const { address } = request;
      try {
        request.caller = await authenticatorFor(wanted)(request);
      } catch (error) {
        if (error instanceof Unauthorized && !isVisit(wanted, error)) await unauthenticatedLimit.count(address);
        throw error;
      }
      request.belongsTo(request.caller.customerId);
      request.requester.actor = authorOf(request.caller);
      await countRequest(request, reply);
      if (mayPass(request.caller, wanted)) return;
      request.log.info({ wanted }, 'forbidden');
      throw forbidden(lackingScopes(request.caller, wanted));
    });
  },
  { name: 'auth', dependencies: ['services', 'requester', 'rate-limits'] },
);

/**
 * Checks that a new route declares in `config.access` who may call the route.
 * @throws Error if `config.access` is missing. The server then does not start.
 */
function requireAccess(route: RouteOptions): void {
  if (!route.config?.access) {
    throw new Error(
      `The route ${String(route.method)} ${route.url} does not declare config.access: add who may call it`,
    );
  }
}

/** Maximum size of a request body with a credential, if the route sets no other limit (bytes). */
const maxBodyBytes = 1024 * 1024;

function allowBody(route: RouteOptions): void {
  if (!('public' in route.config!.access!)) route.bodyLimit ??= maxBodyBytes;
}

/**
 * Returns who may call the route of a request. For an unknown path, returns that everybody may call it, so that the
 * response is 404 instead of 401.
 * @throws Error if the route does not declare `config.access`.
 */
function accessOf(request: FastifyRequest): Access {
  if (request.is404) return { public: true };
  const declared = request.routeOptions.config.access;
  if (!declared) throw new Error(`The route ${request.routeOptions.url} does not declare config.access`);
  return declared;
}

/** Returns true if a user without a session cookie opens a page. This does not count as a failed authentication. */
const isVisit = (wanted: Access, { reason }: Unauthorized): boolean => 'page' in wanted && reason === 'missing';

/**
 * Returns true if a caller has the permissions that a route requires: the role of a user, or the scopes of an API key.
 */
function mayPass(caller: Caller, wanted: Exclude<Access, { public: true }>): boolean {
  const role = roleFor(wanted);
  if (caller.kind === 'session') return role === 'member' || (role === 'admin' && caller.role === 'admin');
  const holds = (scope: Scope): boolean => caller.scopes.includes(scope);
  return 'allScopes' in wanted ? wanted.allScopes.every(holds) : scopesOf(wanted).some(holds);
}

/** Returns the scopes of which an API key lacks one that is enough for a route. Empty for a user. */
function lackingScopes(caller: Caller, wanted: Exclude<Access, { public: true }>): readonly Scope[] {
  if (caller.kind === 'session') return [];
  return 'allScopes' in wanted ? firstLacking(caller.scopes, wanted.allScopes) : scopesOf(wanted);
}

/** Returns the role that a logged-in user must have for a route, or undefined if the route requires an API key. */
function roleFor(wanted: Access): 'member' | 'admin' | undefined {
  if ('page' in wanted) return wanted.page;
  return 'session' in wanted ? wanted.session : undefined;
}

/**
 * Returns the logged-in user of a request. May be called only in routes that require a session.
 * @throws Error if the route does not require a session.
 */
export function sessionOf(request: FastifyRequest): SessionCaller {
  if (request.caller.kind !== 'session') throw new Error('This route does not declare session access in config.access');
  return request.caller;
}

/** Returns whom the audit log names for a request of a user or a key. */
export const actorOf = ({ caller, address }: FastifyRequest): Actor => ({
  actor: caller.kind === 'key' ? `key ${caller.keyId}` : caller.email,
  address,
});
