import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply } from 'fastify';
import fp from 'fastify-plugin';
import { DomainError } from '../errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if the route exists only to respond with 405 to methods that its path does not support. */
    isRefusal?: true;
  }
}

export function watchPaths(app: FastifyInstance): Set<string> {
  const paths = new Set<string>();
  app.addHook('onRoute', ({ url }) => void paths.add(url));
  return paths;
}

/**
 * Fastify plugin that responds with 405 and an `Allow` header if the path of a request exists, but does not support the
 * method. Must be registered after all routes, because it adds a route for each unsupported method.
 */
export const refuseOtherMethods = fp(
  async (app, { paths }: { paths: Set<string> }) => {
    const methods = METHODS.filter((method) => method !== 'CONNECT'); // Node does not pass CONNECT to the router
    for (const method of methods) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
    // In `onRequest`, so that the path is checked before the body is read.
    app.addHook('onRequest', ({ is404 }, _reply, done) => {
      done(is404 ? new DomainError('not_found', 'No such route') : undefined);
    });
    // As a result, `GET /contacts/list` gets 405 and is not read as the contact with the id "list".
    for (const url of paths) if (!url.includes('*')) refuse(app, url, methods);
  },
  { name: 'refuse-other-methods' },
);

/** Adds routes that respond with 405 to all methods that a path does not support. */
function refuse(app: FastifyInstance, url: string, methods: string[]): void {
  const supported = methods.filter((method) => app.hasRoute({ url, method }));
  const others = methods.filter((method) => !supported.includes(method));
  if (others.length === 0) return; // a part of the app has refused them already, with error responses of its own
  const allow = supported.toSorted().join(', ');
  app.route({
    method: others,
    url: url.slice(app.prefix.length) || '/', // Fastify puts the prefix before it
    config: { access: { public: true }, isRefusal: true },
    schema: { hide: true },
    exposeHeadRoute: false,
    onRequest: async (_request, reply: FastifyReply) => {
      void reply.header('allow', allow);
      throw new DomainError('method_not_allowed', `This path supports only ${allow}`);
    },
    handler: async () => undefined,
  });
}
