import type { Sql, Transaction } from '../database/db.ts';
import { isRunQueue, turnKinds, type TurnKind } from '../database/queues.ts';
import { lowestId } from '../database/wire-types.ts';
import { isUnavailable } from '../errors.ts';
import { dropOverdueRows, findOverdueRows } from '../queries/imports/dry-runs.ts';
import { expireImport, findExpiredImports, purgeEndedImport } from '../queries/imports/import-retention.ts';
import { freeRuns } from '../queries/jobs/runs.ts';
import { purgeEndedJob } from '../queries/jobs/job-retention.ts';
import { findUnindexedProspects } from '../queries/catalog/unlocks.ts';
import { enqueueTurn, findWithoutTurn } from '../queries/records/turns.ts';
import { purgeOldDeliveries } from '../queries/webhooks/deliveries.ts';
import { repeat } from './batches.ts';
import type { Handler, JobContext } from './handler.ts';
import { indexRecords } from './index-records.ts';
import { turnQueues } from './turn-queues.ts';

/**
 * Runs once a minute. Enqueues waiting work that has no message, e.g. after a database was restored. Cancels expired imports, deletes
 * data of jobs that ended long ago, and updates incomplete search indexes.
 */
export const sweepJobs: Handler<'sweep-jobs'> = async (context) => {
  const woken: Partial<Record<TurnKind, number>> = {};
  for (const queue of turnKinds) woken[queue] = await enqueueWaitingTurns(context, queue);
  const expired = await forEachImport(context, findExpiredImports, expireImport);
  await forEachImport(context, findOverdueRows, dropOverdueRows);
  let purged = 0;
  for (const purge of [purgeEndedJob, purgeEndedImport, purgeOldDeliveries]) purged += await repeat(context, purge);
  const indexed = await indexUnlocks(context);
  const termBatches = await indexRecords(context, mostIndexingMs);
  context.log.info({ woken, expired, purged, indexed, termBatches }, 'jobs swept');
};

/** How long one run adds missing terms (ms). */
const mostIndexingMs = 30_000;

const batchSize = 1_000;

/**
 * Enqueues a message for each customer with work but no message in the queue, neither a waiting nor a taken one.
 * @returns how many
 */
async function enqueueWaitingTurns({ db, stopping }: JobContext, queue: TurnKind): Promise<number> {
  let woken = 0;
  for (let after = lowestId; !stopping.aborted;) {
    const batch = await db.search((sql) => turnQueues[queue].findCustomers(sql, { after, limit: batchSize }));
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

/**
 * Calls `act` for each of the found imports as long as it returns true, each time in a transaction.
 * @returns how often it returned true
 */
async function forEachImport(
  { db, stopping }: JobContext,
  find: (sql: Sql, limit: number) => Promise<{ customer_id: string; id: string }[]>,
  act: (sql: Transaction, customerId: string, id: string) => Promise<boolean>,
): Promise<number> {
  let acted = 0;
  while (!stopping.aborted) {
    const found = await db.search((sql) => find(sql, batchSize));
    for (const { customer_id: customerId, id } of found)
      while (!stopping.aborted && (await db.transaction((sql) => act(sql, customerId, id)))) acted += 1;
    if (found.length < batchSize) break;
  }
  return acted;
}

/** Prospects whose unlocks one request indexes. If it fails, the next run tries all of them again. */
const unlocksAtOnce = 500;

/** Total time of failed requests after which a run sends no more (ms). */
const maxStuckMs = 30_000;

/**
 * Indexes unlocks. Skips prospects for which that fails; the next run retries them.
 * @returns the number of prospects updated
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
