import { METHODS } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { RequestSpan } from '../../tracing/spans.ts';
import { isTracing, startRequestSpan } from '../../tracing/tracing.ts';

declare module 'fastify' {
  interface FastifyRequest {
    span: RequestSpan | undefined;
  }
}

// The span contains the route, not the path, because the path can contain any text of the caller.
/**
 * Fastify plugin that records a trace span for each request and adds `trace_id` to the log lines of the request. If the
 * request has the header `traceparent`, the span continues the caller's trace. Requests of monitoring systems are not
 * traced. The plugin does nothing if tracing is off.
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
