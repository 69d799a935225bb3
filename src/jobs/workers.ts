import { PgBoss } from 'pg-boss';
import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../db.ts';
import { fillList } from './fill-list.ts';
import type { Handler, JobContext } from './handler.ts';
import { queueSchema, type JobKind } from '../queues.ts';
import type { Jobs } from './queue.ts';
import { removeIdempotencyRecords } from './remove-idempotency-records.ts';

/** Who does which jobs, and how many of a kind at once in this process. */
const handlers: { [K in JobKind]: { handle: Handler<K>; atOnce: number } } = {
  'fill-list': { handle: fillList, atOnce: 2 },
  'remove-idempotency-records': { handle: removeIdempotencyRecords, atOnce: 1 },
};

/** Workers of every kind, at work. */
export interface Workers {
  /** Takes no further jobs, finishes those in hand, closes the queue's connections. */
  stop(): Promise<void>;
}

export interface WorkerOptions {
  db: Database;
  log: FastifyBaseLogger;
  /** The database, as the service logs in. */
  url: string;
  /** Longest wait for jobs in hand when stopped (ms). */
  shutdownMs: number;
}

/** Starts the workers of this process. */
export async function startWorkers({ db, log, url, shutdownMs }: WorkerOptions): Promise<Workers> {
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
  boss.on('error', (err) => log.error({ err }, 'the job queue has trouble'));
  boss.on('warning', (warning) => log.warn({ warning: warning.message }, 'the job queue warns'));
  await boss.start();
  for (const kind of Object.keys(handlers) as JobKind[])
    await startKind(boss, kind, { db, log, stopping: stopping.signal });
  return {
    stop: async () => {
      stopping.abort();
      await boss.stop({ graceful: true, timeout: shutdownMs });
    },
  };
}

/** Seconds between looks for a job. Nobody is woken for one that is tried again, so also those that are woken look often. */
const polling = { pollingIntervalSeconds: 2, notifyPollingIntervalSeconds: 5 };

async function startKind(boss: PgBoss, kind: JobKind, context: JobContext): Promise<void> {
  const { handle, atOnce } = handlers[kind] as { handle: Handler<JobKind>; atOnce: number };
  for (let i = 0; i < atOnce; i += 1) {
    const worker: string = await boss.work<Jobs[JobKind]>(kind, polling, async ([job]) => {
      context.log.info({ job: job!.id, kind }, 'job started');
      await handle(context, job!.data);
      context.log.info({ job: job!.id, kind }, 'job done');
      // Look for the next job at once: the queue's own wake-up is for one that arrives while the worker rests.
      boss.notifyWorker(worker);
    });
  }
}
