import type { CookieSerializeOptions } from '@fastify/cookie';
import { parseCookie } from 'cookie';
import type { FastifyRequest, FastifyInstance, RouteOptions } from 'fastify';
import { plugin } from './plugin.ts';
import type { Config } from '../process/config.ts';
import { batchLookups } from '../database/db.ts';
import { serviceItself, recogniseToken, authorOf } from '../access/credentials.ts';
import type { KeyCaller, TokenHash, SessionCaller, Caller } from '../access/credentials.ts';
import { Unauthorized, forbidden } from '../errors.ts';
import { UnauthenticatedLimit } from '../access/rate-limits.ts';
import { findKeyStateById, findKeyStates, recordKeyUse } from '../queries/accounts/api-keys.ts';
import { approvedCall } from './requester.ts';
import { findSessions } from '../queries/accounts/users.ts';
import type { Actor } from '../schemas/accounts.ts';
import { firstLacking, mayCall, scopesOf, type Access, type Scope } from '../schemas/scopes.ts';
import { requestCounter } from './rate-limits.ts';
import { callerAddress, parseRanges } from '../process/ip-addresses.ts';

interface SessionCookies {
  session: string;
  login: string;
  attributes: CookieSerializeOptions;
  tokenOf: (request: FastifyRequest) => string | undefined;
}

/** Lifetime of the cookies in seconds, which is that of a session. */
const maxAge = 12 * 60 * 60;

/**
 * Returns the names and attributes of the cookies. With an https `PUBLIC_URL`, browsers send the cookies only over
 * https. Their names then have the prefix `__Host-`, so that other hosts, such as a subdomain, cannot set them.
 */
export function sessionCookies({ PUBLIC_URL }: Config): SessionCookies {
  const secure = isHttps(PUBLIC_URL);
  const prefix = secure ? '__Host-' : '';
  const session = `${prefix}session`;
  return {
    session,
    login: `${prefix}login`,
    attributes: { httpOnly: true, sameSite: 'lax', path: '/', secure, maxAge },
    tokenOf: ({ headers: { cookie } }) => (cookie === undefined ? undefined : parseCookie(cookie)[session]),
  };
}

export const isHttps = (publicUrl: string | undefined): boolean => publicUrl?.startsWith('https:') === true;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if the route also accepts an API key as `Authorization: Bearer <key>`. It then accepts no session token. */
    keyAsBearer?: true;
  }
}

type KeyAuthenticator = (request: FastifyRequest) => Promise<KeyCaller>;

/**
 * Creates the function that authenticates requests by API key. It reads the key from the database for each request, so
 * a revoked key is rejected at once.
 * @param unauthenticatedLimit limits the look-ups for an IP address that sends many invalid keys
 */
function keyAuthenticator(app: FastifyInstance, unauthenticatedLimit: UnauthenticatedLimit): KeyAuthenticator {
  const find = batchLookups(
    asText,
    (hashes: TokenHash[]) => app.db.credentials((sql) => findKeyStates(sql, hashes)),
    (key) => key.key_hash,
  );
  const noteUse = usageRecorder(app);
  const lookUp = (request: FastifyRequest) => {
    const hash = presentedHash(request);
    return unauthenticatedLimit.lookUp(request.address, () => find(hash));
  };
  return async (request) => {
    const approved = approvedCall();
    const key = approved
      ? await app.db.credentials((sql) => findKeyStateById(sql, approved.customerId, approved.apiKeyId))
      : await lookUp(request);
    if (!key) throw new Unauthorized('key', 'unknown');
    if (key.refusal) throw new Unauthorized('key', key.refusal);
    if (key.use_unrecorded) noteUse(key.id);
    return {
      kind: 'key',
      keyId: key.id,
      customerId: key.customer_id,
      userId: key.created_by,
      scopes: key.permissions,
      approveOver: key.approve_over,
      approved,
    };
  };
}

/**
 * Returns the hash of the API key in the request header `Authorization: X-API-Key <key>`. The word `X-API-Key` is
 * case-insensitive (RFC 9110, 11.1).
 * @throws Unauthorized if the header is missing or contains no well-formed key.
 */
function presentedHash({ headers: { authorization }, routeOptions }: FastifyRequest): TokenHash {
  const schemes = routeOptions.config.keyAsBearer ? ['x-api-key', 'bearer'] : ['x-api-key'];
  return hashOf('key', tokenIn('key', authorization, schemes));
}

/**
 * Returns the token in the request header `Authorization: <scheme> <token>`. Returns undefined if the header is missing,
 * and an empty string if it contains no single token.
 * @param schemes in lower case
 * @throws Unauthorized if the header has another scheme
 */
function tokenIn(credential: 'key' | 'session', authorization: string | undefined, schemes: readonly string[]) {
  if (authorization === undefined) return undefined;
  const [scheme = '', token = '', ...more] = authorization.split(/ +/);
  if (!schemes.includes(scheme.toLowerCase())) throw new Unauthorized(credential, 'wrong_scheme');
  return more.length === 0 ? token : '';
}

function hashOf(credential: 'key' | 'session', text: string | undefined): TokenHash {
  if (text === undefined) throw new Unauthorized(credential, 'missing');
  const token = recogniseToken(text);
  if (!token) throw new Unauthorized(credential, 'malformed');
  return token.hash();
}

const asText = (hash: TokenHash): string => hash.toString('latin1');

const recordingDelay = 1_000;

/**
 * Returns a function that records the use of an API key. A background task updates `last_used_at` of all used keys once
 * per second, with one statement.
 */
