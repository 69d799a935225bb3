import type { Transaction } from '../database/db.ts';
import { conflict } from '../errors.ts';
import { lockJob, skipOpenInputs } from '../queries/jobs/job-views.ts';
import { finalStatuses, type FinalStatus, type VisibleJobs } from '../schemas/jobs.ts';
import { endJob } from './settle.ts';

/**
 * Finished items keep their results, the others are skipped, and unspent credits are released.
 * @throws DomainError `not_found`; `conflict` if the job has already ended
 */
export async function cancelJob(sql: Transaction, customerId: string, id: string, visible: VisibleJobs): Promise<void> {
  const { id: locked, status } = await lockJob(sql, customerId, id, visible);
  if (finalStatuses.includes(status as FinalStatus)) throw conflict(`The job is already ${status}`);
  await skipOpenInputs(sql, customerId, locked);
  await endJob(sql, customerId, id, { status: 'CANCELLED' });
}
