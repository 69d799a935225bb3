import fp from 'fastify-plugin';

/**
 * Lets running requests finish when the app closes. Connections that are still open after `SHUTDOWN_MS` are closed by
 * force.
 */
export default fp(
  async (app) => {
    let closing = false;
    app.addHook('preClose', async () => {
      closing = true;
      setTimeout(() => app.server.closeAllConnections(), app.config.SHUTDOWN_MS).unref();
    });
    app.addHook('onSend', (_request, reply, _payload, done) => {
      // So keep-alive connections do not delay the close.
      if (closing) void reply.header('connection', 'close');
      done();
    });
  },
  { name: 'graceful-close', dependencies: ['services'] },
);
