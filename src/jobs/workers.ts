import type { FastifyBaseLogger } from 'fastify';
import { PgBoss, type WorkHandler } from 'pg-boss';
import { serviceRole } from '../database/connection.ts';
import type { SharedDatabase } from '../database/db.ts';
import { isConnectionLost } from '../database/lanes.ts';
import { queueSchema, type JobKind } from '../database/queues.ts';
import { withSessionSettings } from '../database/session-settings.ts';
import { isUnavailable } from '../errors.ts';
import { allCustomers } from '../credentials/requester.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { inSpan, traceFields } from '../tracing/tracing.ts';
import { openVerifier } from '../verification/verifier.ts';
import type { Turn } from '../queries/records/turns.ts';
import type { Handler, JobContext, Payload } from './handler.ts';
import { removeIdempotencyRecords } from './remove-idempotency-records.ts';
import { sweepJobs } from './sweep-jobs.ts';
import { turnQueues } from './turn-queues.ts';
import { sendWebhooks, type WebhookSending } from './webhooks/send-webhooks.ts';

/** How a message is handled, and how many at the same time in this process. */
type Handlers = { [K in JobKind]: { handle: Handler<K>; atOnce: number } };

const allHandlers: Handlers = {
  ...turnQueues,
  'sweep-jobs': { handle: sweepJobs, atOnce: 1 },
  'remove-idempotency-records': { handle: removeIdempotencyRecords, atOnce: 1 },
};

export interface Workers {
  /** Takes no more messages, waits for those in flight, and closes the queue's connections. */
  stop(): Promise<void>;
}

interface WorkerOptions extends Omit<JobContext, 'stopping' | 'verifier' | 'db' | 'allCustomersDb'> {
  db: SharedDatabase;
  /** Logs in to the database as the service. */
  url: string;
}

/**
 * @param handlers default: all kinds
 * @throws the error that prevented the start. Workers that had already started are stopped first
 */
export async function startWorkers(
  { url, ...services }: WorkerOptions,
  handlers: Partial<Handlers> = allHandlers,
): Promise<Workers> {
  const { log, config } = services;
  const boss = new PgBoss({
    // The service's role, whichever login the URL has, as on the other connections.
    connectionString: withSessionSettings(url, { role: serviceRole, statement_timeout: '30000' }),
    application_name: 'sales-data-api-jobs',
    max: 3,
    schema: queueSchema,
    migrate: false,
    reindex: false, // requires the owner's rights
    useListenNotify: true,
    superviseIntervalSeconds: 5,
    monitorIntervalSeconds: 5,
    maintenanceIntervalSeconds: 60, // how often finished messages are removed; by default once a day
  });
  const stopping = new AbortController();
  const verifier = openVerifier(config);
  const kinds = Object.keys(handlers) as JobKind[];
  boss.on('error', (err) => {
    // The queue reports an outage once per connection and queue. The database (`logOutages`) logs it once.
    if (isQueueConnectionLost(err)) log.debug({ reason: err.message }, 'the job queue lost a connection');
    else log.error({ err }, 'the job queue reported an error');
  });
  boss.on('warning', (warning) => log.warn({ warning: warning.message }, 'the job queue reported a warning'));
  let webhooks: WebhookSending | undefined;
  const workers: Workers = {
    stop: async () => {
      stopping.abort();
      const sent = webhooks?.stop();
      await boss.stop({ graceful: true, timeout: config.SHUTDOWN_MS });
      await sent;
      await verifier.close();
    },
  };
  try {
    await boss.start();
    const allCustomersDb = services.db.for({ customerId: allCustomers }, 'job');
    for (const kind of kinds)
      await startKind(boss, kind, handlers, {
        ...services,
        allCustomersDb,
        verifier,
        stopping: stopping.signal,
      });
    if (handlers === allHandlers) webhooks = sendWebhooks(services);
    return workers;
  } catch (error) {
    // Workers that have started would keep the process alive. It would then neither work nor exit and be restarted.
    await workers.stop();
    throw error;
  }
}

/** Messages of the driver and of pg-boss about a lost connection, which have no error code. */
const lostMessages =
  /^(Connection terminated|Client (has encountered|was closed)|timeout e|LISTEN\/NOTIFY (hear|conn))/;

const isQueueConnectionLost = (error: Error): boolean => isConnectionLost(error) || lostMessages.test(error.message);

interface SharedContext extends JobContext {
  db: SharedDatabase;
}

/**
 * Returns what handles a message. Database and catalog calls of a turn count against the customer's share; maintenance
 * (without customer) runs for all customers.
 */
function contextOf(context: SharedContext, kind: JobKind, data: object, log: FastifyBaseLogger): JobContext {
  if (!isTurn(data)) return { ...context, log, db: context.allCustomersDb };
  const requester = { customerId: data.customerId };
  return {
    ...context,
    log,
    db: context.db.for(requester, kind === 'import' ? 'import' : 'job'),
    catalog: { ...context.catalog, ...context.catalog.for(requester) },
  };
}

const isTurn = (data: object): data is Turn => 'customerId' in data;

/**
 * For polling the queue (seconds). The second is for workers that are also notified: a worker that is notified while the
 * customer has its share takes nothing, and is not notified again when a slot of the share is free.
 */
const polling = { pollingIntervalSeconds: 2, notifyPollingIntervalSeconds: 2 };

/** One customer's turns never take all slots of a process, unless it has only one. */
const shareOf = (atOnce: number): number => Math.max(1, Math.floor(atOnce / 2));

async function startKind(
  boss: PgBoss,
  kind: JobKind,
  handlers: Partial<Handlers>,
  context: SharedContext,
): Promise<void> {
  const { handle, atOnce } = handlers[kind] as { handle: Handler<JobKind>; atOnce: number };
  const work: WorkHandler<Payload<JobKind> | null> = async ([job]) => {
    const { id, retryCount, signal } = job!;
    const data = job!.data ?? {}; // a schedule enqueues jobs without data
    await inSpan(spanOf(kind, data), async () => {
      const customer = isTurn(data) ? { customer: data.customerId } : {};
      const log = context.log.child({ message_id: id, kind, ...customer, ...traceFields() });
      log.info('job started');
      const message = { id, retryCount, signal };
      await logFailure(log, async () => handle({ ...contextOf(context, kind, data, log), message }, data));
      log.info('job done');
    });
    // Polls for the next job at once. The queue notifies workers only of jobs that arrive while they are idle.
    for (const worker of boss.getWipData()) if (worker.name === kind && worker.count > 0) boss.notifyWorker(worker.id);
  };
  // The first turns of new work come before the others. One slot is left to those others, so that they are never starved,
  // and one more to first turns.
  if (atOnce > 1)
    for (const only of [{ maxPriority: 0 }, { minPriority: 1 }])
      await boss.work(kind, { ...polling, ...only, localGroupConcurrency: 1 }, work);
  // All workers of a queue have the share that is given last.
  const localConcurrency = Math.max(1, atOnce - 1);
  await boss.work(kind, { ...polling, localConcurrency, localGroupConcurrency: shareOf(atOnce) }, work);
}

/** The span starts a new trace, and links to the request or job that enqueued the message. */
const spanOf = (kind: JobKind, data: object) => ({
  name: `work ${kind}`,
  attributes: isTurn(data) ? { 'sales_data.customer': data.customerId } : {},
  isRoot: true,
  cause: data as TraceContext,
});

async function logFailure(log: FastifyBaseLogger, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (err) {
    log[isUnavailable(err) ? 'warn' : 'error']({ err }, 'job failed');
    throw err;
  }
}
