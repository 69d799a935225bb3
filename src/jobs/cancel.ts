import type { Transaction } from '../db.ts';
import { conflict } from '../errors.ts';
import { lockJob, skipRest, type Visible } from '../queries/service-jobs.ts';
import { finalStatuses, type FinalStatus } from '../schemas/jobs.ts';
import { finish } from './settle.ts';

/**
 * Cancels a job: what is delivered stays, what is left is skipped, and its credits are given back. A turn that is at it finds
 * its lease gone.
 * @throws not_found; conflict when the job has ended
 */
export async function cancelJob(sql: Transaction, customerId: string, id: string, visible: Visible): Promise<void> {
  const status = await lockJob(sql, customerId, id, visible);
  if (finalStatuses.includes(status as FinalStatus)) throw conflict(`The job is ${status} already`);
  await skipRest(sql, customerId, id);
  await finish(sql, customerId, id, { status: 'CANCELLED' });
}