function usageRecorder(app: FastifyInstance): (keyId: string) => void {
  const pending = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    const keyIds = [...pending];
    pending.clear();
    if (keyIds.length === 0) return;
    // A failed write is only logged: the key's next use records it again.
    await app.db
      .for({ customerId: serviceItself }, null)
      .transaction((sql) => recordKeyUse(sql, keyIds))
      .catch((error: unknown) => app.log.warn({ err: error }, 'the last use of API keys was not recorded'));
  };

  app.addHook('onClose', flush);
  return (keyId) => {
    pending.add(keyId);
    timer ??= setTimeout(() => void flush(), recordingDelay);
  };
}

type SessionAuthenticator = (request: FastifyRequest) => Promise<SessionCaller>;

/**
 * Creates the function that authenticates requests by session token. It reads the session from the database for each
 * request.
 * @param tokenOf returns the session token of a request, not yet validated
 * @param unauthenticatedLimit limits the look-ups for an IP address that sends many invalid tokens
 */
function sessionAuthenticator(
  app: FastifyInstance,
  unauthenticatedLimit: UnauthenticatedLimit,
  tokenOf: (request: FastifyRequest) => string | undefined,
): SessionAuthenticator {
  const find = batchLookups(
    asText,
    (hashes: TokenHash[]) => app.db.credentials((sql) => findSessions(sql, hashes)),
    (session) => session.token_hash,
  );
  return async (request) => {
    const tokenHash = hashOf('session', tokenOf(request));
    const session = await unauthenticatedLimit.lookUp(request.address, () => find(tokenHash));
    if (!session) throw new Unauthorized('session', 'unknown');
    if (session.refusal) throw new Unauthorized('session', session.refusal);
    const { user_id: userId, customer_id: customerId, email, role } = session;
    return { kind: 'session', userId, customerId, email, role, tokenHash };
  };
}

const bearerToken = ({ headers: { authorization } }: FastifyRequest): string | undefined =>
  tokenIn('session', authorization, ['bearer']);

/**
 * Fastify plugin that authenticates and authorises every request before its body is read. Checks the credential first
 * (401), then the rate limits (429), then the permission (403). Each route must declare in `config.access` who may call
 * it.
 */
export const auth = plugin({ name: 'auth', dependencies: ['services', 'requester', 'rate-limits'] }, async (app) => {
  const unauthenticatedLimit = new UnauthenticatedLimit(app.rateLimits.unauthenticated);
  const authenticateKey = keyAuthenticator(app, unauthenticatedLimit);
  const authenticateSession = sessionAuthenticator(app, unauthenticatedLimit, bearerToken);
  const { tokenOf } = sessionCookies(app.config);
  const authenticatePage = sessionAuthenticator(app, unauthenticatedLimit, tokenOf);
  const authenticatorFor = (wanted: Access) =>
    'page' in wanted ? authenticatePage : 'session' in wanted ? authenticateSession : authenticateKey;
  const countRequest = requestCounter(app.rateLimits);
  app.decorateRequest('caller');
  app.addHook('onRoute', requireAccess);
  app.addHook('onRoute', allowBody);
  app.addHook('onRequest', async (request, reply) => {
    // The page about an unknown path below `/app` shows users their menu.
    const isLost = request.is404 && request.url.startsWith('/app/') && tokenOf(request) !== undefined;
    const wanted: Access = isLost ? { page: 'member' } : accessOf(request);
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
});

function requireAccess(route: RouteOptions): void {
  if (!route.config?.access) {
    throw new Error(
      `The route ${String(route.method)} ${route.url} does not declare config.access: add who may call it`,
    );
  }
}

const maxBodyBytes = 1024 * 1024;

function allowBody(route: RouteOptions): void {
  if (!('public' in route.config!.access!)) route.bodyLimit ??= maxBodyBytes;
}

/**
 * Returns who may call the route of a request. Everybody may call an unknown path, so that the response is 404 instead
 * of 401.
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

function mayPass(caller: Caller, wanted: Exclude<Access, { public: true }>): boolean {
  const role = roleFor(wanted);
  if (caller.kind === 'session') return role === 'member' || (role === 'admin' && caller.role === 'admin');
  return mayCall(caller.scopes, wanted);
}

function lackingScopes(caller: Caller, wanted: Exclude<Access, { public: true }>): readonly Scope[] {
  if (caller.kind === 'session') return [];
  return 'allScopes' in wanted ? firstLacking(caller.scopes, wanted.allScopes) : scopesOf(wanted);
}

function roleFor(wanted: Access): 'member' | 'admin' | undefined {
  if ('page' in wanted) return wanted.page;
  return 'session' in wanted ? wanted.session : undefined;
}

export function sessionOf(request: FastifyRequest): SessionCaller {
  if (request.caller.kind !== 'session') throw new Error('This route does not declare session access in config.access');
  return request.caller;
}

export const actorOf = ({ caller, address }: FastifyRequest): Actor => ({
  actor: caller.kind === 'key' ? `key ${caller.keyId}` : caller.email,
  address,
});

export const clientAddress = plugin({ name: 'caller-address', dependencies: ['services'] }, async (app) => {
  const { ranges } = parseRanges(app.config.TRUST_PROXY ?? '');
  app.decorateRequest('address', '');
  app.addHook('onRequest', (request, _reply, done) => {
    const forwarded = request.headers['x-forwarded-for'] as string | undefined; // Node joins repeated headers with commas
    request.address = callerAddress(request.socket.remoteAddress, forwarded, ranges);
    done();
  });
});
