import type { Sql, Transaction } from '../database/db.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { findSettlingCustomers } from '../queries/company-settlements.ts';
import { findImportingCustomers } from '../queries/import-turns.ts';
import { findWaitingCustomers } from '../queries/job-leases.ts';
import { findFillingCustomers } from '../queries/list-fills.ts';
import { enqueueTurn } from '../queries/turns.ts';
import type { TurnKind } from '../queries/turns.ts';

/** Finds customers with waiting work. Returns one page of their ids, in ascending order. */
type FindCustomers = (sql: Sql, batch: { after: string; limit: number }) => Promise<string[]>;

const jobsIn =
  (queue: TurnQueue): FindCustomers =>
  (sql, batch) =>
    findWaitingCustomers(sql, turnQueues[queue], batch);

/** For each queue that is processed in turns, the function that finds the customers who have work waiting in it. */
export const waitingWork: Record<TurnKind, FindCustomers> = {
  unlock: jobsIn('unlock'),
  verify: jobsIn('verify'),
  'settle-companies': findSettlingCustomers,
  'fill-lists': findFillingCustomers,
  import: findImportingCustomers,
};

export const turnKinds = Object.keys(waitingWork) as TurnKind[];

/** Enqueues a turn for a customer in each queue. Used after a suspension, in which workers dropped the turns. */
export async function enqueueAllTurns(sql: Transaction, customerId: string): Promise<void> {
  for (const queue of turnKinds) await enqueueTurn(sql, queue, customerId);
}
