import fp from 'fastify-plugin';
import { openSender, type Sender } from '../webhooks/sender.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Sends the test events that users ask for. All other events are sent by workers, not by this process. */
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
