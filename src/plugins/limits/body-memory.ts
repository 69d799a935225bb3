import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { unavailable } from '../../errors.ts';
import { FairSlots } from '../../limits/gate.ts';

/** Bodies of at most this size are always read. */
const smallBytes = 64 * 1024;

/**
 * Fastify plugin that limits the memory for request bodies to `MAX_BUFFERED_MB`. One customer can use at most half of it.
 * A body without room is rejected with 503 before it is read. Files are streamed, so they do not count.
 */
export default fp(
  async (app) => {
    const memory = new FairSlots(app.config.MAX_BUFFERED_MB * 2 ** 20);
    app.addHook('preParsing', (request, reply, payload, done) => {
      const bytes = bodyBytes(request);
      const { customerId } = request.requester;
      if (bytes <= smallBytes || reply.raw.destroyed) return done(null, payload);
      if (!memory.tryTake(customerId, bytes)) return done(unavailable('The service is at its limit'));
      reply.raw.once('close', () => memory.release(customerId, bytes));
      return done(null, payload);
    });
  },
  // After `auth`, which sets the request's customer.
  { name: 'body-memory', dependencies: ['auth', 'requester'] },
);

/** Returns the announced size of a body, or the limit of its route if no size is announced. */
function bodyBytes({ headers, routeOptions }: FastifyRequest): number {
  if (routeOptions.config.takesFile) return 0;
  const limit = routeOptions.bodyLimit;
  if (headers['transfer-encoding'] !== undefined) return limit;
  const length = Number(headers['content-length'] ?? 0);
  return length > limit ? 0 : length; // a body above the limit is rejected with 413 and not read
}
