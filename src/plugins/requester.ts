import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { CatalogReads } from '../catalog/catalog.ts';
import type { Database } from '../database/db.ts';
import { DomainError, unavailable } from '../errors.ts';
import { FairSlots } from '../limits/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../credentials/requester.ts';
import { exemptFromTimeout } from './answers/client-error.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True if the requests of this route upload or download files. Such a request may run for one hour instead of
     * `REQUEST_TIMEOUT_MS`. Each of its database calls may wait up to `REQUEST_TIMEOUT_MS` for a connection.
     */
    isLong?: true;
  }
  interface FastifyInstance {
    inFlight: FairSlots;
  }
  interface FastifyRequest {
    /**
     * The customer for whom this request runs (or the service itself), with abort signals and the maximum time to wait
     * for database connections.
     */
    requester: Requester;
    /**
     * The database for this request. Database calls count toward the customer's share of the connections, and are
     * cancelled when the request times out.
     */
    readonly db: Database;
    /**
     * The catalog of prospects (people whose contact data can be bought), for this request. Calls count toward the
     * customer's share of the capacity, and are cancelled when the request times out.
     */
    readonly catalog: CatalogReads;
    /** True once a response is being sent. */
    isAnswered: boolean;
    /** Sets the customer for whom this request runs. Before this call, the request belongs to the service itself. */
    belongsTo(customerId: string): void;
  }
}

/**
 * Fastify plugin that limits the duration of each request to `REQUEST_TIMEOUT_MS`, or to one hour if the request
 * uploads or downloads a file. The time starts when the request headers arrive. On a timeout, the running SQL statement
 * is cancelled and the response is 503.
 */
export default fp(
  async (app) => {
    const { REQUEST_TIMEOUT_MS, DATABASE_QUEUE_MS } = app.config;
    const inFlight = new FairSlots(Infinity);
    app.decorate('inFlight', inFlight);
    app.decorateRequest('requester');
    app.decorateRequest('isAnswered', false);
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
        changeId: randomUUID(),
        requestId: request.id,
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
    app.addHook('onSend', (request, _reply, _payload, done) => {
      request.isAnswered = true;
      done();
    });
  },
  { name: 'requester', dependencies: ['services'] },
);

/** Maximum duration of a request that uploads or downloads a file (ms). */
const longestMs = 3_600_000;

function dbOf(this: FastifyRequest): Database {
  const { access = {} } = this.routeOptions.config;
  return this.server.db.for(this.requester, 'page' in access ? 'page' : 'api');
}

function catalogOf(this: FastifyRequest): CatalogReads {
  return this.server.catalog.for(this.requester);
}

/**
 * Sends the error response of a timed-out request, if no response is being sent yet. For example, the handler may still
 * be waiting for the rest of the request body.
 */
function answerLate(request: FastifyRequest, reply: FastifyReply): void {
  // A second response would contradict the first one, and sending both would end the process.
  if (request.isAnswered || reply.sent) return;
  if (!request.raw.complete) void reply.header('connection', 'close');
  void reply.send(request.requester.signal!.reason);
  // The handler fails of the same reason later, which Fastify would log as an error.
  const { log } = reply;
  const error = (details: { err?: unknown }, message: string) => {
    if (!(details.err instanceof DomainError && details.err.code === 'unavailable')) log.error(details, message);
  };
  reply.log = Object.create(log, { error: { value: error } }) as typeof log;
}
