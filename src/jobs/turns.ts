import type { Transaction } from '../database/db.ts';
import { retryLevel } from '../database/outages.ts';
import { heartbeatSeconds, type JobQueue, type RunQueue } from '../database/queues.ts';
import { isUnavailable } from '../errors.ts';
import { withOwnAbort } from '../process/own-abort.ts';
import { endImport } from '../queries/imports/imports.ts';
import {
  releaseLease,
  leaseRun,
  areOthersWaiting,
  lockRun,
  renewLease,
  backOff,
  type Leased,
  type Run,
  enqueueNextTurn,
} from '../queries/jobs/leases.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { inSpan } from '../tracing/tracing.ts';
import { waitForNewWork } from '../queries/records/turns.ts';
import type { Handler, JobContext } from './handler.ts';
import { endJob, LeaseLost } from './settle.ts';

/** What leases a run, and stores how its batches end. */
export type RunContext = Pick<JobContext, 'db' | 'log' | 'stopping'>;

/**
 * Runs one batch, in a few seconds. Stores its results under the lease, and ends the run when all work is done.
 *
 * Must be idempotent, because a batch may be repeated after an error or crash. Must not catch errors of `settle`; only
 * after an `unavailable` it may store the same results later.
 * @param signal aborted when the batch must stop early: the worker is asked to stop, or lost its lease
 */
export type RunBatch<Q extends RunQueue, C extends RunContext = JobContext> = (
  context: C,
  run: Leased<Q>,
  signal: AbortSignal,
) => Promise<void>;

export type JobBatch = RunBatch<JobQueue>;

export type RunBatches<Q extends RunQueue> = Record<Run<Q>['type'], RunBatch<Q>>;

/** Errors without progress in between after which a run becomes FAILED. */
const maxFailures = 5;

/**
 * Maximum time of a turn, even if no other customer waits. Shorter than `expireInSeconds`, after which the queue
 * delivers an unfinished message again.
 */
const turnSeconds = 30;

/**
 * Minimum time before a customer's next turn if one found no run to take. A run that is due then is locked, e.g. by a
 * worker whose lease has expired while it stores results. Without this pause, turns would follow each other until that
 * transaction ends.
 */
const pauseAfterNothing = 1;

/**
 * Handles a message: runs one batch, and more as long as no other customer waits.
 * @param seconds time limit of a turn. With 0, exactly one batch
 */
export const takeTurn =
  <Q extends RunQueue>(queue: Q, batches: RunBatches<Q>, seconds = turnSeconds): Handler<Q> =>
  async (context, { customerId }) => {
    const end = performance.now() + seconds * 1000;
    const isInTime = () => !context.stopping.aborted && performance.now() < end;
    while (await runNextBatch(context, queue, batches, customerId, isInTime));
  };

/**
 * Leases the customer's next run and runs one batch of it, if a run is ready.
 * @returns true if the worker may run another batch for this customer now; else the remaining work is enqueued
 */
async function runNextBatch<Q extends RunQueue>(
  context: JobContext,
  queue: Q,
  batches: RunBatches<Q>,
  customerId: string,
  isInTime: () => boolean,
): Promise<boolean> {
  const run = await leaseNext(context, queue, customerId);
  if (run) await runBatch(contextOf(context, run), run, batches[run.type as Run<Q>['type']]);
  const goesOn = run !== undefined && isInTime() && !(await mayOthersWait(context, customerId, queue));
  await context.db.transaction(async (sql) => {
    if (run) await releaseLease(sql, customerId, run);
    if (!goesOn) await enqueueNextTurn(sql, queue, customerId, run ? 0 : pauseAfterNothing);
  });
  return goesOn;
}

const leaseNext = <Q extends RunQueue>(
  { db }: RunContext,
  queue: Q,
  customerId: string,
  only?: string,
): Promise<Leased<Q> | undefined> =>
  db.transaction(async (sql) => {
    // Sent together. The snapshot of the second statement is taken after the first one has its lock.
    const [, run] = await Promise.all([waitForNewWork(sql, queue, customerId), leaseRun(sql, customerId, queue, only)]);
    return run;
  });

/**
 * Leases a run and runs one batch of it. Does not enqueue the remaining work.
 * @param only id of the only run to process
 * @returns false if none is waiting
 */
export async function runOneBatch<Q extends RunQueue, C extends RunContext>(
  context: C,
  { queue, customerId, only }: { queue: Q; customerId: string; only?: string | undefined },
  batch: RunBatch<Q, C>,
): Promise<boolean> {
  const run = await leaseNext(context, queue, customerId, only);
  if (!run) return false;
  await runBatch(contextOf(context, run), run, batch);
  await context.db.transaction((sql) => releaseLease(sql, customerId, run));
  return true;
}

