import { expect } from 'vitest';
import type { Job, JobItem } from '../../src/schemas/jobs.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import type { TestApp } from '../setup/app.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';

/** A customer with credits to unlock with. */
export async function customerWithCredits(t: TestApp, credits: number): Promise<TestCustomer> {
  const customer = await t.customer();
  await grant(t.app, customer.id, 'subscription', credits);
  return customer;
}

async function start(customer: TestCustomer, path: string, body: object): Promise<string> {
  const answer = await customer.post(`/service-handler/${path}`, body);
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200, body: { status: 'PENDING' } });
  return answer.body.id;
}

/** Starts to unlock by filters; answers the job's id. */
export const startUnlock = (customer: TestCustomer, body: object): Promise<string> =>
  start(customer, 'unlock-contacts', body);

/** Starts to unlock by ids; answers the job's id. */
export const startSelected = (customer: TestCustomer, ids: string[], sync_crm = false): Promise<string> =>
  start(customer, 'unlock-selected-contacts', { ids, sync_crm });

/** A job as its customer sees it. */
export const readJob = async (customer: TestCustomer, id: string): Promise<Job> =>
  (await customer.get(`/service-handler/${id}`)).body;

/** The job, when it has ended. */
export async function ended(customer: TestCustomer, id: string): Promise<Job> {
  await expect
    .poll(async () => (await readJob(customer, id)).finished_at, { timeout: 120_000, interval: 20 })
    .not.toBeNull();
  return readJob(customer, id);
}

/** An item of an unlocking. */
export type UnlockItem = Omit<JobItem, 'result'> & { result: Prospect | null };

/** What became of all the items, in their order. */
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

/** What can be spent and what is put aside; the ledger's own sums have to be the same. */
export async function creditsOf(t: TestApp, customer: TestCustomer): Promise<{ balance: number; reserved: number }> {
  const [summed] = await t.owner<{ balance: number; reserved: number }[]>`
    select
      coalesce(sum(amount * case kind when 'charge' then 0 when 'reserve' then -1 else 1 end), 0)::integer as balance,
      coalesce(sum(amount * case kind when 'reserve' then 1 when 'release' then -1 when 'charge' then -1 else 0 end), 0)::integer as reserved
    from credit_entries
    where customer_id = ${customer.id} and pool = 'subscription'`;
  const { subscription } = (await customer.get('/customer/credits')).body;
  expect(subscription).toEqual(summed);
  return subscription;
}
