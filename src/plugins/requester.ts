import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { CatalogReads } from '../catalog/catalog.ts';
import type { Database } from '../db.ts';
import { unavailable } from '../errors.ts';
import { Places } from '../gate.ts';
import { HungUp, serviceItself, type Requester } from '../requester.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Requests that are not answered yet, by customer. */
    inHand: Places;
  }
  interface FastifyRequest {
    /** Whom this request is answered for, and until when. */
    requester: Requester;
    /** The database, in the share of the request's customer and within the request's time. */
    readonly db: Database;
    /** The catalog, likewise. */
    readonly catalog: CatalogReads;
    /** Says which customer the request belongs to. Until then it counts as the service's own. */
    belongsTo(customerId: string): void;
  }
}

/**
 * Gives each request its time: `REQUEST_TIMEOUT_MS`, from when its headers are there. Then its waits end, its statement is
 * cancelled, and the answer is 503. Likewise when the caller hangs up, except that nobody is answered, and that a transaction
 * goes on for the rest of the time.
 */
export default fp(
  async (app) => {
    const { REQUEST_TIMEOUT_MS, DATABASE_QUEUE_MS } = app.config;
    const inHand = new Places(Infinity);
    app.decorate('inHand', inHand);
    app.decorateRequest('requester');
    app.decorateRequest('belongsTo', function belongsTo(this: FastifyRequest, customerId) {
      if (this.requester.signal!.aborted) return; // not in hand any more
      inHand.give(this.requester.customerId);
      this.requester.customerId = customerId;
      inHand.take(customerId);
    });
    app.decorateRequest('db', { getter: dbOf });
    app.decorateRequest('catalog', { getter: catalogOf });
    app.addHook('onRequest', (request, reply, done) => {
      const controller = new AbortController();
      const time = new AbortController();
      const requester = {
        customerId: serviceItself,
        signal: controller.signal,
        timeUp: time.signal,
        patienceMs: DATABASE_QUEUE_MS,
      };
      request.requester = requester;
      inHand.take(requester.customerId);
      const end = (reason?: Error) => {
        reply.raw.removeListener('close', closed);
        inHand.give(requester.customerId);
        if (reason) controller.abort(reason);
      };
      const timer = setTimeout(() => {
        const reason = unavailable('The request took too long');
        time.abort(reason);
        if (controller.signal.aborted) return; // hung up: there is nobody to answer
        end(reason);
        // Most requests are answered by now: what they waited for has failed with this error.
        setImmediate(answerLate, request, reply);
      }, REQUEST_TIMEOUT_MS);
      // The request itself closes without a word of a hang-up once its body was read.
      const closed = () => {
        const hungUp = reply.raw.writableFinished ? undefined : new HungUp();
        if (hungUp) timer.unref();
        else clearTimeout(timer);
        end(hungUp);
      };
      reply.raw.once('close', closed);
      done();
    });
  },
  { name: 'requester', dependencies: ['services'] },
);

function dbOf(this: FastifyRequest): Database {
  return this.server.db.for(this.requester);
}

function catalogOf(this: FastifyRequest): CatalogReads {
  return this.server.catalog.for(this.requester);
}

/** Answers a request that waited for something else, such as the rest of its body, which is not read any more then. */
function answerLate(request: FastifyRequest, reply: FastifyReply): void {
  if (reply.sent || reply.raw.headersSent) return;
  if (!request.raw.complete) void reply.header('connection', 'close');
  void reply.send(request.requester.signal!.reason);
}
