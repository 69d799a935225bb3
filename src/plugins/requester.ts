import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { CatalogReads } from '../catalog/catalog.ts';
import type { Database } from '../database/db.ts';
import { unavailable } from '../errors.ts';
import { FairSlots } from '../limits/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../requester.ts';
import { exemptFromTimeout } from './client-error.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Whether requests of this route upload or download files. They may last for an hour instead of
     * `REQUEST_TIMEOUT_MS`, and each of their database calls may wait for a connection that long.
     */
    isLong?: true;
  }
  interface FastifyInstance {
    /** Counts the requests that are being handled now, by customer. */
    inFlight: FairSlots;
  }
  interface FastifyRequest {
    /**
     * For whom this request is handled (a customer, or the service itself), with abort signals and the time that
     * database calls may wait.
     */
    requester: Requester;
    /**
     * The database for this request. Its calls use the customer's share of the capacity, and end when the request times
     * out.
     */
    readonly db: Database;
    /**
     * The catalog of prospects for this request. Its calls use the customer's share of the capacity, and end when the
     * request times out.
     */
    readonly catalog: CatalogReads;
    /** Assigns this request to a customer. Before this call, the request counts as work of the service itself. */
    belongsTo(customerId: string): void;
  }
}

/**
 * Limits the duration of each request to `REQUEST_TIMEOUT_MS`, or to one hour if it uploads or downloads a file. The
 * time starts when the request's headers arrive. When it is over, the request's database statement is cancelled and the
 * response is 503.
 */
export default fp(
  async (app) => {
    const { REQUEST_TIMEOUT_MS, DATABASE_QUEUE_MS } = app.config;
    const inFlight = new FairSlots(Infinity);
    app.decorate('inFlight', inFlight);
    app.decorateRequest('requester');
    app.decorateRequest('belongsTo', function belongsTo(this: FastifyRequest, customerId) {
      if (this.requester.signal!.aborted) return; // no longer in flight
      inFlight.release(this.requester.customerId);
      this.requester.customerId = customerId;
      inFlight.take(customerId);
    });
    app.decorateRequest('db', { getter: dbOf });
    app.decorateRequest('catalog', { getter: catalogOf });
    app.addHook('onRequest', (request, reply, done) => {
      const { isLong } = request.routeOptions.config;
      if (isLong) exemptFromTimeout(reply.raw);
      const controller = new AbortController();
      const time = new AbortController();
      const requester = {
        customerId: serviceItself,
        signal: controller.signal,
        timeUp: time.signal,
        ...(isLong ? { waitMs: REQUEST_TIMEOUT_MS } : { patienceMs: DATABASE_QUEUE_MS }),
      };
      request.requester = requester;
      inFlight.take(requester.customerId);
      const end = (reason?: Error) => {
        reply.raw.removeListener('close', closed);
        inFlight.release(requester.customerId);
        if (reason) controller.abort(reason);
      };
      const timer = setTimeout(
        () => {
          const reason = unavailable('The request took too long');
          time.abort(reason);
          if (controller.signal.aborted) return; // the caller hung up: nobody reads a response
          end(reason);
          // Most requests are answered by now: the operation they waited for failed with this error.
          setImmediate(answerLate, request, reply);
        },
        isLong ? longestMs : REQUEST_TIMEOUT_MS,
      );
      // Listens to the response: once its body is read, the request closes whether or not the caller hung up.
      // If the caller hangs up, the work is cancelled, but a running transaction may continue until the time is up.
      const closed = () => {
        const hungUp = reply.raw.writableFinished ? undefined : new CallerHungUp();
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

/** Maximum duration of a request that uploads or downloads a file (ms). */
const longestMs = 3_600_000;

function dbOf(this: FastifyRequest): Database {
  return this.server.db.for(this.requester);
}

function catalogOf(this: FastifyRequest): CatalogReads {
  return this.server.catalog.for(this.requester);
}

/** Answers a timed-out request that has no response yet, for example because the rest of its body is missing. */
function answerLate(request: FastifyRequest, reply: FastifyReply): void {
  if (reply.sent || reply.raw.headersSent) return;
  if (!request.raw.complete) void reply.header('connection', 'close');
  void reply.send(request.requester.signal!.reason);
}
