import type { Spender } from '../credentials/caller.ts';
import type { Transaction } from '../database/db.ts';
import { queueOf } from '../database/queues.ts';
import { reserveCredits } from '../queries/jobs/credits.ts';
import { insertInputs, type JobInput } from '../queries/jobs/job-inputs.ts';
import { insertJob, setJobTotal, type NewJob } from '../queries/jobs/jobs.ts';
import type { JobStarted } from '../schemas/jobs.ts';
import { enqueueTurn } from '../queries/records/turns.ts';

interface Given extends Omit<NewJob, 'api_key_id'> {
  inputs: JobInput[];
}

/**
 * Creates a job with its inputs, reserves its credits and enqueues it, in the caller's transaction.
 * @throws TooExpensive if the customer has fewer than the job may cost, or the spend cap of the key leaves fewer
 */
export async function startJob(sql: Transaction, spender: Spender, { inputs, ...given }: Given): Promise<JobStarted> {
  const job = await insertJob(sql, spender.customerId, { ...given, api_key_id: spender.apiKeyId });
  if (inputs.length > 0) await insertInputs(sql, spender.customerId, job.id, inputs);
  await enqueue(sql, spender, given, job.id);
  return job;
}

/** Number of items of a job, and the most that they can cost. */
export type Sizes = Pick<NewJob, 'total' | 'reserved'>;

/**
 * Like `startJob`, for a job whose size is known only when its inputs are stored.
 * @param storeInputs stores the inputs of the job with this id
 * @throws TooExpensive
 */
export async function startUnsizedJob(
  sql: Transaction,
  spender: Spender,
  given: Omit<NewJob, 'api_key_id' | 'total' | 'reserved'>,
  storeInputs: (jobId: string) => Promise<Sizes>,
): Promise<JobStarted> {
  const unsized = { ...given, total: 0, reserved: 0, api_key_id: spender.apiKeyId };
  const job = await insertJob(sql, spender.customerId, unsized);
  const sizes = await storeInputs(job.id);
  await setJobTotal(sql, spender.customerId, job.id, sizes);
  await enqueue(sql, spender, { ...given, ...sizes }, job.id);
  return job;
}

async function enqueue(
  sql: Transaction,
  { customerId, apiKeyId, maxCredits }: Spender,
  { type, pool, reserved }: Pick<NewJob, 'type' | 'pool' | 'reserved'>,
  jobId: string,
): Promise<void> {
  await enqueueTurn(sql, queueOf(type), customerId);
  await reserveCredits(sql, customerId, jobId, { pool, amount: reserved, apiKeyId, maxCredits });
}

/**
 * Converts a request's items to inputs with consecutive positions.
 * @param keyOf of two inputs with equal keys, the later is a duplicate
 */
export function toInputs<T>(
  given: readonly T[],
  toInput: (entry: T) => Pick<JobInput, 'item'> & Partial<JobInput>,
  keyOf = (item: string) => item,
): JobInput[] {
  const seen = new Set<string>();
  return given.map((entry, i) => {
    const input = { position: i + 1, address: null, contact_ids: [], ...toInput(entry) };
    return { ...input, is_duplicate: seen.size === seen.add(keyOf(input.item)).size };
  });
}
