import fp from 'fastify-plugin';

/**
 * Finishes the requests in flight when the app closes. Every response then closes its connection, so keep-alive
 * connections do not delay the close. Connections still open after `SHUTDOWN_MS` (e.g. with a half-sent body) are cut
 * off.
 */
export default fp(
  async (app) => {
    let closing = false;
    app.addHook('preClose', async () => {
      closing = true;
      setTimeout(() => app.server.closeAllConnections(), app.config.SHUTDOWN_MS).unref();
    });
    app.addHook('onSend', (_request, reply, _payload, done) => {
      if (closing) void reply.header('connection', 'close');
      done();
    });
  },
  { name: 'graceful-close', dependencies: ['services'] },
);
