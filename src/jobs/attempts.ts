import { afterCommit } from '../database/after-commit.ts';
import type { Database, Locked, Transaction } from '../database/db.ts';
import type { JobQueue, RunQueue } from '../database/queues.ts';
import { hasDueRun, lockRun, releaseRun, restRun, type Run, type Taken } from '../queries/jobs/runs.ts';
import { areOthersWaiting, enqueueTurn } from '../queries/records/turns.ts';

/** A run that a turn works at. */
export type Working<Q extends RunQueue = RunQueue> = Taken<Q> & { going: Going };
export type WorkingJob = Working<JobQueue>;
export type WorkingImport = Working<'import'>;

/** How a turn goes on after a batch. */
interface Going {
  /** True when the turn's time is up, or the worker is asked to stop. */
  isTimeUp(): boolean;
  /**
   * Set when the transaction of a batch has committed. `over`: the turn ends, and what is left is enqueued. `batch`: the
   * turn runs another batch. Undefined: not decided.
   */
  next?: 'batch' | 'over' | undefined;
}

/** The run has ended, or a later turn has taken it. The worker must stop processing it. */
export class AttemptLost extends Error {
  constructor() {
    super('The job or import has ended, or a later turn has taken it');
    this.name = 'AttemptLost';
  }
}

/**
 * Runs a transaction with the run's locked row.
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
 * Decides in the transaction of a batch whether its turn goes on: not if the run has ended, its time is up, or another
 * customer waits. Then enqueues what is left.
 * @param hasEnded true if the transaction ends the run
 */
export async function goOn(sql: Transaction, run: Working, hasEnded: boolean): Promise<void> {
  const { customer_id: customerId, queue, going } = run;
  const isOver = hasEnded || going.isTimeUp() || (await areOthersWaiting(sql, queue, customerId));
  if (isOver) await leave(sql, run, hasEnded ? { except: run.id } : {});
  afterCommit(sql, () => (going.next = isOver ? 'over' : 'batch'));
}

/**
 * Ends a turn. Enqueues the customer's next one if a run waits: this one, or another.
 * @param besides `except`: id of a run that does not wait
 */
export async function leave(sql: Transaction, run: Taken, besides: { except?: string } = {}): Promise<void> {
  // The next turn can begin before the queue knows that this one is over.
  await releaseRun(sql, run.customer_id, run);
  if (await hasDueRun(sql, run.customer_id, run.queue, { dead: [], ...besides })) await enqueueNext(sql, run);
}

/** Makes a locked run rest, and enqueues a turn for the end of the rest. */
export async function rest(sql: Transaction, run: Taken, pause: { seconds: number; failed?: boolean }): Promise<void> {
  await restRun(sql, run.customer_id, run, pause);
  await enqueueNext(sql, run, pause.seconds);
}

/** Turns after which a run is not young any more: the next ones come after those of young runs. */
const youngTurns = 5;

const enqueueNext = (
  sql: Transaction,
  { queue, customer_id: customerId, attempt }: Taken,
  seconds = 0,
): Promise<void> => enqueueTurn(sql, queue, customerId, { seconds, isLate: attempt >= youngTurns });
