import fp from 'fastify-plugin';

/**
 * Closing finishes what is in hand: every answer from then on ends its connection, so that no keep-alive connection holds
 * the close up, and what still stands after `SHUTDOWN_MS` (a body half sent, say) is cut off.
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
