import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply } from 'fastify';
import fp from 'fastify-plugin';
import { DomainError } from '../errors.ts';

/** Collects the path of every route that is added from here on. */
export function watchPaths(app: FastifyInstance): Set<string> {
  const paths = new Set<string>();
  app.addHook('onRoute', ({ url }) => void paths.add(url));
  return paths;
}

/**
 * A known path with another method is 405 with `Allow`. Registered last, it fills every gap with a route that refuses, so
 * that a fixed path also wins over one with an id (`GET /contacts/list` is not a contact of the id "list").
 */
export const refuseOtherMethods = fp(
  async (app, { paths }: { paths: Set<string> }) => {
    const methods = METHODS.filter((method) => method !== 'CONNECT'); // never reaches a router
    for (const method of methods) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
    // Before a byte of the body is read, as everything that a path decides.
    app.addHook('onRequest', ({ is404 }, _reply, done) => {
      done(is404 ? new DomainError('not_found', 'No such route') : undefined);
    });
    for (const url of paths) if (!url.includes('*')) refuse(app, url, methods);
  },
  { name: 'refuse-other-methods' },
);

function refuse(app: FastifyInstance, url: string, methods: string[]): void {
  const taken = methods.filter((method) => app.hasRoute({ url, method }));
  const allow = taken.toSorted().join(', ');
  app.route({
    method: methods.filter((method) => !taken.includes(method)),
    url,
    config: { access: { public: true } },
    schema: { hide: true },
    exposeHeadRoute: false,
    onRequest: async (_request, reply: FastifyReply) => {
      void reply.header('allow', allow);
      throw new DomainError('method_not_allowed', `This path takes ${allow}`);
    },
    handler: async () => undefined,
  });
}
