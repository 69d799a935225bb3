import { PgBoss, type Db } from 'pg-boss';
import type { Transaction } from '../db.ts';
import type { Fill } from '../queries/list-fills.ts';
import { queueSchema, type JobKind } from '../queues.ts';

/** What a job of each kind is told. */
export interface Jobs extends Record<JobKind, object> {
  'fill-list': Fill;
  'remove-idempotency-records': Record<string, never>;
}

/** Enqueues a job in the caller's transaction: it is there when that commits, and never otherwise. */
export async function enqueue<K extends JobKind>(sql: Transaction, kind: K, data: Jobs[K]): Promise<string> {
  const boss = new PgBoss({ db: through(sql), schema: queueSchema, migrate: false, supervise: false, schedule: false });
  const id = await boss.send(kind, data);
  if (id === null) throw new Error(`The queue ${kind} refused a job`);
  return id;
}

/** Lets the queue run its statements on a transaction of ours. */
const through = (sql: Transaction): Db => ({
  executeSql: async (text, values = []) => ({ rows: await sql.unsafe(text, values as string[]) }),
});
