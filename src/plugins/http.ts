import fastify, { LogController } from 'fastify';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { plugin } from './plugin.ts';
import router from 'find-my-way';
import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { Config } from '../process/config.ts';
import { logger } from '../process/logger.ts';
import { answerClientError, bodyOf, refuseOnSocket, watchRequests, type Refusal } from './error-handler.ts';
import { answerHeaders } from './openapi-operations.ts';
import { requestId } from './request-log.ts';
import { validationFailed, DomainError, unavailable, noRoute } from '../errors.ts';

type ErrorAnswer = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Creates the HTTP server without plugins.
 * @param frameworkErrors handles requests whose path Fastify cannot read, because Fastify runs no hook for them
 */
export function createServer(config: Config, frameworkErrors: ErrorAnswer) {
  const app = fastify(options(config, frameworkErrors));
  app.server.maxConnections = config.MAX_CONNECTIONS;
  // GET and HEAD accept the body `{}` and reject any other, like every call without a body.
  for (const method of ['GET', 'HEAD']) app.addHttpMethod(method, { hasBody: true, overrideExisting: true });
  return app;
}

function options(config: Config, frameworkErrors: ErrorAnswer) {
  return {
    loggerInstance: logger(config),
    logController: new LogController({ disableRequestLogging: true }), // plugins/request-log.ts logs requests
    genReqId: requestId,
    requestIdHeader: false as const,
    return503OnClosing: false, // http.ts answers such requests with an error body
    bodyLimit: 16 * 1024, // without a credential; plugins/auth.ts allows more with one
    // A slow sender cannot hold a connection: the whole request must arrive within these times. `requestTimeout` is set
    // here because Fastify overwrites the server's value with its own option.
    requestTimeout: 30_000,
    connectionTimeout: 30_000, // without a byte in either direction
    http: {
      headersTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      requireHostHeader: false, // http.ts requires the header and sends an error body
    },
    // Longer than any request line, so an overlong id is rejected like every other invalid id.
    routerOptions: { maxParamLength: 1_000_000 },
    clientErrorHandler: answerClientError,
    frameworkErrors,
  };
}

/**
 * Fastify plugin that rejects requests which violate rules of HTTP (RFC 9110 and 9112) that Node does not check. Also
 * replaces some of Node's error responses by responses in the format of this API.
 */
export const httpRules = plugin({ name: 'http-rules' }, async (app) => {
  app.addHook('onRequest', (request, reply, done) => {
    const fault = faultOf(request.raw);
    if (fault) void reply.header('connection', 'close'); // sender and proxy may disagree where the next request begins
    done(fault);
  });
  const unwatch = watchRequests();
  app.addHook('onClose', async () => unwatch());
  // Without these listeners Node destroys the socket of a CONNECT, and a socket error ends the process.
  app.server.on('connect', (request, socket) => {
    socket.on('error', () => socket.destroy());
    refuseOnSocket(socket as Socket, connectRefusal, requestId(request), ['allow: ']);
  });
  app.server.on('checkExpectation', refuseExpectation);
});

const connectRefusal: Refusal = [405, 'method_not_allowed', 'CONNECT is not supported: this service is not a proxy'];
const expectationRefusal: Refusal = [417, 'expectation_failed', 'The only supported expectation is 100-continue'];

function refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
  const [status] = expectationRefusal;
  const body = bodyOf(expectationRefusal);
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'x-request-id': requestId(request),
    connection: 'close',
  };
  response.writeHead(status, headers).end(body);
}

/**
 * Request headers that may occur only once. A proxy and this service could use different values of a repeated header.
 */
const single = new Set(['host', 'authorization', 'content-type', 'idempotency-key']);

function faultOf({ headers, rawHeaders, httpVersion }: IncomingMessage): DomainError | undefined {
  if (headers.host === undefined && httpVersion === '1.1') return refusal('the header Host is missing');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return refusal('the only supported Transfer-Encoding is chunked');
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (single.has(name) && seen.size === seen.add(name).size) return refusal(`the header ${name} is sent twice`);
  }
  return undefined;
}

