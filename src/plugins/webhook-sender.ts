import fp from 'fastify-plugin';
import type { Sender } from '../webhooks/sender.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Sends the test events that users ask for. All other events are sent by workers, not by this process. */
    webhookSender: Sender;
  }
}

export default fp(
  async (app) => {
    let opened: Promise<Sender> | undefined;
    // Loaded at the first test event, because its HTTP client needs much memory.
    const open = async () => (await import('../webhooks/sender.ts')).openSender(app.config);
    const close = async () => (await opened)?.close();
    app.decorate('webhookSender', { send: async (...given) => (await (opened ??= open())).send(...given), close });
    app.addHook('onClose', close);
  },
  { name: 'webhook-sender', dependencies: ['services'] },
);
