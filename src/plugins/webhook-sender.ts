import fp from 'fastify-plugin';
import { openSender, type Sender } from '../webhooks/sender.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Sends tests to the endpoints of webhooks. Workers send the events. */
    webhookSender: Sender;
  }
}

export default fp(
  async (app) => {
    app.decorate('webhookSender', openSender(app.config));
    app.addHook('onClose', () => app.webhookSender.close());
  },
  { name: 'webhook-sender', dependencies: ['services'] },
);
