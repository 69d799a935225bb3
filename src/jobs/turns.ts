import { retryLevel } from '../database/outages.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { isUnavailable } from '../errors.ts';
import {
  waitForJobStarts,
  releaseLease,
  leaseJob,
  areOthersWaiting,
  renewLease,
  backOff,
  type LeasedJob,
} from '../queries/job-leases.ts';
import type { JobType } from '../schemas/jobs.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { inSpan } from '../tracing/tracing.ts';
import { enqueueNextTurn } from './enqueue-turn.ts';
import type { Handler, JobContext } from './handler.ts';
import { endJob, LeaseLost } from './settle.ts';

/**
 * Runs one batch of a job: a limited number of items in a few seconds. It stores its results with `settle`, which also
 * ends the job when all work is done.
 *
 * It must be idempotent, because a batch may be repeated after an error or crash. It must not catch errors of `settle`;
 * only after an `unavailable` error it may store the same results later.
 * @param signal aborted when the batch must stop early: the worker is asked to stop, or it lost its lease on the job
 * @param yieldTurn to be called when the batch only waits for outside work; the worker then serves other customers, and
 *   the batch continues in the background
 */
export type JobBatch = (
  context: JobContext,
  job: LeasedJob,
  signal: AbortSignal,
  yieldTurn: () => void,
) => Promise<void>;

/** For each job type, the function that runs one batch (a limited piece of work) of a job. */
export type JobBatches = Record<JobType, JobBatch>;

/** Number of consecutive errors after which a job becomes FAILED. */
const maxFailures = 5;

/** Milliseconds between renewals of a worker's lease (its time-limited claim on a job) while a batch runs. */
const renewalMs = 5_000;

/**
 * Maximum time that a worker spends on one customer's jobs, even if no other customer waits (seconds). It must be
 * shorter than the time after which the queue treats a message as lost.
 */
const turnSeconds = 30;

/**
 * Creates the handler of a turn: a short period in which one worker works on one customer's jobs. It runs one batch of
 * a job, and more batches while no other customer waits.
 * @param seconds maximum length of a turn; 0 runs exactly one batch
 */
export const takeTurn =
  <Q extends TurnQueue>(queue: Q, batches: JobBatches, seconds = turnSeconds): Handler<Q> =>
  async (context, { customerId }) => {
    const end = performance.now() + seconds * 1000;
    const isInTime = () => !context.stopping.aborted && performance.now() < end;
    while (await runNextBatch(context, queue, batches, customerId, isInTime));
  };

/**
 * Runs one batch of the customer's next job, if there is one, under a lease (a time-limited claim on the job). Returns
 * true if the worker may run another batch for this customer now. Otherwise enqueues the remaining work and returns
 * false.
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
  return context.db.transaction(async (sql) => {
    if (job && hasEnded) await releaseLease(sql, customerId, job);
    if (job && isInTime() && !(await areOthersWaiting(sql, customerId, types))) return true;
    await enqueueNextTurn(sql, queue, customerId);
    return false;
  });
}

/** Returns the services for one job: its log lines name the job, by the id that the API shows. */
const contextOf = (context: JobContext, { id, type }: LeasedJob): JobContext => ({
  ...context,
  log: context.log.child({ job_id: id, type }),
});

/**
 * Runs a batch. Returns true when the batch has ended. Returns false as soon as the batch only waits for other systems,
 * such as mail servers; the batch then continues in the background.
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
 * Waits until a batch that continues in the background ends. Then releases the lease on its job and enqueues the
 * remaining work.
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

async function runBatch(context: JobContext, job: LeasedJob, batch: JobBatch, yieldTurn: () => void): Promise<void> {
  const lease = keepLease(context, job);
  const signal = AbortSignal.any([context.stopping, lease.lost]);
  const span = {
    name: `job ${job.type}`,
    attributes: { 'sales_data.job_id': job.id, 'sales_data.customer': job.customer_id },
    cause: job.request as TraceContext,
  };
  try {
    await inSpan(span, () => batch(context, job, signal, yieldTurn));
    context.log.debug('a batch of a job ended');
  } catch (error) {
    await handleBatchError(context, job, error);
  } finally {
    lease.stop();
  }
}

/**
 * Renews a worker's lease (its time-limited claim on a job) until `stop` is called. `lost` is aborted when the job has
 * ended or another worker has the lease.
 */
function keepLease({ db, log }: JobContext, job: LeasedJob): { lost: AbortSignal; stop: () => void } {
  const lost = new AbortController();
  const renew = async () => {
    if (!(await db.transaction((sql) => renewLease(sql, job.customer_id, job)))) lost.abort();
  };
  const timer = setInterval(() => {
    renew().catch((err: unknown) => log[retryLevel(err)]({ err }, 'a lease could not be renewed; retrying'));
  }, renewalMs);
  return { lost: lost.signal, stop: () => clearInterval(timer) };
}

/**
 * Handles an error of a batch: schedules a retry, or sets the job to FAILED after five errors in a row. While a service
 * is unavailable, the batch is retried without limit.
 */
async function handleBatchError({ db, log }: JobContext, job: LeasedJob, error: unknown): Promise<void> {
  const { customer_id: customerId, id, failures } = job;
  if (error instanceof LeaseLost) return log.info('the lease is lost: the job has ended or another turn has it');
  const isPassing = isUnavailable(error);
  log[isPassing ? 'warn' : 'error']({ err: error, failures }, 'a batch of a job failed');
  await db.transaction(async (sql) => {
    if (isPassing) return backOff(sql, customerId, job, { seconds: 2, failed: false });
    if (failures + 1 < maxFailures) return backOff(sql, customerId, job, { seconds: 2 ** failures, failed: true });
    if (await renewLease(sql, customerId, job))
      await endJob(sql, customerId, id, { status: 'FAILED', error: gaveUpMessage });
  });
}

/**
 * The error text of a failed job that customers see. The real cause is only in the log, because it may contain internal
 * details.
 */
const gaveUpMessage = 'The job failed repeatedly because of an internal error of the service';
