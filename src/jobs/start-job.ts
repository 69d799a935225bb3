import type { Queryable, Transaction, Locked } from '../database/db.ts';
import { findUnlocked } from '../queries/jobs/unlocks.ts';
import { isEmailAddress } from '../schemas/formats.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { fold } from '../text/fold.ts';
import type { Spender } from '../access/credentials.ts';
import { queueOf } from '../database/queues.ts';
import { findSpendable, reserveCredits } from '../queries/jobs/credits.ts';
import { insertInputs, type JobInput, copyOpenInputs, isRetained } from '../queries/jobs/runs.ts';
import { insertJob, setJobTotal, lockJob, skipOpenInputs } from '../queries/jobs/jobs.ts';
import type { NewJob, JobRow } from '../queries/jobs/jobs.ts';
import { finalStatuses, poolOf } from '../schemas/jobs.ts';
import type { Estimate, JobStarted, FinalStatus, VisibleJobs } from '../schemas/jobs.ts';
import { enqueueTurn } from '../queries/records/turns.ts';
import { conflict } from '../errors.ts';
import { endJob, type JobBatch } from './turns.ts';
import type { Config } from '../process/config.ts';
import type { FastifyRequest } from 'fastify';

/*
 * What unlocks cost. `cost` is the price of one person in credits, as configured when the job started. A start reserves
 * the most that its job can cost, by what is known then.
 */

export const priceOf = (cost: number, person: Prospect): number => (isFree(person) ? 0 : cost);

/**
 * Returns true for a person without an e-mail address, or whose only address is known to be invalid. Unlocking such a
 * person is free.
 */
function isFree({ work_email, emails, verification_status }: Prospect): boolean {
  const invalid = verification_status === 'invalid' ? fold(work_email) : undefined;
  return ![work_email, ...emails].some((email) => isEmailAddress(email) && fold(email) !== invalid);
}

export async function maxCostOfChosen(
  sql: Queryable,
  customerId: string,
  cost: number,
  ids: readonly string[],
  known: readonly Prospect[],
): Promise<number> {
  const free = new Set(known.filter(isFree).map(({ _id }) => _id));
  const wanted = [...new Set(ids).difference(free)];
  return cost * (wanted.length - (await findUnlocked(sql, customerId, wanted)).size);
}

export const maxWithin = (cost: number, people: number, maxCredits: number): number =>
  cost === 0 ? 0 : Math.min(people, Math.floor(maxCredits / cost)) * cost;

export interface Plan extends Omit<NewJob, 'api_key_id'> {
  /** The inputs, or a function that stores them and returns the size of the job, which is known only then. */
  inputs: JobInput[] | ((sql: Transaction, jobId: string) => Promise<Sizes>);
  matches: number;
  /** Number of records that the job writes at most. Default: `total`. */
  records?: number;
}

export async function estimateOf(sql: Queryable, spender: Spender, plan: Plan): Promise<Estimate> {
  const { matches, reserved: cost, type } = plan;
  return { matches, cost, available: await findSpendable(sql, spender, poolOf(type)) };
}

/**
 * Creates a job with its inputs, reserves its credits and enqueues it, in the caller's transaction.
 * @throws TooExpensive if the customer's credits, or the spend cap of the API key, do not cover the maximum cost
 */
export async function startJob(
  sql: Transaction,
  spender: Spender,
  { inputs, ...given }: Omit<Plan, 'matches' | 'records'>,
): Promise<JobStarted> {
  const { customerId, apiKeyId, maxCredits } = spender;
  const { type } = given;
  let { reserved } = given;
  const job = await insertJob(sql, customerId, { ...given, api_key_id: apiKeyId });
  if (typeof inputs === 'function') {
    const sizes = await inputs(sql, job.id);
    await setJobTotal(sql, customerId, job.id, sizes);
    ({ reserved } = sizes);
  } else if (inputs.length > 0) await insertInputs(sql, customerId, job.id, inputs);
  await enqueueTurn(sql, queueOf(type), customerId);
  await reserveCredits(sql, customerId, job.id, { pool: poolOf(type), amount: reserved, apiKeyId, maxCredits });
  return job;
}

type Sizes = Pick<NewJob, 'total' | 'reserved'>;

export const unsized: Sizes = { total: 0, reserved: 0 };

/**
 * Converts the items of a request to job inputs, numbered from 1. Marks an input as duplicate if an earlier one has the
 * same key.
 * @param keyOf returns the key of an item
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

/**
 * Cancels a job. Finished items keep their results, the others are skipped, and unspent credits are released.
 * @throws DomainError `not_found`; `conflict` if the job has already ended
 */
export async function cancelJob(sql: Transaction, customerId: string, id: string, visible: VisibleJobs): Promise<void> {
  const { id: locked, status } = await lockJob(sql, customerId, id, visible);
  if (finalStatuses.includes(status as FinalStatus)) throw conflict(`The job is already ${status}`);
  await skipOpenInputs(sql, customerId, locked);
  await endJob(sql, customerId, id, { status: 'CANCELLED' });
}

export interface JobCode {
  start?: JobStart;
  batch: JobBatch;
  /** Stores the inputs of a job that retries this one, and returns its size. */
  remaining(sql: Transaction, job: Locked<JobRow>, retryId: string): Promise<Sizes>;
}

/** What a plan needs of a request. */
export interface PlanServices extends Pick<FastifyRequest, 'db' | 'catalog'> {
  caller: { customerId: string };
  server: { config: Config };
}

export interface JobStart<Body = unknown, Found = unknown> {
  /** Finds what the plan needs, before the transaction. */
  find?(services: PlanServices, body: Body): Promise<Found>;
  plan(sql: Transaction, spender: Spender, config: Config, body: Body, found: Found): Promise<Plan>;
  toEstimate?(estimate: Estimate): object;
}

/**
 * Copies the inputs of a job that have no result to its retry.
 * @throws DomainError `conflict` if the inputs were deleted
 */
export async function takeOpenInputs(sql: Transaction, job: Locked<JobRow>, to: string) {
  if (!(await isRetained(sql, job.customer_id, job.id)))
    throw conflict('The job ended more than 30 days ago: its inputs are no longer stored. Start a new job');
  return copyOpenInputs(sql, job.customer_id, { from: job.id, to });
}
