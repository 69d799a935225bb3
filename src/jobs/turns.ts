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

/** The services that are needed to lease a run, and to store how its batches end. */
export type RunContext = Pick<JobContext, 'db' | 'log' | 'stopping'>;

/**
 * Runs one batch of a run (a job or an import): a limited part of its work, in a few seconds. It stores its results
 * under the lease, and also ends the run when all work is done.
 *
 * It must be idempotent, because a batch may be repeated after an error or crash. It must not catch errors of `settle`;
 * only after an `unavailable` error it may store the same results later.
 * @param signal aborted when the batch must stop early: the worker is asked to stop, or it lost its lease on the run
 * @param continueInBackground to be called when the batch only waits for other systems: the batch then continues in the
 *   background, and the worker takes other runs, of this customer too
 */
export type RunBatch<Q extends RunQueue, C extends RunContext = JobContext> = (
  context: C,
  run: Leased<Q>,
  signal: AbortSignal,
  continueInBackground: () => void,
) => Promise<void>;

export type JobBatch = RunBatch<JobQueue>;

/** Maps each type of run to the function that runs one batch (a limited piece of work) of a run. */
export type RunBatches<Q extends RunQueue> = Record<Run<Q>['type'], RunBatch<Q>>;

/** Number of errors without progress in between after which a run becomes FAILED. */
const maxFailures = 5;

/**
 * Maximum time that a worker spends on one customer's runs, even if no other customer is waiting (seconds). This time
 * must be shorter than `expireInSeconds`, after which the queue delivers an unfinished message again.
 */
const turnSeconds = 30;

/**
 * Minimum number of seconds before the next turn of a customer if a turn found no run to take. A run that is due then is
 * locked by a transaction, such as that of a worker whose lease has expired while it stores results. Without this pause,
 * turns would follow each other without end until that transaction ends.
 */
const pauseAfterNothing = 1;

/**
 * Creates the handler of a queue message, which makes a worker process one customer's runs for a short period (a turn).
 * The handler runs one batch of a run, and further batches as long as no other customer is waiting.
 * @param seconds Time limit of a turn. With 0, the handler runs exactly one batch.
 */
export const takeTurn =
  <Q extends RunQueue>(queue: Q, batches: RunBatches<Q>, seconds = turnSeconds): Handler<Q> =>
  async (context, { customerId }) => {
    const end = performance.now() + seconds * 1000;
    const isInTime = () => !context.stopping.aborted && performance.now() < end;
    while (await runNextBatch(context, queue, batches, customerId, isInTime));
  };

/**
 * Leases the customer's next run (claims the run for a limited time) and runs one batch of it. Runs nothing if no run
 * is ready.
 * @returns True if the worker may run another batch for this customer now. Otherwise false, and the remaining work is
 * enqueued.
 */
