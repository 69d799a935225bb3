import { AsyncLocalStorage } from 'node:async_hooks';
import { PgBoss } from 'pg-boss';
import type { Transaction } from '../db.ts';
import { queueSchema, type JobKind } from '../queues.ts';

/** A turn of a customer: a piece of work at one of its jobs. */
export interface Turn {
  customerId: string;
}

/** What a job of each kind is told. */
export interface Jobs extends Record<JobKind, object> {
  unlock: Turn;
  verify: Turn;
  'settle-companies': Turn;
  'fill-lists': Turn;
  'sweep-jobs': Record<string, never>;
  'remove-idempotency-records': Record<string, never>;
}

/** Kinds of jobs that are turns of customers. */
export type TurnKind = { [K in JobKind]: Jobs[K] extends Turn ? K : never }[JobKind];

/** When a job may wait only once. */
interface Once {
  /** Of jobs with the same key only one waits at a time. */
  singletonKey: string;
  /** Seconds from now before which it is not taken. */
  startAfter?: number;
}

/**
 * Enqueues a job in the caller's transaction: it is there when that commits, and never otherwise.
 * @returns whether none of its key was waiting already
 */
export const enqueueOnce = async <K extends JobKind>(
  sql: Transaction,
  kind: K,
  data: Jobs[K],
  once: Once,
): Promise<boolean> => (await send(sql, kind, data, once)) !== null;

/**
 * Has a turn of each of these customers waited for, where none is yet.
 * @returns how many there were of those
 */
export async function enqueueWaiting(sql: Transaction, queue: TurnKind, customerIds: string[]): Promise<number> {
  const messages = customerIds.map((customerId) => ({ data: { customerId }, singletonKey: customerId }));
  const ids = await asking.run(sql, () => sender.insert(queue, messages, { returnId: true }));
  return ids?.length ?? 0;
}

const asking = new AsyncLocalStorage<Transaction>();

/**
 * One for all transactions, for it keeps what it has read about the queues; each call's statements go to the transaction
 * that the call was made in. It is never started, and has no connection of its own.
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

/** Every message has the same few texts. */
const prepared = { prepare: true };

const send = (sql: Transaction, kind: JobKind, data: object, once: Once): Promise<string | null> =>
  asking.run(sql, () => sender.send(kind, data, once));
