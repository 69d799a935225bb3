import type { Spender } from '../credentials/caller.ts';
import type { Transaction } from '../database/db.ts';
import { queueOf } from '../database/queues.ts';
import { reserveCredits } from '../queries/jobs/credits.ts';
import { insertInputs, type JobInput } from '../queries/jobs/job-inputs.ts';
import { insertJob, type NewJob } from '../queries/jobs/jobs.ts';
import type { JobStarted } from '../schemas/jobs.ts';
import { enqueueTurn } from '../queries/records/turns.ts';

interface Given extends Omit<NewJob, 'api_key_id'> {
  inputs: JobInput[];
}

/**
 * Creates a job with its inputs, reserves its credits and enqueues it, in the caller's transaction.
 * @throws TooExpensive if the customer has fewer than the job may cost, or the spend cap of the key leaves fewer
 */
export async function startJob(
  sql: Transaction,
  { customerId, apiKeyId, maxCredits }: Spender,
  { inputs, ...given }: Given,
): Promise<JobStarted> {
  const { pool, reserved } = given;
  const job = await insertJob(sql, customerId, { ...given, api_key_id: apiKeyId });
  if (inputs.length > 0) await insertInputs(sql, customerId, job.id, inputs);
  await enqueueTurn(sql, queueOf(given.type), customerId);
  await reserveCredits(sql, customerId, job.id, { pool, amount: reserved, apiKeyId, maxCredits });
  return job;
}

/**
 * Converts a request's items to inputs with consecutive positions.
 * @param keyOf of two items with equal keys, the later is a duplicate
 * @returns the inputs, and the number of distinct items
 */
export function toInputs<T>(
  given: readonly T[],
  keyOf: (entry: T) => string,
  toInput: (entry: T) => Pick<JobInput, 'item' | 'address' | 'contact_ids'>,
): { inputs: JobInput[]; distinct: number } {
  const seen = new Set<string>();
  const inputs = given.map((entry, i) => {
    const key = keyOf(entry);
    const is_duplicate = seen.has(key);
    seen.add(key);
    return { position: i + 1, ...toInput(entry), is_duplicate };
  });
  return { inputs, distinct: seen.size };
}
