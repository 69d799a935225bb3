import { AsyncLocalStorage } from 'node:async_hooks';
import { PgBoss } from 'pg-boss';
import type { Transaction } from '../database/db.ts';
import { queueSchema, type JobKind } from '../database/queues.ts';

/** The message of a turn: one worker's go at the jobs of this customer. */
export interface Turn {
  customerId: string;
}

/** The data of a queue message, for each kind of job. */
export interface JobPayloads extends Record<JobKind, object> {
  unlock: Turn;
  verify: Turn;
  'settle-companies': Turn;
  'fill-lists': Turn;
  'sweep-jobs': Record<string, never>;
  'remove-idempotency-records': Record<string, never>;
}

/** The kinds of jobs whose messages are turns of a customer. */
export type TurnKind = { [K in JobKind]: JobPayloads[K] extends Turn ? K : never }[JobKind];

/** Options that stop a job from being enqueued twice. */
interface OnceOptions {
  /** Of several jobs with the same key, only one waits in the queue at a time. */
  singletonKey: string;
  /** Delay in seconds before a worker may take the job. */
  startAfter?: number;
}

/**
 * Enqueues a job in the caller's transaction. Workers see the job when that transaction commits; a rollback removes it.
 * @returns false if a job with the same key already waits; nothing is enqueued then
 */
export const enqueueOnce = async <K extends JobKind>(
  sql: Transaction,
  kind: K,
  data: JobPayloads[K],
  once: OnceOptions,
): Promise<boolean> => (await send(sql, kind, data, once)) !== null;

/**
 * Enqueues one turn for each customer that has none queued.
 * @returns the number of turns enqueued
 */
export async function enqueueTurns(sql: Transaction, queue: TurnKind, customerIds: string[]): Promise<number> {
  const messages = customerIds.map((customerId) => ({ data: { customerId }, singletonKey: customerId }));
  const ids = await asking.run(sql, () => sender.insert(queue, messages, { returnId: true }));
  return ids?.length ?? 0;
}

const asking = new AsyncLocalStorage<Transaction>();

/**
 * Sends the messages of all transactions. It is shared because it caches what it reads about the queues. Each call's
 * statements run in the transaction that made the call. The sender is never started and has no connection of its own.
 */
const sender = new PgBoss({
  db: {
    executeSql: async (text, values = []) => ({
      rows: await asking.getStore()!.unsafe(text, values as string[], prepared),
    }),
  },
  schema: queueSchema,
  migrate: false,
  supervise: false,
  schedule: false,
});

/** Prepares the statements: all messages share a few statement texts. */
const prepared = { prepare: true };

const send = (sql: Transaction, kind: JobKind, data: object, once: OnceOptions): Promise<string | null> =>
  asking.run(sql, () => sender.send(kind, data, once));
