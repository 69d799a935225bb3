import type { FastifyInstance, FastifyReply } from 'fastify';
import fp from 'fastify-plugin';
import router from 'find-my-way';
import { DomainError, noRoute } from '../errors.ts';

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
    // Node knows 26 methods that no route supports. Routes for them would take a third of the time in which all are made.
    const known = router({ maxParamLength: app.initialConfig.routerOptions!.maxParamLength! });
    // In `onRequest`, so that the path is checked before the body is read.
    app.addHook('onRequest', ({ is404, method, url }, reply, done) => {
      if (!is404) return done();
      const found = app.supportedMethods.includes(method) ? null : known.find('GET', url);
      done(found ? refusal(reply, found.store as string) : noRoute());
    });
    // As a result, `GET /contacts/list` gets 405 and is not read as the contact with the id "list".
    for (const url of paths) if (!url.includes('*')) refuse(app, url, known);
  },
  { name: 'refuse-other-methods' },
);

/** Adds routes that respond with 405 to the methods that a path does not support, and adds the path to `known`. */
function refuse(app: FastifyInstance, url: string, known: ReturnType<typeof router>): void {
  const supported = app.supportedMethods.filter((method) => app.hasRoute({ url, method }));
  const others = app.supportedMethods.filter((method) => !supported.includes(method));
  if (others.length === 0) return; // a part of the app has refused them already, with error responses of its own
  const allow = supported.toSorted().join(', ');
  // Fastify serves the path of a prefix with a slash at its end, too.
  for (const path of url === app.prefix ? [url, `${url}/`] : [url]) known.on('GET', path, () => undefined, allow);
  app.route({
    method: others,
    url: url.slice(app.prefix.length) || '/', // Fastify puts the prefix before it
    config: { access: { public: true }, isRefusal: true },
    schema: { hide: true },
    exposeHeadRoute: false,
    onRequest: async (_request, reply: FastifyReply) => {
      throw refusal(reply, allow);
    },
    handler: async () => undefined,
  });
}

function refusal(reply: FastifyReply, allow: string): DomainError {
  void reply.header('allow', allow);
  return new DomainError('method_not_allowed', `This path supports only ${allow}`);
}
