import type { FastifyBaseLogger } from 'fastify';
import { PgBoss } from 'pg-boss';
import type { SharedDatabase } from '../db.ts';
import { isUnavailable } from '../errors.ts';
import { fillLists } from './fill-list.ts';
import type { Handler, JobContext } from './handler.ts';
import { queueSchema, type JobKind } from '../queues.ts';
import { ProcessPlaces } from './places.ts';
import type { Jobs, Turn, TurnKind } from './queue.ts';
import { removeIdempotencyRecords } from './remove-idempotency-records.ts';
import { settleCompanies } from './settle-companies.ts';
import { slices } from './slices.ts';
import { openVerifier } from '../verification/verifier.ts';
import { sweepJobs } from './sweep-jobs.ts';
import { takeTurn } from './turns.ts';

/**
 * Who does which jobs, and how many of a kind at once in this process. Turns share these places between customers, over all
 * processes: one customer alone gets half of them.
 */
export type Handlers = { [K in JobKind]: { handle: Handler<K>; atOnce: number } };

const allHandlers: Handlers = {
  unlock: { handle: takeTurn('unlock', slices), atOnce: 4 },
  verify: { handle: takeTurn('verify', slices), atOnce: 4 },
  'settle-companies': { handle: settleCompanies(), atOnce: 2 },
  'fill-lists': { handle: fillLists(), atOnce: 4 },
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
  const kinds = Object.keys(handlers) as JobKind[];
  const places = new ProcessPlaces(
    { db: services.db, log, stopping: stopping.signal },
    kinds.map((kind) => [kind, handlers[kind]!.atOnce]),
  );
  boss.on('error', (err) => log.error({ err }, 'the job queue has trouble'));
  boss.on('warning', (warning) => log.warn({ warning: warning.message }, 'the job queue warns'));
  const workers: Workers = {
    stop: async () => {
      stopping.abort();
      await boss.stop({ graceful: true, timeout: config.SHUTDOWN_MS });
      await places.close();
      await Promise.all(background);
      await verifier.close();
    },
  };
  try {
    await boss.start();
    await places.open();
    for (const kind of kinds)
      await startKind(boss, kind, handlers, { ...services, verifier, stopping: stopping.signal, background, places });
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
  places: ProcessPlaces;
}

/** What a job works with: the work for a customer counts in that customer's share. */
function contextOf(context: SharedContext, data: object): JobContext {
  if (!isTurn(data)) return context;
  const requester = { customerId: data.customerId };
  return {
    ...context,
    db: context.db.for(requester),
    catalog: { ...context.catalog, ...context.catalog.for(requester) },
  };
}

const isTurn = (data: object): data is Turn => 'customerId' in data;

/** Seconds between looks for a job. Nobody is woken for one that is tried again, so also those that are woken look often. */
const polling = { pollingIntervalSeconds: 2, notifyPollingIntervalSeconds: 5 };

async function startKind(
  boss: PgBoss,
  kind: JobKind,
  handlers: Partial<Handlers>,
  context: SharedContext,
): Promise<void> {
  const { handle, atOnce } = handlers[kind] as { handle: Handler<JobKind>; atOnce: number };
  const work = async (data: Jobs[JobKind], place: number) => {
    const turn = () => handle(contextOf(context, data), data);
    if (isTurn(data)) await context.places.run(kind as TurnKind, place, data.customerId, turn);
    else await turn();
  };
  for (let i = 0; i < atOnce; i += 1) {
    const worker: string = await boss.work<Jobs[JobKind] | null>(kind, polling, async ([job]) => {
      const log = context.log.child({ job: job!.id, kind });
      log.info('job started');
      const data = job!.data ?? {}; // a schedule enqueues jobs without data
      await logFailure(log, () => work(data, i));
      log.info('job done');
      // Look for the next job at once: the queue's own wake-up is for one that arrives while the worker rests.
      boss.notifyWorker(worker);
    });
  }
}

/** Runs a job and logs why it failed. The queue stores the reason too, but only tries the job again. */
async function logFailure(log: FastifyBaseLogger, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (err) {
    log[isUnavailable(err) ? 'warn' : 'error']({ err }, 'job failed');
    throw err;
  }
}
