import { plugin } from './plugin.ts';
import { AsyncLocalStorage } from 'node:async_hooks';
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyRequest, InjectOptions, FastifyReply } from 'fastify';
import { randomUUID } from 'node:crypto';
import type { Catalog, CatalogReads } from '../catalog/catalog.ts';
import type { Config } from '../process/config.ts';
import type { Database, SharedDatabase } from '../database/db.ts';
import type { ApprovedCall } from '../schemas/accounts.ts';
import { DomainError, unavailable } from '../errors.ts';
import { FairSemaphore } from '../access/concurrency-limiter.ts';
import { CallerHungUp, serviceItself, type Requester } from '../access/credentials.ts';
import { exemptFromTimeout } from './error-handler.ts';
import type { Sender } from '../accounts/webhook-sender.ts';

/** The configuration, the database and the prospect catalog. The command that starts the app opens and closes them. */
export interface Services {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Config;
    /**
     * The database without its query methods. Routes must use `request.db`, which applies the limits of the customer
     * and the timeout of the request.
     */
    db: Omit<SharedDatabase, keyof Database>;
    /**
     * The prospect catalog without its read methods. Routes must use `request.catalog`, which applies the limits of the
     * customer and the timeout of the request.
     */
    catalog: Omit<Catalog, keyof CatalogReads>;
  }
}

export const services = plugin({ name: 'services' }, async (app, services: Services) => {
  app.decorate('config', services.config);
  app.decorate('db', services.db);
  app.decorate('catalog', services.catalog);
});

const inside = new AsyncLocalStorage<{ approved?: ApprovedCall }>();

export interface InsideAnswer {
  status: number;
  headers: OutgoingHttpHeaders;
  body: unknown;
}

/**
 * Sends a request to a route of this service, inside the process, on behalf of `request` and with its API key. It is
 * treated like a request from outside, but does not count toward the rate limit `default`, because `request` does.
 */
export function callInside(request: FastifyRequest, { headers, ...options }: InjectOptions): Promise<InsideAnswer> {
  const [, key = ''] = /^\S+ +(\S+)$/.exec(request.headers.authorization ?? '') ?? [];
  return send(request, { ...options, headers: { ...headers, authorization: `X-API-Key ${key}` } }, {});
}

export const callApproved = (request: FastifyRequest, approved: ApprovedCall): Promise<InsideAnswer> =>
  send(
    request,
    { method: 'POST', url: approved.url, payload: approved.body, headers: { 'content-type': 'application/json' } },
    { approved },
  );

async function send(
  { server, headers, address, requester }: FastifyRequest,
  { headers: more, ...options }: InjectOptions,
  as: { approved?: ApprovedCall },
): Promise<InsideAnswer> {
  // `inject` sends the request when it is awaited, so it is awaited inside.
  const answer = await inside.run(as, async () => {
    const sent = await server.inject({
      ...options,
      remoteAddress: address,
      signal: requester.signal!,
      headers: { ...more, host: headers.host },
    });
    return sent;
  });
  return { status: answer.statusCode, headers: answer.headers, body: JSON.parse(answer.body || 'null') };
}

export const isInside = (): boolean => inside.getStore() !== undefined;

export const approvedCall = (): ApprovedCall | undefined => inside.getStore()?.approved;

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True if the requests of this route upload or download files. Such a request may run for one hour instead of
     * `REQUEST_TIMEOUT_MS`. Each of its database calls may wait up to `REQUEST_TIMEOUT_MS` for a connection.
     */
    isLong?: true;
  }
  interface FastifyInstance {
    inFlight: FairSemaphore;
  }
  interface FastifyRequest {
    requester: Requester;
    readonly db: Database;
    readonly catalog: CatalogReads;
    isAnswered: boolean;
    belongsTo(customerId: string): void;
  }
}

/**
 * Fastify plugin that limits the duration of each request to `REQUEST_TIMEOUT_MS`, or to one hour if the request
 * uploads or downloads a file. The time starts when the request headers arrive. On a timeout, the running SQL statement
 * is cancelled and the response is 503.
 */
export const requester = plugin({ name: 'requester', dependencies: ['services'] }, async (app) => {
  const { REQUEST_TIMEOUT_MS, DATABASE_QUEUE_MS } = app.config;
  const inFlight = new FairSemaphore(Infinity);
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
    const requester: Requester = {
      customerId: serviceItself,
      signal: controller.signal,
      timeUp: time.signal,
      changeId: randomUUID(),
      requestId: request.id,
      ...(isLong ? { waitMs: REQUEST_TIMEOUT_MS } : { retryTimeoutMs: DATABASE_QUEUE_MS }),
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
        setImmediate(answerTimedOut, request, reply);
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
  app.addHook('onSend', (request, reply, _payload, done) => {
    request.isAnswered = true;
    const { committedChange } = request.requester ?? {};
    if (committedChange !== undefined) void reply.header('x-change-id', committedChange);
    done();
  });
});

const longestMs = 3_600_000;

function dbOf(this: FastifyRequest): Database {
  const { access = {} } = this.routeOptions.config;
  return this.server.db.for(this.requester, 'page' in access ? 'page' : 'api');
}

function catalogOf(this: FastifyRequest): CatalogReads {
  return this.server.catalog.for(this.requester);
}

function answerTimedOut(request: FastifyRequest, reply: FastifyReply): void {
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

declare module 'fastify' {
  interface FastifyInstance {
    /** Sender of the test events that users request. Workers send all other events. */
    webhookSender: Sender;
  }
}

export const webhookSender = plugin({ name: 'webhook-sender', dependencies: ['services'] }, async (app) => {
  let opened: Promise<Sender> | undefined;
  // Loaded at the first test event, because its HTTP client needs much memory.
  const open = async () => (await import('../accounts/webhook-sender.ts')).openSender(app.config);
  const close = async () => (await opened)?.close();
  app.decorate('webhookSender', { send: async (...given) => (await (opened ??= open())).send(...given), close });
  app.addHook('onClose', close);
});