/** For customers and logs. */
const nounOf = ({ type }: Run): 'import' | 'job' | 'webhook' =>
  type === 'import' || type === 'webhook' ? type : 'job';

const contextOf = <C extends RunContext>(context: C, run: Run): C => ({
  ...context,
  log: context.log.child({ [`${nounOf(run)}_id`]: run.id, type: run.type }),
});

/**
 * True if another customer has a waiting run in this queue, or if that cannot be read now. Reads outside the customer's
 * transaction: in a distributed database the answer depends on all nodes, and one may be silent.
 */
const mayOthersWait = ({ allCustomersDb, log }: JobContext, customerId: string, queue: RunQueue): Promise<boolean> =>
  allCustomersDb
    .lookup((sql) => areOthersWaiting(sql, customerId, queue))
    .catch((err: unknown) => {
      if (!isUnavailable(err)) throw err;
      log.debug({ err }, 'the waiting jobs of other customers could not be read; the turn ends');
      return true;
    });

export function runBatch<Q extends RunQueue, C extends RunContext>(
  context: C,
  run: Leased<Q>,
  batch: RunBatch<Q, C>,
): Promise<void> {
  const span = {
    name: `job ${run.type}`,
    attributes: { [`sales_data.${nounOf(run)}_id`]: run.id, 'sales_data.customer': run.customer_id },
    cause: ('request' in run ? run.request : {}) as TraceContext,
  };
  return withOwnAbort(context.stopping, async (ending) => {
    const renewal = keepLease(context, run, () => ending.abort());
    try {
      await inSpan(span, () => batch(context, run, ending.signal));
      context.log.debug('a batch of a job ended');
    } catch (error) {
      await handleBatchError(context, run, error);
    } finally {
      clearInterval(renewal);
    }
  });
}

/**
 * Renews the lease until the returned timer is cleared.
 * @param lose called when the run has ended or another worker has taken the lease
 */
function keepLease({ db, log }: RunContext, run: Leased, lose: () => void): NodeJS.Timeout {
  const renew = async () => {
    if (!(await db.transaction((sql) => renewLease(sql, run.customer_id, run)))) lose();
  };
  return setInterval(() => {
    renew().catch((err: unknown) => log[retryLevel(err)]({ err }, 'a lease could not be renewed; retrying'));
  }, heartbeatSeconds * 1000);
}

/**
 * Schedules a retry, or sets the run to FAILED after five errors without progress in between. Errors of an unavailable
 * service do not count, so those are retried without limit.
 */
async function handleBatchError({ db, log }: RunContext, run: Leased, error: unknown): Promise<void> {
  const isPassing = isUnavailable(error);
  let isLost = error instanceof LeaseLost;
  try {
    if (!isLost) isLost = !(await db.transaction((sql) => storeFailure(sql, run, isPassing)));
  } finally {
    if (isLost) log.info('the lease is lost: the job has ended or another turn has it');
    else log[isPassing ? 'warn' : 'error']({ err: error }, 'a batch of a job failed');
  }
}

/**
 * Makes a run wait after an error, or sets it to FAILED.
 * @param isPassing true if the error does not count
 * @returns false, with nothing written, if the lease is lost
 */
async function storeFailure(sql: Transaction, run: Leased, isPassing: boolean): Promise<boolean> {
  const { customer_id: customerId } = run;
  const row = await lockRun(sql, customerId, run);
  if (!row) return false;
  const { failures } = row; // results that were saved since the lease began have set it to 0
  if (isPassing) await backOff(sql, customerId, run, { seconds: 2, failed: false });
  else if (run.type === 'webhook') {
    // An endpoint has no end. What is wrong with the service may be repaired.
    const seconds = 2 ** Math.min(failures, maxFailures);
    await backOff(sql, customerId, run, { seconds, failed: true });
  } else if (failures + 1 < maxFailures) await backOff(sql, customerId, run, { seconds: 2 ** failures, failed: true });
  else {
    const end = run.type === 'import' ? endImport : endJob;
    await end(sql, customerId, row.id, { status: 'FAILED', error: gaveUpMessage(run) });
  }
  return true;
}

/** What customers see after internal errors. The cause is only in the log, because it may contain internal details. */
const gaveUpMessage = (run: Run): string =>
  `The ${nounOf(run)} failed repeatedly because of an internal error of the service`;
