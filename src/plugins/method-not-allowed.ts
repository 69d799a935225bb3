import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply } from 'fastify';
import fp from 'fastify-plugin';
import { DomainError } from '../errors.ts';

/** Collects the paths of all routes added after this call. Returns a set that grows with each route. */
export function watchPaths(app: FastifyInstance): Set<string> {
  const paths = new Set<string>();
  app.addHook('onRoute', ({ url }) => void paths.add(url));
  return paths;
}

/**
 * Answers a known path with an unsupported method with 405 and `Allow`. Registered last, it adds a rejecting route for
 * every missing method. A fixed path therefore wins over a path with an id: `GET /contacts/list` is not read as the
 * contact with the id "list".
 */
export const refuseOtherMethods = fp(
  async (app, { paths }: { paths: Set<string> }) => {
    const methods = METHODS.filter((method) => method !== 'CONNECT'); // Node does not pass CONNECT to the router
    for (const method of methods) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
    // In `onRequest`, so that the path is checked before the body is read.
    app.addHook('onRequest', ({ is404 }, _reply, done) => {
      done(is404 ? new DomainError('not_found', 'No such route') : undefined);
    });
    for (const url of paths) if (!url.includes('*')) refuse(app, url, methods);
  },
  { name: 'refuse-other-methods' },
);

/** Adds a route that answers 405 to the methods that a path does not support. */
function refuse(app: FastifyInstance, url: string, methods: string[]): void {
  const supported = methods.filter((method) => app.hasRoute({ url, method }));
  const allow = supported.toSorted().join(', ');
  app.route({
    method: methods.filter((method) => !supported.includes(method)),
    url,
    config: { access: { public: true } },
    schema: { hide: true },
    exposeHeadRoute: false,
    onRequest: async (_request, reply: FastifyReply) => {
      void reply.header('allow', allow);
      throw new DomainError('method_not_allowed', `This path supports only ${allow}`);
    },
    handler: async () => undefined,
  });
}
