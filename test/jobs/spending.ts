import { expect } from 'vitest';
import type { Job, JobItem } from '../../src/schemas/jobs.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import type { TestApp } from '../setup/app.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';
import { creditsOf, read, select, unlock } from './calls.ts';

async function idOf(start: Promise<Answer>): Promise<string> {
  const answer = await start;
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200, body: { status: 'PENDING' } });
  return answer.body.id;
}

/** Starts an unlock by filters and returns the job's id. */
export const startUnlock = (customer: TestCustomer, body: object): Promise<string> => idOf(unlock(customer, body));

/** Starts an unlock of selected prospects and returns the job's id. */
export const startSelected = (customer: TestCustomer, ids: string[], sync_crm = false): Promise<string> =>
  idOf(select(customer, { ids, sync_crm }));

/** Returns a job as its customer sees it. */
export const readJob = async (customer: TestCustomer, id: string): Promise<Job> => (await read(customer, id)).body;

/** Waits until a job has ended and returns it. */
export async function ended(customer: TestCustomer, id: string): Promise<Job> {
  await expect
    .poll(async () => (await readJob(customer, id)).finished_at, { timeout: 120_000, interval: 20 })
    .not.toBeNull();
  return readJob(customer, id);
}

/** One item of an unlock job. */
export type UnlockItem = Omit<JobItem, 'result'> & { result: Prospect | null };

/** Returns the results of all items of a job, in order. */
export async function resultsOf(customer: TestCustomer, id: string): Promise<UnlockItem[]> {
  const items: UnlockItem[] = [];
  let cursor: string | undefined;
  do {
    const paginate = { limit: 100, ...(cursor === undefined ? {} : { cursor }) };
    const answer = await customer.post(`/service-handler/${id}/results`, { paginate });
    items.push(...answer.body);
    cursor = answer.headers['x-next-cursor'] as string | undefined;
  } while (cursor !== undefined);
  return items;
}

/** Returns the customer's available and reserved credits, and expects that they equal the sums of the ledger. */
export async function booksOf(app: TestApp, customer: TestCustomer): Promise<{ balance: number; reserved: number }> {
  const [summed] = await app.owner<{ balance: number; reserved: number }[]>`
    select
      coalesce(sum(amount * case kind when 'charge' then 0 when 'reserve' then -1 else 1 end), 0)::integer as balance,
      coalesce(sum(amount * case kind when 'reserve' then 1 when 'release' then -1 when 'charge' then -1 else 0 end), 0)::integer as reserved
    from credit_entries
    where customer_id = ${customer.id} and pool = 'subscription'`;
  const { subscription } = await creditsOf(customer);
  expect(subscription).toEqual(summed);
  return subscription;
}
