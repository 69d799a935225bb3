import type { Transaction } from '../db.ts';
import { conflict } from '../errors.ts';
import { lockJob, skipRest, type Visible } from '../queries/service-jobs.ts';
import { finalStatuses, type FinalStatus } from '../schemas/jobs.ts';
import { finish } from './settle.ts';

/**
 * Cancels a job. Finished items keep their results, open items are skipped, and the unspent credits are released. A
 * worker that is processing the job loses its lease.
 * @throws not_found; conflict when the job has already ended
 */
export async function cancelJob(sql: Transaction, customerId: string, id: string, visible: Visible): Promise<void> {
  const status = await lockJob(sql, customerId, id, visible);
  if (finalStatuses.includes(status as FinalStatus)) throw conflict(`The job is already ${status}`);
  await skipRest(sql, customerId, id);
  await finish(sql, customerId, id, { status: 'CANCELLED' });
}