const refusal = (message: string): DomainError => validationFailed([{ path: '', message }]);

declare module 'fastify' {
  interface FastifyInstance {
    readonly isStopping: boolean;
    /**
     * Announces that the app will close soon: `/readyz` returns 503, and every response closes its connection. Requests
     * are served as before.
     */
    announceStop(): void;
  }
}

/**
 * Fastify plugin for a graceful shutdown: running requests finish before the app closes. New requests on open
 * connections get 503. Every response closes its connection. Connections that are still open after `SHUTDOWN_MS` are
 * closed by force.
 */
export const gracefulClose = plugin(
  { name: 'graceful-close', dependencies: ['services', 'error-handler', 'request-log'] },
  async (app) => {
    let isStopping = false;
    let isClosing = false;
    app.decorate('isStopping', { getter: () => isStopping });
    app.decorate('announceStop', () => void (isStopping = true));
    app.addHook('preClose', async () => {
      isStopping = isClosing = true;
      setTimeout(() => app.server.closeAllConnections(), app.config.SHUTDOWN_MS).unref();
    });
    app.addHook('onRequest', (_request, _reply, done) =>
      done(isClosing ? unavailable('This instance of the service is stopping') : undefined),
    );
    app.addHook('onSend', (_request, reply, _payload, done) => {
      if (isStopping) void reply.header('connection', 'close');
      done();
    });
  },
);

/**
 * Fastify plugin that responds with 405 and an `Allow` header if the path of a request exists, but does not support the
 * method. Must be registered before the routes.
 */
export const refuseOtherMethods = plugin({ name: 'refuse-other-methods' }, async (app) => {
  const paths = new Set<string>();
  app.addHook('onRoute', ({ url }) => void paths.add(url));
  const known = router({ maxParamLength: app.initialConfig.routerOptions!.maxParamLength! });
  app.addHook('onReady', async () => {
    for (const url of paths) {
      const allowed = app.supportedMethods.filter((method) => app.hasRoute({ url, method })).toSorted();
      if (!url.includes('*')) known.on('GET', url, () => undefined, allowed);
    }
  });
  // Before the credential is checked and the body is read. `GET /contacts/list` is not read as the contact with the id
  // "list".
  app.addHook('onRequest', ({ method, url }, reply, done) => {
    const allowed = known.find('GET', url)?.store as string[] | undefined;
    done(allowed && !allowed.includes(method) ? wrongMethod(reply, allowed.join(', ')) : undefined);
  });
});

/**
 * Fastify plugin that responds with 404 to unknown paths, before the body is read. Must be registered after all others.
 */
export const refuseUnknownPaths = plugin({ name: 'refuse-unknown-paths' }, async (app) => {
  app.addHook('onRequest', ({ is404 }, _reply, done) => done(is404 ? noRoute() : undefined));
});

function wrongMethod(reply: FastifyReply, allow: string): DomainError {
  void reply.header('allow', allow);
  return new DomainError('method_not_allowed', `This path supports only ${allow}`);
}

/**
 * Fastify plugin for CORS: allows web pages from the origins in the environment variable `CORS_ORIGINS` to call the
 * API. If the variable is not set, browsers block such calls.
 */
export const crossOrigin = plugin({ name: 'cors', dependencies: ['services'] }, async (app) => {
  const origins = app.config.CORS_ORIGINS?.split(',').map((origin) => origin.trim());
  if (!origins) return;
  // `*` is the package's route for preflight requests to paths without a route of their own.
  app.addHook('onRoute', (route) => {
    if (route.url === '*') route.config = { ...route.config, access: { public: true } };
  });
  const options = {
    origin: origins,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    exposedHeaders: Object.keys(answerHeaders),
  };
  await app.register(cors, {
    delegator: (request: FastifyRequest, done: (error: null, options: FastifyCorsOptions) => void) =>
      done(null, { ...options, preflight: isPreflight(request) }),
  });
});

const isPreflight = ({ headers }: FastifyRequest): boolean =>
  // Other OPTIONS requests get 405.
  headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
