import type { Sql } from '../db.ts';
import { isUnavailable } from '../errors.ts';
import { customersSettling } from '../queries/company-settlements.ts';
import { customersFilling } from '../queries/list-fills.ts';
import { purgeEndedJob } from '../queries/job-retention.ts';
import { customersWaiting } from '../queries/turns.ts';
import { untoldProspects } from '../queries/unlocks.ts';
import { forgetDeadWorkers } from '../queries/worker-places.ts';
import { turnQueues, type TurnQueue } from '../queues.ts';
import type { Handler, JobContext } from './handler.ts';
import { enqueueWaiting, type TurnKind } from './queue.ts';

/**
 * Puts right what was left behind, once a minute: jobs that wait while nobody comes for them, places of workers that died,
 * unlocks that the catalog was not told of, inputs and results of jobs that ended long ago.
 */
export const sweepJobs: Handler<'sweep-jobs'> = async (context) => {
  const turns: Partial<Record<TurnQueue, number>> = {};
  for (const queue of Object.keys(turnQueues) as TurnQueue[]) turns[queue] = await wakeAll(context, queue);
  const settling = await wakeEach(context, 'settle-companies', customersSettling);
  const filling = await wakeEach(context, 'fill-lists', customersFilling);
  await context.db.transaction(forgetDeadWorkers);
  const purged = await purge(context);
  const told = await tellCatalog(context);
  context.log.info({ woken: { ...turns, settling, filling }, purged, told }, 'jobs swept');
};

const batchSize = 1_000;

/**
 * Sees to it that a turn is waited for wherever a job waits. The starts need not be waited for here: a message that waits
 * now leads to a turn that sees at least what was seen now.
 * @returns how many customers nobody would have come to
 */
function wakeAll(context: JobContext, queue: TurnQueue): Promise<number> {
  const turns = { queue, types: turnQueues[queue] };
  return wakeEach(context, queue, (sql, batch) => customersWaiting(sql, turns, batch));
}

type FindCustomers = (sql: Sql, batch: { after: string; limit: number }) => Promise<string[]>;

/** Enqueues one turn for each of these customers that has none queued. */
async function wakeEach({ db, stopping }: JobContext, queue: TurnKind, find: FindCustomers): Promise<number> {
  let woken = 0;
  for (let after = '00000000-0000-0000-0000-000000000000'; !stopping.aborted;) {
    const batch = await db.search((sql) => find(sql, { after, limit: batchSize }));
    if (batch.length === 0) break;
    woken += await db.transaction((sql) => enqueueWaiting(sql, queue, batch));
    after = batch.at(-1)!;
  }
  return woken;
}

async function purge({ db, stopping }: JobContext): Promise<number> {
  let steps = 0;
  while (!stopping.aborted && (await db.transaction(purgeEndedJob))) steps += 1;
  return steps;
}

/** Unlocks that the catalog is told of together: if it cannot write one of them, the others of the batch may wait too. */
const unlocksAtOnce = 500;

/** Milliseconds that a sweep spends on unlocks that cannot be written. */
const mostStuckMs = 30_000;

/**
 * Tells the catalog of unlocks that a turn could not write, because it died or the cluster was down. Those that still
 * cannot be written are passed over, so that they do not keep others waiting. The next sweep tries them again.
 * @returns how many prospects the catalog was told of
 */
async function tellCatalog({ db, catalog, log, stopping }: JobContext): Promise<number> {
  const stuck: string[] = [];
  let [told, stuckMs] = [0, 0];
  let first: string | undefined;
  // The other engine reads the unlocks from Postgres and is told nothing.
  while (catalog.engine === 'elasticsearch' && !stopping.aborted && stuckMs < mostStuckMs) {
    const prospects = await db.search((sql) => untoldProspects(sql, unlocksAtOnce, stuck));
    // The same prospect again: there is no index to write to.
    if (prospects.length === 0 || prospects[0] === first) break;
    [first] = prospects;
    const begun = performance.now();
    try {
      await catalog.syncUnlocks(prospects);
      told += prospects.length;
    } catch (err) {
      if (!isUnavailable(err)) throw err;
      log.warn({ err, prospects: prospects.length }, 'some unlocks could not be written to the catalog');
      stuck.push(...prospects);
      stuckMs += performance.now() - begun;
    }
  }
  return told;
}
