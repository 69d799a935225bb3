import { METHODS } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { RequestSpan } from '../tracing/spans.ts';
import { isTracing, startRequestSpan } from '../tracing/tracing.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The span of this request. Undefined for requests that are not traced. */
    span: RequestSpan | undefined;
  }
}

/**
 * Records a span for each request, from the arrival of its headers to the end of the response. Continues the trace of
 * the caller's header `traceparent`, but ignores `tracestate`. The span names the route, never the path: a path can
 * contain any text of the caller. Adds `trace_id` to the log lines of the request. Probes are not traced. Does nothing
 * while tracing is off.
 */
export default fp(
  async (app) => {
    if (!isTracing()) return;
    app.decorateRequest('span', undefined);
    app.addHook('onRequest', (request, reply, done) => {
      const { url: route, config } = request.routeOptions;
      if (config.isProbe) return done();
      const method = METHODS.includes(request.method) ? request.method : '_OTHER';
      const span = startRequestSpan(route === undefined ? method : `${method} ${route}`, request.raw.headers);
      if (!span) return done();
      request.span = span;
      request.log = reply.log = request.log.child({ trace_id: span.traceId });
      reply.raw.once('close', () => end(span, method, request, reply));
      return span.run(done);
    });
  },
  { name: 'traces' },
);

/**
 * Ends a request's span with the attributes of OpenTelemetry's convention for HTTP servers.
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
