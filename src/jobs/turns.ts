import { retryLevel } from '../database/outages.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { isUnavailable } from '../errors.ts';
import { withOwnAbort } from '../own-abort.ts';
import {
  waitForJobStarts,
  releaseLease,
  leaseJob,
  areOthersWaiting,
  lockLeasedJob,
  renewLease,
  backOff,
  type LeasedJob,
} from '../queries/job-leases.ts';
import type { JobType } from '../schemas/jobs.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { inSpan } from '../tracing/tracing.ts';
import { enqueueNextTurn, pauseAfterNothing } from '../queries/turns.ts';
import type { Handler, JobContext } from './handler.ts';
import { endJob, LeaseLost } from './settle.ts';

/**
 * Runs one batch of a job: a limited number of items in a few seconds. It stores its results with `settle`, which also
 * ends the job when all work is done.
 *
 * It must be idempotent, because a batch may be repeated after an error or crash. It must not catch errors of `settle`;
 * only after an `unavailable` error it may store the same results later.
 * @param signal aborted when the batch must stop early: the worker is asked to stop, or it lost its lease on the job
 * @param continueInBackground to be called when the batch only waits for other systems: the batch then continues in the
 *   background, and the worker takes other jobs, of this customer too
 */
export type JobBatch = (
  context: JobContext,
  job: LeasedJob,
  signal: AbortSignal,
  continueInBackground: () => void,
) => Promise<void>;

/** Maps each job type to the function that runs one batch (a limited piece of work) of a job. */
export type JobBatches = Record<JobType, JobBatch>;

/** Number of errors without progress in between after which a job becomes FAILED. */
const maxFailures = 5;

/** Milliseconds between renewals of a worker's lease (its time-limited claim on a job) while a batch runs. */
const renewalMs = 5_000;

/**
 * Maximum time that a worker spends on one customer's jobs, even if no other customer is waiting (seconds). This time
 * must be shorter than `expireInSeconds`, after which the queue delivers an unfinished message again.
 */
const turnSeconds = 30;

/**
 * Creates the handler of a queue message, which makes a worker process one customer's jobs for a short period (a turn).
 * The handler runs one batch of a job, and further batches as long as no other customer is waiting.
 * @param seconds Time limit of a turn. With 0, the handler runs exactly one batch.
 */
export const takeTurn =
  <Q extends TurnQueue>(queue: Q, batches: JobBatches, seconds = turnSeconds): Handler<Q> =>
  async (context, { customerId }) => {
    const end = performance.now() + seconds * 1000;
    const isInTime = () => !context.stopping.aborted && performance.now() < end;
    while (await runNextBatch(context, queue, batches, customerId, isInTime));
  };

/**
 * Leases the customer's next job (claims the job for a limited time) and runs one batch of the job. Runs nothing if no
 * job is ready.
 * @returns True if the worker may run another batch for this customer now. Otherwise false, and the remaining work is
 * enqueued.
 */
async function runNextBatch(
  context: JobContext,
  queue: TurnQueue,
  batches: JobBatches,
  customerId: string,
  isInTime: () => boolean,
): Promise<boolean> {
  const types = turnQueues[queue];
  const job = await context.db.transaction(async (sql) => {
    // Sent together. The snapshot of the second statement is taken after the first one has its lock.
    const [, leased] = await Promise.all([waitForJobStarts(sql, customerId, queue), leaseJob(sql, customerId, types)]);
    return leased;
  });
  const hasEnded = job && (await runUntilYield(contextOf(context, job), queue, job, batches[job.type]));
  const goesOn = job !== undefined && isInTime() && !(await mayOthersWait(context, customerId, types));
  await context.db.transaction(async (sql) => {
    if (job && hasEnded) await releaseLease(sql, customerId, job);
    if (!goesOn) await enqueueNextTurn(sql, queue, customerId, job ? 0 : pauseAfterNothing);
  });
  return goesOn;
}

/**
 * Returns true if another customer has a waiting job of these types, or if that cannot be read now. Reads outside the
 * customer's transaction: in a distributed database the answer depends on all nodes, and one of them may be silent.
 */
const mayOthersWait = (
  { allCustomersDb, log }: JobContext,
  customerId: string,
  types: readonly JobType[],
): Promise<boolean> =>
  allCustomersDb
    .lookup((sql) => areOthersWaiting(sql, customerId, types))
    .catch((err: unknown) => {
      if (!isUnavailable(err)) throw err;
      log.debug({ err }, 'the waiting jobs of other customers could not be read; the turn ends');
      return true;
    });

