import type { FastifyBaseLogger } from 'fastify';
import { PgBoss, type WorkHandler } from 'pg-boss';
import { addTerms, findCustomersWithoutTerms, indexedSources } from '../queries/records/custom-fields.ts';
import { type JobContext, repeat, type Handler, runBatches, takeTurn, type RunBatches, type Payload } from './turns.ts';
import { removeOldApprovals } from '../queries/accounts/approvals.ts';
import { removeExpiredRecords } from '../queries/records/idempotency.ts';
import { truncateJournal } from '../queries/records/journal.ts';
import { purgeActivities, purgeCompanies, purgeLists } from '../queries/crm/deletions.ts';
import { forgetOldMerges } from '../queries/records/merged-records.ts';
import { type TurnKind, isRunQueue, turnKinds, queueSchema, type JobKind } from '../database/queues.ts';
import { countNextDuplicates, findCountingCustomers } from '../queries/crm/duplicates.ts';
import { findCustomersWithRuns, freeRuns, purgeEndedJob } from '../queries/jobs/runs.ts';
import type { FindCustomers } from '../queries/records/finders.ts';
import { countNextList, findCustomersToCount } from '../queries/crm/lists.ts';
import { importRecords } from './import-records.ts';
import { jobCode } from './job-types.ts';
import type { JobQueue } from '../schemas/jobs.ts';
import type { Sql, Transaction, SharedDatabase } from '../database/db.ts';
import { lowestId, serviceRole, withSessionSettings } from '../database/connection.ts';
import { isUnavailable } from '../errors.ts';
import {
  dropOverdueRows,
  findOverdueRows,
  expireImport,
  findExpiredImports,
  purgeEndedImport,
} from '../queries/jobs/dry-runs.ts';
import { findUnindexedProspects } from '../queries/jobs/unlocks.ts';
import { enqueueTurn, findWithoutTurn, type Turn } from '../queries/records/turns.ts';
import { purgeOldDeliveries } from '../queries/accounts/webhook-endpoints.ts';
import { isConnectionLost } from '../database/pools.ts';
import { allCustomers } from '../access/credentials.ts';
import type { TraceContext } from '../process/spans.ts';
import { inSpan, traceFields } from '../process/tracing.ts';
import { openVerifier } from '../verification/verifier.ts';
import { startSending } from './send-webhooks.ts';

const indexedAtOnce = 100;
const customersAtOnce = 1_000;

/**
 * Computes the search columns of records that an older version of this program wrote without them: folded texts (lower
 * case, no accents) and search terms.
 * @param maxMs time limit (ms); the next call resumes with the remaining records
 * @returns the number of batches written
 */
export async function indexRecords(
  { db, stopping }: Pick<JobContext, 'db' | 'stopping'>,
  maxMs: number,
  sources = indexedSources,
): Promise<number> {
  const end = performance.now() + maxMs;
  const isOver = (): boolean => stopping.aborted || performance.now() > end;
  let batches = 0;
  for (const source of sources) {
    for (let customer = lowestId; ;) {
      const customers = await db.search((sql) =>
        findCustomersWithoutTerms(sql, source, { after: customer, limit: customersAtOnce }),
      );
      for (customer of customers) {
        for (let after: string | undefined = lowestId; after !== undefined; batches += 1) {
          if (isOver()) return batches;
          const position: string = after;
          after = await db.transaction((sql) =>
            addTerms(sql, customer, source, { after: position, size: indexedAtOnce }),
          );
        }
      }
      if (customers.length < customersAtOnce) break;
    }
  }
  return batches;
}

/**
 * Deletes data that has expired: idempotency records, approvals, old merges, the old part of the journal, and records
 * that were deleted long ago. Works in small batches, so that transactions stay short.
 */
export const removeIdempotencyRecords: Handler<'remove-idempotency-records'> = async (context) => {
  const removed = await repeat(context, removeExpiredRecords);
  const forgotten = await repeat(context, forgetOldMerges);
  await repeat(context, removeOldApprovals);
  const days = context.config.HISTORY_DAYS;
  const emptied = await truncateJournal(context.db, days);
  let purged = 0;
  for (const purge of [purgeActivities, purgeCompanies, purgeLists])
    purged += await repeat(context, (sql) => purge(sql, days));
  context.log.info(
    { removed, forgotten, emptied, purged },
    'expired idempotency records, old merges, old changes and deleted records removed',
  );
};

export const jobBatches = Object.fromEntries(
  Object.entries(jobCode).map(([type, { batch }]) => [type, batch]),
) as RunBatches<JobQueue>;

interface TurnQueue<K extends TurnKind> {
  handle: Handler<K>;
  atOnce: number;
  findCustomers: FindCustomers;
}

export const turnQueues: { [K in TurnKind]: TurnQueue<K> } = {
  unlock: { handle: takeTurn('unlock', jobBatches), atOnce: 4, findCustomers: findCustomersWithRuns('unlock') },
  verify: { handle: takeTurn('verify', jobBatches), atOnce: 4, findCustomers: findCustomersWithRuns('verify') },
  import: { handle: importRecords(), atOnce: 2, findCustomers: findCustomersWithRuns('import') },
  'count-lists': { handle: runBatches('count-lists', countNextList), atOnce: 1, findCustomers: findCustomersToCount },
  'count-duplicates': {
    handle: runBatches('count-duplicates', countNextDuplicates),
    atOnce: 1,
    findCustomers: findCountingCustomers,
  },
};

/**
 * Runs once a minute. Enqueues waiting work that has no message, for example after a restore of the database. Cancels
 * expired imports, deletes data of old jobs, and completes the search indexes.
 */