async function runNextBatch<Q extends RunQueue>(
  context: JobContext,
  queue: Q,
  batches: RunBatches<Q>,
  customerId: string,
  isInTime: () => boolean,
): Promise<boolean> {
  const run = await leaseNext(context, queue, customerId);
  const hasEnded = run && (await runUntilYield(contextOf(context, run), run, batches[run.type as Run<Q>['type']]));
  const goesOn = run !== undefined && isInTime() && !(await mayOthersWait(context, customerId, queue));
  await context.db.transaction(async (sql) => {
    if (run && hasEnded) await releaseLease(sql, customerId, run);
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
 * Leases one run of the customer and runs one batch of it. Does not enqueue the remaining work.
 * @param only Id of a run. If given, no other run is processed.
 * @returns False if no run is waiting.
 */
export async function runOneBatch<Q extends RunQueue, C extends RunContext>(
  context: C,
  { queue, customerId, only }: { queue: Q; customerId: string; only?: string | undefined },
  batch: RunBatch<Q, C>,
): Promise<boolean> {
  const run = await leaseNext(context, queue, customerId, only);
  if (!run) return false;
  await runBatch(contextOf(context, run), run, batch, () => undefined);
  await context.db.transaction((sql) => releaseLease(sql, customerId, run));
  return true;
}

/** What customers and logs call this run. */
const nounOf = ({ type }: Run): 'import' | 'job' => (type === 'import' ? 'import' : 'job');

/** Returns a copy of the context whose log lines contain the run's id and type. */
const contextOf = <C extends RunContext>(context: C, run: Run): C => ({
  ...context,
  log: context.log.child({ [`${nounOf(run)}_id`]: run.id, type: run.type }),
});

/**
 * Returns true if another customer has a waiting run in this queue, or if that cannot be read now. Reads outside the
 * customer's transaction: in a distributed database the answer depends on all nodes, and one of them may be silent.
 */
const mayOthersWait = ({ allCustomersDb, log }: JobContext, customerId: string, queue: RunQueue): Promise<boolean> =>
  allCustomersDb
    .lookup((sql) => areOthersWaiting(sql, customerId, queue))
    .catch((err: unknown) => {
      if (!isUnavailable(err)) throw err;
      log.debug({ err }, 'the waiting jobs of other customers could not be read; the turn ends');
      return true;
    });

/**
 * Runs a batch. If the batch signals that it only waits for other systems, such as mail servers, the batch continues in
 * the background.
 * @returns True if the batch has ended, false if it continues in the background.
 */
async function runUntilYield<Q extends RunQueue>(
  context: JobContext,
  run: Leased<Q>,
  batch: RunBatch<Q>,
): Promise<boolean> {
  const left = Promise.withResolvers<false>();
  const ended = runBatch(context, run, batch, () => left.resolve(false)).then(() => true);
  const hasEnded = await Promise.race([ended, left.promise]);
  if (!hasEnded) {
    const rest = endInBackground(context, run, ended).finally(() => context.background.delete(rest));
    context.background.add(rest);
  }
  return hasEnded;
}

/**
 * Waits for the end of a batch that runs in the background. Then releases the lease on the batch's run and enqueues the
 * customer's remaining work.
 */
async function endInBackground({ db, log }: JobContext, run: Leased, ended: Promise<unknown>): Promise<void> {
  try {
    await ended;
    await db.transaction(async (sql) => {
      await releaseLease(sql, run.customer_id, run);
      await enqueueNextTurn(sql, run.queue, run.customer_id);
    });
  } catch (err) {
    // When the turn ended, it enqueued a turn for the time at which this lease expires.
    log.warn({ err }, 'the lease of a background batch could not be released; it expires by itself');
  }
}

/** Runs one batch of a leased run. Renews the lease meanwhile, and handles errors of the batch. */
export function runBatch<Q extends RunQueue, C extends RunContext>(
  context: C,
  run: Leased<Q>,
  batch: RunBatch<Q, C>,
  continueInBackground: () => void,
): Promise<void> {
  const span = {
    name: `job ${run.type}`,
    attributes: { [`sales_data.${nounOf(run)}_id`]: run.id, 'sales_data.customer': run.customer_id },
    cause: ('request' in run ? run.request : {}) as TraceContext,
  };
  return withOwnAbort(context.stopping, async (ending) => {
    const renewal = keepLease(context, run, () => ending.abort());
    try {
      await inSpan(span, () => batch(context, run, ending.signal, continueInBackground));
      context.log.debug('a batch of a job ended');
    } catch (error) {
      await handleBatchError(context, run, error);
    } finally {
      clearInterval(renewal);
    }
  });
}

/**
 * Renews a lease (a worker's time-limited claim on a run) regularly, until the returned timer is cleared.
 * @param lose Called when the run has ended or another worker has taken the lease.
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
 * Handles an error of a batch: schedules a retry, or sets the run to FAILED after five errors without progress in
 * between. Errors that are caused by an unavailable service do not count, so the batch is retried without limit.
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
 * Makes a run wait after an error of its batch, or sets it to FAILED.
 * @param isPassing True if the error does not count.
 * @returns False if the lease on the run is lost. Nothing is written then.
 */
async function storeFailure(sql: Transaction, run: Leased, isPassing: boolean): Promise<boolean> {
  const { customer_id: customerId, id } = run;
  const row = await lockRun(sql, customerId, run);
  if (!row) return false;
  const { failures } = row; // results that were saved since the lease began have set it to 0
  if (isPassing) await backOff(sql, customerId, run, { seconds: 2, failed: false });
  else if (failures + 1 < maxFailures) await backOff(sql, customerId, run, { seconds: 2 ** failures, failed: true });
  else {
    const end = run.type === 'import' ? endImport : endJob;
    await end(sql, customerId, id, { status: 'FAILED', error: gaveUpMessage(run) });
  }
  return true;
}

/**
 * The error message that customers see for a run that failed because of internal errors. The cause is only in the log,
 * because it may contain internal details.
 */
const gaveUpMessage = (run: Run): string =>
  `The ${nounOf(run)} failed repeatedly because of an internal error of the service`;
