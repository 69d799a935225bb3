import { PgBoss } from 'pg-boss';
import type { SharedDatabase } from '../db.ts';
import { fillLists } from './fill-list.ts';
import type { Handler, JobContext } from './handler.ts';
import { queueSchema, type JobKind } from '../queues.ts';
import type { Jobs } from './queue.ts';
import { removeIdempotencyRecords } from './remove-idempotency-records.ts';
import { settleCompanies } from './settle-companies.ts';
import { slices } from './slices.ts';
import { openVerifier } from '../verification/verifier.ts';
import { sweepJobs } from './sweep-jobs.ts';
import { takeTurn } from './turns.ts';

/** Who does which jobs, and how many of a kind at once in this process. */
export type Handlers = { [K in JobKind]: { handle: Handler<K>; atOnce: number } };

const allHandlers: Handlers = {
  unlock: { handle: takeTurn('unlock', slices), atOnce: 2 },
  verify: { handle: takeTurn('verify', slices), atOnce: 2 },
  'settle-companies': { handle: settleCompanies(), atOnce: 2 },
  'fill-lists': { handle: fillLists(), atOnce: 2 },
  'sweep-jobs': { handle: sweepJobs, atOnce: 1 },
  'remove-idempotency-records': { handle: removeIdempotencyRecords, atOnce: 1 },
};

/** Workers of every kind, at work. */
export interface Workers {
  /** Takes no further jobs, finishes those in hand, closes the queue's connections. */
  stop(): Promise<void>;
}

export interface WorkerOptions extends Omit<JobContext, 'stopping' | 'background' | 'verifier' | 'db'> {
  db: SharedDatabase;
  /** The database, as the service logs in. */
  url: string;
}

/**
 * Starts the workers of this process, for jobs of all kinds unless some are chosen.
 * @throws what kept one from starting; none is left at work then
 */
export async function startWorkers(
  { url, ...services }: WorkerOptions,
  handlers: Partial<Handlers> = allHandlers,
): Promise<Workers> {
  const { log, config } = services;
  const boss = new PgBoss({
    connectionString: url,
    // The role of the service, whoever logs in, as on its other connections.
    options: '-c role=sales_data_api -c statement_timeout=30000',
    application_name: 'sales-data-api-jobs',
    max: 3,
    schema: queueSchema,
    migrate: false,
    reindex: false, // needs the owner's rights
    useListenNotify: true,
    superviseIntervalSeconds: 5,
    monitorIntervalSeconds: 5,
  });
  const stopping = new AbortController();
  const background: JobContext['background'] = new Set();
  const verifier = openVerifier(config);
  boss.on('error', (err) => log.error({ err }, 'the job queue has trouble'));
  boss.on('warning', (warning) => log.warn({ warning: warning.message }, 'the job queue warns'));
  const workers: Workers = {
    stop: async () => {
      stopping.abort();
      await boss.stop({ graceful: true, timeout: config.SHUTDOWN_MS });
      await Promise.all(background);
      await verifier.close();
    },
  };
  try {
    await boss.start();
    for (const kind of Object.keys(handlers) as JobKind[])
      await startKind(boss, kind, handlers, { ...services, verifier, stopping: stopping.signal, background });
    return workers;
  } catch (error) {
    // What has started would keep the process alive, doing nothing, where whoever runs it would start it again.
    await workers.stop();
    throw error;
  }
}

/** What all jobs of a process share. */
interface SharedContext extends JobContext {
  db: SharedDatabase;
}

/** What a job works with: the work for a customer counts in that customer's share. */
function contextOf(context: SharedContext, data: object): JobContext {
  if (!('customerId' in data)) return context;
  const requester = { customerId: data.customerId as string };
  return {
    ...context,
    db: context.db.for(requester),
    catalog: { ...context.catalog, ...context.catalog.for(requester) },
  };
}

/** Seconds between looks for a job. Nobody is woken for one that is tried again, so also those that are woken look often. */
const polling = { pollingIntervalSeconds: 2, notifyPollingIntervalSeconds: 5 };

async function startKind(
  boss: PgBoss,
  kind: JobKind,
  handlers: Partial<Handlers>,
  context: SharedContext,
): Promise<void> {
  const { handle, atOnce } = handlers[kind] as { handle: Handler<JobKind>; atOnce: number };
  for (let i = 0; i < atOnce; i += 1) {
    const worker: string = await boss.work<Jobs[JobKind]>(kind, polling, async ([job]) => {
      context.log.info({ job: job!.id, kind }, 'job started');
      await handle(contextOf(context, job!.data), job!.data);
      context.log.info({ job: job!.id, kind }, 'job done');
      // Look for the next job at once: the queue's own wake-up is for one that arrives while the worker rests.
      boss.notifyWorker(worker);
    });
  }
}
