import type { FastifyBaseLogger } from 'fastify';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../process/config.ts';
import { type Database, afterCommit, type Locked, type Queryable, type Transaction } from '../database/db.ts';
import type { JobKind, TurnKind, RunQueue } from '../database/queues.ts';
import type { JobQueue } from '../schemas/jobs.ts';
import type { Verifier } from '../verification/verifier.ts';
import { areOthersWaiting, enqueueTurn, holdTurn, mergeTurns } from '../queries/records/turns.ts';
import type { Message, Turn } from '../queries/records/turns.ts';
import { hasDueRun, lockRun, releaseRun, pauseRun, findNextInputs, takeRun } from '../queries/jobs/runs.ts';
import type { JobInput, Run, Taken } from '../queries/jobs/runs.ts';
import { chargeCredits, releaseCredits, subtractKeySpending } from '../queries/jobs/credits.ts';
import { addToJournal } from '../queries/records/journal.ts';
import { closeJob, saveResults, type Ending, type JobRow, type NewResult } from '../queries/jobs/jobs.ts';
import { isUnavailable } from '../errors.ts';
import { withLinkedAbort } from '../process/event-loop.ts';
import { endImport } from '../queries/jobs/imports.ts';
import type { TraceContext } from '../process/spans.ts';
import { inSpan } from '../process/tracing.ts';

export interface JobContext {
  config: Config;
  db: Database;
  allCustomersDb: Database;
  catalog: Catalog;
  verifier: Verifier;
  log: FastifyBaseLogger;
  /** Aborts when the worker is asked to stop. A long job must then end early, and another worker resumes it. */
  stopping: AbortSignal;
  /** Message that is being processed. Its signal aborts when the queue gives the message to another worker. */
  message?: Message & { signal: AbortSignal };
}

export type Payload<K extends JobKind> = K extends TurnKind ? Turn : Record<string, never>;

/** Processes one message of a queue. Must be idempotent: after an interruption, a message is delivered again. */
export type Handler<K extends JobKind> = (context: JobContext, data: Payload<K>) => Promise<void>;

type Working<Q extends RunQueue = RunQueue> = Taken<Q> & { going: Going };
export type WorkingJob = Working<JobQueue>;
export type WorkingImport = Working<'import'>;

interface Going {
  isTimeUp(): boolean;
  /**
   * What the worker does after the batch; set when the batch commits. `batch`: it runs another batch. `over`: its turn
   * ends, and the rest of the work is enqueued.
   */
  next?: 'batch' | 'over' | undefined;
}

/** Thrown to stop a worker whose run (job or import) has ended, or was taken by a later turn. */
export class AttemptLost extends Error {}

/**
 * Locks a run (job or import), and calls `write` with its row in one transaction.
 * @throws AttemptLost, with nothing written, if the run has ended or a later turn has taken it
 */
export const inAttempt = <Q extends RunQueue, T>(
  db: Pick<Database, 'transaction'>,
  run: Taken<Q>,
  write: (sql: Transaction, held: Locked<Run<Q>>) => Promise<T>,
): Promise<T> =>
  db.transaction(async (sql) => {
    // Locks the run's row first and the customer's balance last.
    const held = await lockRun(sql, run.customer_id, run);
    if (!held) throw new AttemptLost();
    return write(sql, held);
  });

/**
 * Decides, in a batch's transaction, whether the worker's turn continues. The turn ends if the run has ended, the
 * turn's time is up, or another customer waits. The rest of the work is then enqueued.
 * @param hasEnded true if this transaction ends the run
 */
async function endOrContinueTurn(sql: Transaction, run: Working, hasEnded: boolean): Promise<void> {
  const { customer_id: customerId, queue, going } = run;
  const isOver = hasEnded || going.isTimeUp() || (await areOthersWaiting(sql, queue, customerId));
  if (isOver) await endTurn(sql, run, hasEnded ? { except: run.id } : {});
  afterCommit(sql, () => (going.next = isOver ? 'over' : 'batch'));
}

/**
 * Ends a turn: releases the run, and enqueues the customer's next turn if any run waits.
 * @param besides `except`: id of a run that does not count
 */
async function endTurn(sql: Transaction, run: Taken, besides: { except?: string } = {}): Promise<void> {
  // The next turn can begin before the queue knows that this one is over.
  await releaseRun(sql, run.customer_id, run);
  if (await hasDueRun(sql, run.customer_id, run.queue, besides)) await enqueueNext(sql, run);
}

async function pauseAndEnqueue(sql: Transaction, run: Taken, pause: { seconds: number; failed?: boolean }) {
  await pauseRun(sql, run.customer_id, run, pause);
  await enqueueNext(sql, run, pause.seconds);
}

/** Number of turns for which a new run has priority: they come before the later turns of other runs. */
const youngTurns = 5;

const enqueueNext = (sql: Transaction, { queue, customer_id: customerId, attempt }: Taken, seconds = 0) =>
  enqueueTurn(sql, queue, customerId, { seconds, isLate: attempt >= youngTurns });

