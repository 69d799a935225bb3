import { isUnavailable } from '../errors.ts';
import { turnQueues, type TurnQueue } from '../queues.ts';
import { awaitStarts, dropLease, leaseJob, othersWait, renewLease, restJob, type LeasedJob } from '../queries/turns.ts';
import type { JobType } from '../schemas/jobs.ts';
import type { Handler, JobContext } from './handler.ts';
import { finish, LeaseLost } from './settle.ts';
import { wakeForRest } from './wake.ts';

/**
 * Works at a job for a little while: some items, some seconds. Whatever it delivers it settles, with `settle`, which also
 * ends the job. When it returns and the job has not ended, its customer gets another turn after those of others.
 *
 * May be called again for what it has done: after a crash, or when its lease was lost. What `settle` throws is not for it to
 * catch; `unavailable` has the same work tried again, for as long as it takes; other errors a few times. A slice that has
 * something in hand that must not be done again may catch `unavailable`, and settle it later.
 * @param signal set when it shall stop early: the worker is asked to stop, or the lease is lost
 * @param leavePlace to be called when it only waits for what it has begun: the turn ends without it, so that other customers
 *   are served, and it goes on with its lease
 */
export type Slice = (context: JobContext, job: LeasedJob, signal: AbortSignal, leavePlace: () => void) => Promise<void>;

/** Who does a slice of which jobs. */
export type Slices = Record<JobType, Slice>;

/** Errors in a row after which a job has failed. */
const mostFailures = 5;

/** Milliseconds between renewals of a lease in a slice that takes long. */
const renewalMs = 5_000;

/** Seconds after which a turn ends with the slice in hand, though nobody waits for it to: well before its message counts as lost. */
const turnSeconds = 30;

/**
 * Takes a turn of a customer: one slice of the job that has waited longest, and more while no other customer waits. What is
 * left is another turn's, behind those that wait by now.
 * @param seconds after which it ends in any case; 0 is one slice
 */
export const takeTurn =
  <Q extends TurnQueue>(queue: Q, slices: Slices, seconds = turnSeconds): Handler<Q> =>
  async (context, { customerId }) => {
    const end = performance.now() + seconds * 1000;
    const isInTime = () => !context.stopping.aborted && performance.now() < end;
    while (await takeSlice(context, queue, slices, customerId, isInTime));
  };

/** Works at a slice, if there is a job. Answers whether the turn goes on; else what is left has been put behind others. */
async function takeSlice(
  context: JobContext,
  queue: TurnQueue,
  slices: Slices,
  customerId: string,
  isInTime: () => boolean,
): Promise<boolean> {
  const turns = { queue, types: turnQueues[queue] };
  const job = await context.db.transaction(async (sql) => {
    // Sent together. The second statement's snapshot is taken after the first one's lock is there.
    const [, leased] = await Promise.all([awaitStarts(sql, customerId, turns), leaseJob(sql, customerId, turns)]);
    return leased;
  });
  const hasEnded = job && (await work(context, queue, job, slices[job.type]));
  return context.db.transaction(async (sql) => {
    if (job && hasEnded) await dropLease(sql, customerId, job);
    if (job && isInTime() && !(await othersWait(sql, customerId, turns))) return true;
    await wakeForRest(sql, queue, customerId);
    return false;
  });
}

/** Works at a slice until it has ended or has left its place. Returns whether it has ended. */
async function work(context: JobContext, queue: TurnQueue, job: LeasedJob, slice: Slice): Promise<boolean> {
  const left = Promise.withResolvers<false>();
  const ended = runSlice(context, job, slice, () => left.resolve(false)).then(() => true);
  const hasEnded = await Promise.race([ended, left.promise]);
  if (!hasEnded) {
    const rest = endInBackground(context, queue, job, ended).finally(() => context.background.delete(rest));
    context.background.add(rest);
  }
  return hasEnded;
}

/** Ends the lease of a slice whose turn is over, and has the next turn taken. */
async function endInBackground(
  { db, log }: JobContext,
  queue: TurnQueue,
  job: LeasedJob,
  ended: Promise<unknown>,
): Promise<void> {
  try {
    await ended;
    await db.transaction(async (sql) => {
      await dropLease(sql, job.customer_id, job);
      await wakeForRest(sql, queue, job.customer_id);
    });
  } catch (err) {
    // Its turn's end asked for a turn at the time when the lease ends by itself.
    log.warn({ err, job: job.id }, 'the rest of a slice went wrong');
  }
}

async function runSlice(context: JobContext, job: LeasedJob, slice: Slice, leavePlace: () => void): Promise<void> {
  const lease = keepLease(context, job);
  try {
    await slice(context, job, AbortSignal.any([context.stopping, lease.lost]), leavePlace);
  } catch (error) {
    await recover(context, job, error);
  } finally {
    lease.stop();
  }
}

/** Renews a lease now and then; `lost` is set when that is no longer possible. */
function keepLease({ db, log }: JobContext, job: LeasedJob): { lost: AbortSignal; stop: () => void } {
  const lost = new AbortController();
  const renew = async () => {
    if (!(await db.transaction((sql) => renewLease(sql, job.customer_id, job)))) lost.abort();
  };
  const timer = setInterval(() => {
    renew().catch((err: unknown) => log.warn({ err, job: job.id }, 'a lease was not renewed'));
  }, renewalMs);
  return { lost: lost.signal, stop: () => clearInterval(timer) };
}

/** After an error: what is not the job's fault is tried again for as long as it takes, what may be is tried a few times. */
async function recover({ db, log }: JobContext, job: LeasedJob, error: unknown): Promise<void> {
  const { customer_id: customerId, id, type, failures } = job;
  if (error instanceof LeaseLost) return log.info({ job: id, type }, 'another has the job, or it has ended');
  const isPassing = isUnavailable(error);
  log[isPassing ? 'warn' : 'error']({ err: error, job: id, type, failures }, 'a turn at a job went wrong');
  await db.transaction(async (sql) => {
    if (isPassing) return restJob(sql, customerId, job, { seconds: 2, failed: false });
    if (failures + 1 < mostFailures) return restJob(sql, customerId, job, { seconds: 2 ** failures, failed: true });
    if (await renewLease(sql, customerId, job)) await finish(sql, customerId, id, { status: 'FAILED', error: gaveUp });
  });
}

/** What went wrong is in the log only: it may tell what is not for customers. */
const gaveUp = 'The job failed again and again because of an error of the service';
