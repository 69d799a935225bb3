import fp from 'fastify-plugin';
import { unavailable } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Whether the app is about to close: `announceStop` was called, or the close has begun. The app still serves
     * requests, but load balancers should send it no more.
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
 * Lets running requests finish when the app closes. Once `announceStop` was called or the close has begun, every
 * response closes its connection, so that keep-alive connections do not delay the close. A request that arrives on an
 * open connection after the close has begun gets 503. Connections that are still open `SHUTDOWN_MS` after the close
 * began are closed by force.
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