export interface BatchResults {
  /** Results of the batch. A result is ignored, and not charged, if its input already has one. */
  results: NewResult[];
  /**
   * Progress to store with the job, such as the position at which the next batch resumes. Undefined: the stored
   * progress stays.
   */
  progress?: object;
  /** True: the job becomes COMPLETED once every input has a result. False: it does not, because other work is left. */
  mayComplete: boolean;
  pauseForSeconds?: number;
}

/**
 * Ends a batch in one transaction: stores its results, charges credits, and completes the job if no work is left.
 * Updates `working` for the next batch.
 * @param deliver returns the results for the locked job, and may write other data in the same transaction. The cost of
 * the results must not exceed `reserved - charged`
 * @throws AttemptLost, with nothing written, if the job has ended or a later turn has taken it
 */
export async function settle(
  { db, log }: Pick<JobContext, 'db' | 'log'>,
  working: WorkingJob,
  deliver: (sql: Transaction, job: Locked<JobRow>) => Promise<BatchResults>,
) {
  const settled = await inAttempt(db, working, async (sql, held) => {
    const { mayComplete, pauseForSeconds, ...delivered } = await deliver(sql, held);
    const { charge, ...job } = await saveResults(sql, held.customer_id, held.id, delivered);
    // The rows decide, not the number of results sent: a job must not end while an input has no result.
    const isCompleted = mayComplete && (await nextInputsOf(sql, job, 1)).length === 0;
    if (pauseForSeconds !== undefined && !isCompleted)
      await pauseAndEnqueue(sql, working, { seconds: pauseForSeconds });
    else await endOrContinueTurn(sql, working, isCompleted);
    if (isCompleted) await endJob(sql, job.customer_id, job.id, { status: 'COMPLETED' }, charge);
    else await chargeCredits(sql, job.customer_id, job.id, { pool: job.pool, amount: charge });
    return { ...job, isCompleted };
  });
  Object.assign(working, settled);
  const { isCompleted, succeeded, failed, skipped, charged } = settled;
  if (isCompleted) log.info({ succeeded, failed, skipped, charged }, 'a job is completed');
  return settled;
}

/**
 * Returns the position of the last input before which all inputs of a job have results. Later inputs may have results,
 * too.
 */
export const completedUpTo = ({ progress }: JobRow): number =>
  (progress as { position?: number } | null)?.position ?? 0;

export const nextInputsOf = (sql: Queryable, job: JobRow, limit: number): Promise<JobInput[]> =>
  findNextInputs(sql, job.customer_id, job.id, { after: completedUpTo(job), limit });

/**
 * Ends a job: sets its final status, charges credits and releases unspent ones.
 * @param charge credits for results that the same transaction stores
 * @returns false, with nothing written, if the job had already ended
 */
export async function endJob(
  sql: Transaction,
  customerId: string,
  jobId: string,
  ending: Ending,
  charge = 0,
): Promise<boolean> {
  const closed = await closeJob(sql, customerId, jobId, ending);
  if (!closed) return false;
  const { type, succeeded, failed, skipped, charged } = closed;
  const data = { id: jobId, type, status: ending.status, succeeded, failed, skipped, charged };
  const origin = { source: 'job' as const, changeId: jobId, ...(closed.actor && { actor: closed.actor }) };
  addToJournal(sql, customerId, [{ type: 'job.ended', data, origin }]);
  const { api_key_id: apiKeyId, pool, refunded } = closed;
  if (apiKeyId !== null) await subtractKeySpending(sql, customerId, jobId, { apiKeyId, pool, amount: refunded });
  await chargeCredits(sql, customerId, jobId, { pool, amount: charge });
  await releaseCredits(sql, customerId, jobId, { pool, amount: refunded });
  return true;
}

/**
 * Runs one batch of a job or import, in a few seconds. Must be idempotent, because a batch is repeated after an error
 * or crash. Must not catch errors of `settle`, except `unavailable`.
 * @param signal aborts when the batch must stop early: the worker is asked to stop, or has lost its message
 */
export type RunBatch<Q extends RunQueue> = (context: JobContext, run: Working<Q>, signal: AbortSignal) => Promise<void>;

export type JobBatch = RunBatch<JobQueue>;

export type RunBatches<Q extends RunQueue> = Record<Run<Q>['type'], RunBatch<Q>>;

/** Number of errors in a row, without progress between them, after which a job or import becomes FAILED. */
const maxFailures = 5;

const turnSeconds = 10;

const pauseSeconds = 1;

/**
 * Returns the handler of a queue's messages. It takes one run (job or import) of the customer, and runs batches of it
 * until the run ends, another customer waits or time is up.
 * @param seconds time limit of a turn; 0 for exactly one batch
 */
export const takeTurn =
  <Q extends RunQueue>(queue: Q, batches: RunBatches<Q>, seconds = turnSeconds): Handler<Q> =>
  async (context, { customerId }) => {
    const end = performance.now() + seconds * 1000;
    const going: Working['going'] = { isTimeUp: () => context.stopping.aborted || performance.now() >= end };
    const run = await takeFreeRun(context, queue, customerId);
    if (!run) return;
    const working = { ...run, going };
    do await runBatch(context, working, batches[run.type as Run<Q>['type']]);
    while (going.next === 'batch');
    if (going.next === undefined) await context.db.transaction((sql) => endTurn(sql, run));
  };

