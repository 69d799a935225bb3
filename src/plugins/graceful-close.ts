import fp from 'fastify-plugin';
import { unavailable } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * True if the app is closing, or if `announceStop` was called. The app still serves requests, but `/readyz` tells
     * load balancers to send no more requests.
     */
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
export default fp(
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
  { name: 'graceful-close', dependencies: ['services', 'error-handler', 'request-log'] },
);
