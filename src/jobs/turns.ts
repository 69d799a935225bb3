import { randomUUID } from 'node:crypto';
import type { Transaction } from '../database/db.ts';
import type { JobQueue, RunQueue } from '../database/queues.ts';
import { isUnavailable } from '../errors.ts';
import { withOwnAbort } from '../process/own-abort.ts';
import { endImport } from '../queries/imports/imports.ts';
import { hasDueRun, lockRun, releaseRun, takeRun, type Run, type Taken } from '../queries/jobs/runs.ts';
import { enqueueTurn, findTakenTurns, holdTurn, mergeTurns } from '../queries/records/turns.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { inSpan } from '../tracing/tracing.ts';
import { AttemptLost, leave, rest, type Working } from './attempts.ts';
import type { Handler, JobContext } from './handler.ts';
import { endJob } from './settle.ts';

/** What takes a run, and stores how its batches end. */
export type RunContext = Pick<JobContext, 'db' | 'log' | 'stopping' | 'message'>;

/**
 * Runs one batch, in a few seconds. Stores its results if no later turn has taken the run, and ends the run when all work
 * is done.
 *
 * Must be idempotent, because a batch may be repeated after an error or crash. Must not catch errors of `settle`; only
 * after an `unavailable` it may store the same results later.
 * @param signal aborted when the batch must stop early: the worker is asked to stop, or has lost its message
 */
export type RunBatch<Q extends RunQueue, C extends RunContext = JobContext> = (
  context: C,
  run: Working<Q>,
  signal: AbortSignal,
) => Promise<void>;

export type JobBatch = RunBatch<JobQueue>;

export type RunBatches<Q extends RunQueue> = Record<Run<Q>['type'], RunBatch<Q>>;

/** After so many errors in a row, with no progress between them, a job or import becomes FAILED. */
const maxFailures = 5;

/** Maximum time of a turn, even if no other customer waits. */
const turnSeconds = 10;

/** Time before a customer's next turn if the only runs that are free are locked, e.g. by a worker that is frozen. */
const pauseSeconds = 1;

/**
 * Handles a message: takes one run of the customer, and runs a batch of it, and more as long as no other customer waits.
 * @param seconds time limit of a turn. With 0, exactly one batch
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
    if (going.next === undefined) await context.db.transaction((sql) => leave(sql, run));
  };

/** Takes a run for a turn. If the runs that are free are locked, enqueues another turn. */
const takeFreeRun = <Q extends RunQueue>(
  { db, message }: RunContext,
  queue: Q,
  customerId: string,
): Promise<Taken<Q> | undefined> =>
  db.transaction(async (sql) => {
    // A worker that was frozen here must not take the run from the worker that got its message.
    if (message && !(await holdTurn(sql, queue, message))) return undefined;
    await mergeTurns(sql, queue, customerId);
    const holder = { turn: message?.id ?? null, dead: message ? [message.id] : [] };
    const run = await takeRun(sql, customerId, queue, holder);
    if (!run && (await hasDueRun(sql, customerId, queue, holder)))
      await enqueueTurn(sql, queue, customerId, { seconds: pauseSeconds, isLate: true });
    return run;
  });

interface Alone {
  customerId: string;
  /** Id of the only import to process. */
  only?: string | undefined;
  /** Also takes an import that another process has taken and not released, unless that process has a message. */
  takesOver?: boolean | undefined;
}

/**
 * Takes an import and runs one batch of it, without a message: any turn may take the import from it. Does not enqueue the
 * remaining work.
 * @returns false if none is free
 */
export async function runWithoutTurn<C extends RunContext>(
  context: C,
  { customerId, only, takesOver = false }: Alone,
  batch: RunBatch<'import', C>,
): Promise<boolean> {
  const run = await context.db.transaction(async (sql) => {
    const found = await findTakenTurns(sql, 'import', customerId, { areDead: !takesOver });
    const holders = takesOver ? { active: found } : { dead: found };
    return takeRun(sql, customerId, 'import', { turn: randomUUID(), only, ...holders });
  });
  if (!run) return false;
  const going: Working['going'] = { isTimeUp: () => true };
  await runBatch(context, { ...run, going }, batch);
  await context.db.transaction((sql) => releaseRun(sql, customerId, run));
  return true;
}

/** For customers and logs. */
const nounOf = ({ type }: Run): 'import' | 'job' => (type === 'import' ? type : 'job');

async function runBatch<Q extends RunQueue, C extends RunContext>(
  outer: C,
  run: Working<Q>,
  batch: RunBatch<Q, C>,
): Promise<void> {
  const id = { [`${nounOf(run)}_id`]: run.id };
  const request = run.request_id === null ? {} : { reqId: run.request_id };
  const context = { ...outer, log: outer.log.child({ ...id, ...request, type: run.type }) };
  const span = {
    name: `job ${run.type}`,
    attributes: { [`sales_data.${nounOf(run)}_id`]: run.id, 'sales_data.customer': run.customer_id },
    cause: ('request' in run ? run.request : {}) as TraceContext,
  };
  run.going.next = undefined;
  await withOwnAbort(context.stopping, async (ending) => {
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

/**
 * Schedules a retry, or sets the run to FAILED after five errors without progress in between. Errors of an unavailable
 * service do not count, so those are retried without limit.
 */
async function handleBatchError({ db, log }: RunContext, run: Taken, error: unknown): Promise<void> {
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
 * Makes a run rest after an error, or sets it to FAILED.
 * @param isPassing true if the error does not count
 * @returns false, with nothing written, if the run has ended or another turn has taken it
 */
async function storeFailure(sql: Transaction, run: Taken, isPassing: boolean): Promise<boolean> {
  const { customer_id: customerId } = run;
  const row = await lockRun(sql, customerId, run);
  if (!row) return false;
  const { failures } = row; // results that were saved since the turn began have set it to 0
  if (isPassing) await rest(sql, run, { seconds: 2 });
  else if (failures + 1 < maxFailures) await rest(sql, run, { seconds: 2 ** failures, failed: true });
  else {
    const end = run.type === 'import' ? endImport : endJob;
    await end(sql, customerId, row.id, { status: 'FAILED', error: gaveUpMessage(run) });
  }
  return true;
}

/** What customers see after internal errors. The cause is only in the log, because it may contain internal details. */
const gaveUpMessage = (run: Run): string =>
  `The ${nounOf(run)} failed repeatedly because of an internal error of the service`;