const takeFreeRun = <Q extends RunQueue>({ db, message }: JobContext, queue: Q, customerId: string) =>
  db.transaction(async (sql) => {
    // A worker that was frozen here must not take the run from the worker that got its message.
    if (message && !(await holdTurn(sql, queue, message))) return undefined;
    await mergeTurns(sql, queue, customerId);
    const turn = message?.id ?? null;
    const run = await takeRun(sql, customerId, queue, turn);
    if (!run && (await hasDueRun(sql, customerId, queue, { turn })))
      await enqueueTurn(sql, queue, customerId, { seconds: pauseSeconds, isLate: true });
    return run;
  });

const nounOf = ({ type }: Run): 'import' | 'job' => (type === 'import' ? type : 'job');

async function runBatch<Q extends RunQueue>(outer: JobContext, run: Working<Q>, batch: RunBatch<Q>): Promise<void> {
  const id = { [`${nounOf(run)}_id`]: run.id };
  const request = run.request_id === null ? {} : { reqId: run.request_id };
  const context = { ...outer, log: outer.log.child({ ...id, ...request, type: run.type }) };
  const span = {
    name: `job ${run.type}`,
    attributes: { [`sales_data.${nounOf(run)}_id`]: run.id, 'sales_data.customer': run.customer_id },
    cause: ('request' in run ? run.request : {}) as TraceContext,
  };
  run.going.next = undefined;
  await withLinkedAbort(context.stopping, async (ending) => {
    const { signal } = context.message ?? {};
    signal?.addEventListener('abort', () => ending.abort());
    if (signal?.aborted) ending.abort();
    try {
      await inSpan(span, () => batch(context, run, ending.signal));
      context.log.debug('a batch of a job ended');
    } catch (error) {
      run.going.next = undefined;
      await handleBatchError(context, run, error);
    }
  });
}

// Errors of an unavailable service do not count, so they are retried without limit.
async function handleBatchError({ db, log }: JobContext, run: Taken, error: unknown): Promise<void> {
  const isPassing = isUnavailable(error);
  let isLost = error instanceof AttemptLost;
  try {
    if (!isLost) isLost = !(await db.transaction((sql) => storeFailure(sql, run, isPassing)));
  } finally {
    if (isLost) log.info('the attempt is over: the job has ended, or another turn has taken it');
    else log[isPassing ? 'warn' : 'error']({ err: error }, 'a batch of a job failed');
  }
}

/**
 * Pauses a run after an error, or sets it to FAILED after `maxFailures` errors.
 * @param isPassing true for an error that does not count, such as an unavailable service
 * @returns false, with nothing written, if the run has ended or another turn has taken it
 */
async function storeFailure(sql: Transaction, run: Taken, isPassing: boolean): Promise<boolean> {
  const { customer_id: customerId } = run;
  const row = await lockRun(sql, customerId, run);
  if (!row) return false;
  const { failures } = row; // results that were saved since the turn began have set it to 0
  if (isPassing) await pauseAndEnqueue(sql, run, { seconds: 2 });
  else if (failures + 1 < maxFailures) await pauseAndEnqueue(sql, run, { seconds: 2 ** failures, failed: true });
  else {
    const end = run.type === 'import' ? endImport : endJob;
    await end(sql, customerId, row.id, { status: 'FAILED', error: gaveUpMessage(run) });
  }
  return true;
}

/**
 * Returns the error that customers see after internal errors. The cause is only logged, because it may reveal internal
 * details.
 */
const gaveUpMessage = (run: Run) => `The ${nounOf(run)} failed repeatedly because of an internal error of the service`;

/** Milliseconds after which a turn starts no further batch, so that other customers come first. */
const turnMs = 1_000;

/**
 * Creates a handler that runs batches for one customer, each in its own transaction, until no work is left. After the
 * time limit, it enqueues the rest behind other customers.
 * @param doBatch returns false if no work was left
 */
export const runBatches =
  (
    queue: Exclude<TurnKind, RunQueue>,
    doBatch: (sql: Transaction, customerId: string) => Promise<boolean>,
  ): Handler<TurnKind> =>
  async ({ db, stopping }, { customerId }) => {
    const end = performance.now() + turnMs;
    const batch = () =>
      db.transaction(async (sql) => {
        await mergeTurns(sql, queue, customerId);
        return doBatch(sql, customerId);
      });
    while (await batch())
      if (stopping.aborted || performance.now() >= end)
        return db.transaction((sql) => enqueueTurn(sql, queue, customerId));
  };

/** Runs `step` in new transactions until it returns 0 or false. Returns the sum of its results; true counts as 1. */
export async function repeat(
  { db, stopping }: JobContext,
  step: (sql: Transaction) => Promise<number | boolean>,
): Promise<number> {
  let sum = 0;
  while (!stopping.aborted) {
    const done = Number(await db.transaction(step));
    if (done === 0) break;
    sum += done;
  }
  return sum;
}
