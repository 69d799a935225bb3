import { randomUUID } from 'node:crypto';
import { type IncomingMessage, METHODS } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { plugin } from './plugin.ts';
import type { Fault } from '../errors.ts';
import { canonicalId } from '../text/ids.ts';
import type { RequestSpan } from '../process/spans.ts';
import { isTracing, startRequestSpan } from '../process/tracing.ts';

interface LoggedRefusal {
  code: string;
  at?: string[];
}

const maxLoggedFaults = 5;

export const loggedRefusal = (code: string, faults: readonly Fault[] = []): LoggedRefusal => ({
  code,
  ...(faults.length > 0 ? { at: faults.slice(0, maxLoggedFaults).map(({ path }) => path.slice(0, 100)) } : {}),
});

declare module 'fastify' {
  interface FastifyRequest {
    refusal: LoggedRefusal | undefined;
    /** Id of the record, job or import that a POST created. A worker logs the same id. */
    createdId: string | undefined;
  }
  interface FastifyContextConfig {
    /**
     * True for routes that monitoring systems call every few seconds. Their requests are not traced, and successful
     * requests are logged at level `debug`.
     */
    isProbe?: boolean;
  }
}

/**
 * Returns the id of a request: the value of the request header `x-request-id` if it is well-formed, otherwise a new
 * random id.
 */
export function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : randomUUID();
}

/**
 * Fastify plugin that sets the response header `x-request-id`, and writes one log line per request, without secrets and
 * bodies. `RefusalLog` summarises requests that get 503. Successful requests of monitoring systems are logged at level
 * `debug`.
 */
export const requestLog = plugin({ name: 'request-log' }, async (app) => {
  app.decorateRequest('refusal', undefined);
  app.decorateRequest('createdId', undefined);
  app.addHook<Created | null>('preSerialization', (request, _reply, payload, done) => {
    if (request.method === 'POST') request.createdId = payload?.data?.id ?? payload?.id;
    done(null, payload);
  });
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    if (request.isCounted) return done();
    const isQuiet = request.routeOptions.config.isProbe && reply.statusCode < 400;
    request.log[isQuiet ? 'debug' : 'info'](
      {
        method: request.method,
        route: request.routeOptions.url,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        address: request.address,
        ...senderOf(request),
        ...recordIn(request),
        ...(request.createdId === undefined ? {} : { created: request.createdId }),
        ...request.refusal,
      },
      'answered',
    );
    return done();
  });
});

interface Created {
  id?: string;
  data?: { id?: string };
}

export const setCommonHeaders = ({ id }: FastifyRequest, reply: FastifyReply): void =>
  void reply.header('x-request-id', id).header('x-content-type-options', 'nosniff');

function senderOf({ caller }: FastifyRequest): object {
  if (!caller) return {};
  return { customer: caller.customerId, ...(caller.kind === 'key' ? { key: caller.keyId } : { user: caller.userId }) };
}

/**
 * Returns the id in the path, for the log. Other parts of a path can be secret, such as the link for a new password.
 */
function recordIn({ params }: FastifyRequest): object {
  const { id } = (params ?? {}) as { id?: unknown };
  return typeof id === 'string' && canonicalId(id) !== undefined ? { id } : {};
}

// The span contains the route, not the path, because the path can contain any text of the caller.
/**
 * Fastify plugin that records a trace span for each request and adds `trace_id` to the log lines of the request. If the
 * request has the header `traceparent`, the span continues the caller's trace. Requests of monitoring systems are not
 * traced. The plugin does nothing if tracing is off.
 */
export const traces = plugin({ name: 'traces' }, async (app) => {
  if (!isTracing()) return;
  app.addHook('onRequest', (request, reply, done) => {
    const { url: route, config } = request.routeOptions;
    if (config.isProbe) return done();
    const method = METHODS.includes(request.method) ? request.method : '_OTHER';
    const span = startRequestSpan(route === undefined ? method : `${method} ${route}`, request.raw.headers);
    if (!span) return done();
    request.log = reply.log = request.log.child({ trace_id: span.traceId });
    reply.raw.once('close', () => end(span, method, request, reply));
    return span.run(done);
  });
});

/**
 * Ends the span of a request. Sets the attributes that OpenTelemetry defines for HTTP servers.
 * @see https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span
 */
function end(span: RequestSpan, method: string, request: FastifyRequest, reply: FastifyReply): void {
  const { url: route } = request.routeOptions;
  const { statusCode, raw } = reply;
  const isAnswered = raw.writableFinished;
  const hasFailed = isAnswered && statusCode >= 500;
  span.end(
    {
      'http.request.method': method,
      ...(route === undefined ? {} : { 'http.route': route }),
      ...(isAnswered ? { 'http.response.status_code': statusCode } : { 'error.type': 'hung_up' }),
      ...(hasFailed ? { 'error.type': String(statusCode) } : {}),
      'sales_data.request_id': request.id,
      ...(request.caller ? { 'sales_data.customer': request.caller.customerId } : {}),
    },
    hasFailed,
  );
}