/** Returns a copy of the context whose log lines contain the job's id and type. */
const contextOf = (context: JobContext, { id, type }: LeasedJob): JobContext => ({
  ...context,
  log: context.log.child({ job_id: id, type }),
});

/**
 * Runs a batch. If the batch signals that it only waits for other systems, such as mail servers, the batch continues in
 * the background.
 * @returns True if the batch has ended, false if it continues in the background.
 */
async function runUntilYield(context: JobContext, queue: TurnQueue, job: LeasedJob, batch: JobBatch): Promise<boolean> {
  const left = Promise.withResolvers<false>();
  const ended = runBatch(context, job, batch, () => left.resolve(false)).then(() => true);
  const hasEnded = await Promise.race([ended, left.promise]);
  if (!hasEnded) {
    const rest = endInBackground(context, queue, job, ended).finally(() => context.background.delete(rest));
    context.background.add(rest);
  }
  return hasEnded;
}

/**
 * Waits for the end of a batch that runs in the background. Then releases the lease on the batch's job and enqueues the
 * customer's remaining work.
 */
async function endInBackground(
  { db, log }: JobContext,
  queue: TurnQueue,
  job: LeasedJob,
  ended: Promise<unknown>,
): Promise<void> {
  try {
    await ended;
    await db.transaction(async (sql) => {
      await releaseLease(sql, job.customer_id, job);
      await enqueueNextTurn(sql, queue, job.customer_id);
    });
  } catch (err) {
    // When the turn ended, it enqueued a turn for the time at which this lease expires.
    log.warn({ err }, 'the lease of a background batch could not be released; it expires by itself');
  }
}

/** Runs one batch of a leased job. Renews the lease meanwhile, and handles errors of the batch. */
export function runBatch(
  context: JobContext,
  job: LeasedJob,
  batch: JobBatch,
  continueInBackground: () => void,
): Promise<void> {
  const span = {
    name: `job ${job.type}`,
    attributes: { 'sales_data.job_id': job.id, 'sales_data.customer': job.customer_id },
    cause: job.request as TraceContext,
  };
  return withOwnAbort(context.stopping, async (ending) => {
    const renewal = keepLease(context, job, () => ending.abort());
    try {
      await inSpan(span, () => batch(context, job, ending.signal, continueInBackground));
      context.log.debug('a batch of a job ended');
    } catch (error) {
      await handleBatchError(context, job, error);
    } finally {
      clearInterval(renewal);
    }
  });
}

/**
 * Renews a lease (a worker's time-limited claim on a job) regularly, until the returned timer is cleared.
 * @param lose Called when the job has ended or another worker has taken the lease.
 */
function keepLease({ db, log }: JobContext, job: LeasedJob, lose: () => void): NodeJS.Timeout {
  const renew = async () => {
    if (!(await db.transaction((sql) => renewLease(sql, job.customer_id, job)))) lose();
  };
  return setInterval(() => {
    renew().catch((err: unknown) => log[retryLevel(err)]({ err }, 'a lease could not be renewed; retrying'));
  }, renewalMs);
}

/**
 * Handles an error of a batch: schedules a retry, or sets the job to FAILED after five errors without progress in
 * between. Errors that are caused by an unavailable service do not count, so the batch is retried without limit.
 */
async function handleBatchError({ db, log }: JobContext, job: LeasedJob, error: unknown): Promise<void> {
  const { customer_id: customerId, id } = job;
  if (error instanceof LeaseLost) return log.info('the lease is lost: the job has ended or another turn has it');
  const isPassing = isUnavailable(error);
  log[isPassing ? 'warn' : 'error']({ err: error }, 'a batch of a job failed');
  await db.transaction(async (sql) => {
    const row = await lockLeasedJob(sql, customerId, job);
    if (!row) return;
    if (isPassing) return backOff(sql, customerId, job, { seconds: 2, failed: false });
    const { failures } = row; // results that were saved since the lease began have set it to 0
    if (failures + 1 < maxFailures) return backOff(sql, customerId, job, { seconds: 2 ** failures, failed: true });
    await endJob(sql, customerId, id, { status: 'FAILED', error: gaveUpMessage });
  });
}

/**
 * The error message that customers see for a job that failed because of internal errors. The cause is only in the log,
 * because it may contain internal details.
 */
const gaveUpMessage = 'The job failed repeatedly because of an internal error of the service';
