import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import type { Access } from '../schemas/scopes.ts';
import { ErrorBody, Refusal } from '../schemas/wire.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether what is not there is answered 200 `null`, not 404. */
    nullForUnknown?: true;
  }
}

/**
 * Every status is declared. The errors that any route of a kind can answer are added here, once; what a route answers
 * itself it declares itself. A success status without a schema would leave unfiltered, so it is refused.
 */
export default fp(
  async (app) => {
    app.addHook('onRoute', (route) => {
      if (route.schema?.hide) return;
      if (!route.schema?.response)
        throw new Error(`${String(route.method)} ${route.url} does not declare what it answers`);
      route.schema.response = { ...commonErrors(route), ...route.schema.response };
    });
    // Not preSerialization: that one sees objects only.
    app.addHook('onSend', (request, reply, payload, done) => {
      const declared = request.routeOptions.schema?.response as Record<number, unknown> | undefined;
      const isSlip = reply.statusCode < 400 && declared && !(reply.statusCode in declared);
      if (isSlip) done(undeclared(request, reply));
      else done(null, payload);
    });
  },
  { name: 'declared-responses' },
);

const undeclared = ({ method, routeOptions }: FastifyRequest, { statusCode }: FastifyReply): Error =>
  new Error(`${method} ${routeOptions.url} answers the undeclared status ${statusCode}`);

function commonErrors(route: RouteOptions): Record<number, unknown> {
  const access: Access | undefined = route.config?.access;
  const guarded = access !== undefined && !('public' in access);
  const withBody = route.schema?.body !== undefined;
  return {
    ...(withBody || route.schema?.params ? { 400: ErrorBody } : {}),
    ...(guarded ? { 401: Refusal, 403: Refusal, 429: ErrorBody } : {}),
    ...(route.schema?.params && !route.config?.nullForUnknown ? { 404: ErrorBody } : {}),
    ...(route.config?.idempotent ? { 409: ErrorBody, 422: ErrorBody } : {}),
    ...(withBody ? { 413: ErrorBody, 415: ErrorBody } : {}),
    500: ErrorBody,
    503: ErrorBody,
  };
}