export const sweepJobs: Handler<'sweep-jobs'> = async (context) => {
  const woken: Partial<Record<TurnKind, number>> = {};
  for (const queue of turnKinds) woken[queue] = await enqueueWaitingTurns(context, queue);
  const expired = await forEachImport(context, findExpiredImports, expireImport);
  await forEachImport(context, findOverdueRows, dropOverdueRows);
  let purged = 0;
  for (const purge of [purgeEndedJob, purgeEndedImport, purgeOldDeliveries]) purged += await repeat(context, purge);
  const indexed = await indexUnlocks(context);
  const termBatches = await indexRecords(context, maxIndexingMs);
  context.log.info({ woken, expired, purged, indexed, termBatches }, 'jobs swept');
};

const maxIndexingMs = 30_000;

const sweepSize = 1_000;

async function enqueueWaitingTurns({ db, stopping }: JobContext, queue: TurnKind): Promise<number> {
  let woken = 0;
  for (let after = lowestId; !stopping.aborted;) {
    const batch = await db.search((sql) => turnQueues[queue].findCustomers(sql, { after, limit: sweepSize }));
    if (batch.length === 0) break;
    woken += await db.transaction(async (sql) => {
      const lost = await findWithoutTurn(sql, queue, batch);
      for (const customerId of lost) {
        if (isRunQueue(queue)) await freeRuns(sql, customerId, queue);
        await enqueueTurn(sql, queue, customerId);
      }
      return lost.length;
    });
    after = batch.at(-1)!;
  }
  return woken;
}

async function forEachImport(
  { db, stopping }: JobContext,
  find: (sql: Sql, limit: number) => Promise<{ customer_id: string; id: string }[]>,
  act: (sql: Transaction, customerId: string, id: string) => Promise<boolean>,
): Promise<number> {
  let acted = 0;
  while (!stopping.aborted) {
    const found = await db.search((sql) => find(sql, sweepSize));
    for (const { customer_id: customerId, id } of found)
      while (!stopping.aborted && (await db.transaction((sql) => act(sql, customerId, id)))) acted += 1;
    if (found.length < sweepSize) break;
  }
  return acted;
}

const unlocksAtOnce = 500;

/** Milliseconds that failed requests may take in all. Then a run stops sending, and the next run continues. */
const maxStuckMs = 30_000;

/**
 * Writes unlocks that are not yet indexed to the search index. Skips prospects that fail; the next run retries them.
 * @returns the number of prospects written
 */
async function indexUnlocks({ db, catalog, log, stopping }: JobContext): Promise<number> {
  const stuck: string[] = [];
  let [indexed, stuckMs] = [0, 0];
  let first: string | undefined;
  // The PostgreSQL catalog reads the unlocks from the database, so it needs no indexing.
  while (catalog.engine === 'elasticsearch' && !stopping.aborted && stuckMs < maxStuckMs) {
    const prospects = await db.search((sql) => findUnindexedProspects(sql, unlocksAtOnce, stuck));
    // The same prospect is first again although `syncUnlocks` succeeded: there is no index to write to.
    if (prospects.length === 0 || prospects[0] === first) break;
    [first] = prospects;
    const begun = performance.now();
    try {
      await catalog.syncUnlocks(prospects);
      indexed += prospects.length;
    } catch (err) {
      if (!isUnavailable(err)) throw err;
      log.warn({ err, prospects: prospects.length }, 'some unlocks could not be written to the catalog');
      stuck.push(...prospects);
      stuckMs += performance.now() - begun;
    }
  }
  return indexed;
}

type Handlers = { [K in JobKind]: { handle: Handler<K>; atOnce: number } };

const allHandlers: Handlers = {
  ...turnQueues,
  'sweep-jobs': { handle: sweepJobs, atOnce: 1 },
  'remove-idempotency-records': { handle: removeIdempotencyRecords, atOnce: 1 },
};

export interface Workers {
  /** Takes no more messages, waits for those in progress, and closes the queue's connections. */
  stop(): Promise<void>;
}

interface WorkerOptions extends Omit<JobContext, 'stopping' | 'verifier' | 'db' | 'allCustomersDb'> {
  db: SharedDatabase;
  url: string;
}

/**
 * Starts the workers of this process.
 * @param handlers default: all kinds of jobs, and webhooks
 * @throws the error that prevented the start, after stopping workers that had already started
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
  let webhooks: ReturnType<typeof startSending> | undefined;
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
    const key = config.WEBHOOK_SECRET_KEY; // without it, no secret of an endpoint can be read
    if (handlers === allHandlers && key !== undefined) webhooks = startSending(services, key);
    return workers;
  } catch (error) {
    // Workers that have started would keep the process alive. It would then neither work nor exit and be restarted.
    await workers.stop();
    throw error;
  }
}

/** Matches messages about a lost connection that have no error code, from the database driver and pg-boss. */
const lostMessages =
  /^(Connection terminated|Client (has encountered|was closed)|timeout e|LISTEN\/NOTIFY (hear|conn))/;

const isQueueConnectionLost = (error: Error): boolean => isConnectionLost(error) || lostMessages.test(error.message);

interface SharedContext extends JobContext {
  db: SharedDatabase;
}

/**
 * Returns the context for processing a message. A customer's turn shares database and catalog slots with the customer's
 * other work. Maintenance runs for all customers.
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

// A worker that is notified while its customer has no free slot takes nothing, and is not notified again.
const polling = { pollingIntervalSeconds: 2, notifyPollingIntervalSeconds: 2 };

const slotsPerCustomer = (atOnce: number): number => Math.max(1, Math.floor(atOnce / 2));

async function startKind(boss: PgBoss, kind: JobKind, handlers: Partial<Handlers>, context: SharedContext) {
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
  await boss.work(kind, { ...polling, localConcurrency, localGroupConcurrency: slotsPerCustomer(atOnce) }, work);
}

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
