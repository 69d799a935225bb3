import { expect, onTestFinished, test } from 'vitest';
import { startWorkers, sweepJobs } from '../../src/jobs/workers.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { begin, contextOf, echo, jobRow, waitingMessages, verifyTurn } from './working.ts';

const app = await startApp();
const sweep = () => sweepJobs(contextOf(app), {});

/** Deletes a customer's queue messages, as a crash of the queue could. */
const loseMessages = (customerId: string) =>
  app.owner`delete from pgboss.job where data ->> 'customerId' = ${customerId}`;

test('the sweep enqueues a turn for each customer with a job and no message in the queue, and for no other', async () => {
  const [lost, waiting, working, resting, suspended, ended] = (await Promise.all(
    Array.from({ length: 6 }, () => app.customer()),
  )) as [TestCustomer, TestCustomer, TestCustomer, TestCustomer, TestCustomer, TestCustomer];
  const all = [lost, waiting, working, resting, suspended, ended];
  for (const customer of all) await begin(app, customer, 5);
  await app.owner`update pgboss.job set state = 'active' where group_id = ${working.id}`;
  await app.owner`update jobs set due_at = now() + interval '1 minute' where customer_id = ${resting.id}`;
  await verifyTurn(echo())(contextOf(app), { customerId: ended.id });
  await app.owner`update customers set status = 'SUSPENDED' where id = ${suspended.id}`;
  for (const { id } of [lost, resting, suspended, ended]) await loseMessages(id);
  await sweep();
  const messages = await Promise.all(all.map(({ id }) => waitingMessages(app, 'verify', id)));
  expect(messages).toEqual([1, 1, 0, 0, 0, 0]);
});

test('the sweep removes inputs and results 30 days after the end, and keeps the job and the ledger', async () => {
  const customer = await app.customer();
  const turn = () => verifyTurn(echo(20_000))(contextOf(app), { customerId: customer.id });
  const old = await begin(app, customer, 12_000);
  await turn();
  const young = await begin(app, customer, 5);
  await turn();
  const unfinished = await begin(app, customer, 5);
  await app.owner`update jobs set finished_at = now() - interval '30 days 1 minute' where id = ${old}`;
  await app.owner`update jobs set finished_at = now() - interval '29 days 23 hours' where id = ${young}`;
  await sweep();
  const rowsOf = async (id: string) => {
    const [rows] = await app.owner<[{ inputs: number; results: number }]>`
        select
          (select count(*)::integer from job_inputs where job_id = ${id}) as inputs,
          (select count(*)::integer from job_results where job_id = ${id}) as results`;
    return { ...rows };
  };
  expect(await rowsOf(old)).toEqual({ inputs: 0, results: 0 });
  expect(await rowsOf(young)).toEqual({ inputs: 5, results: 5 });
  expect(await rowsOf(unfinished)).toEqual({ inputs: 5, results: 0 });
  expect((await jobRow(app, old)).purged_at).not.toBeNull();
  expect((await customer.get(`/service-handler/${old}`)).body).toMatchObject({
    status: 'COMPLETED',
    succeeded: 12_000,
  });
  expect((await customer.post(`/service-handler/${old}/results`)).body).toEqual([]);
  expect((await app.owner`select from credit_entries where job_id = ${old}`).count).toBe(2);
});

test('a worker completes the messages of every schedule', async () => {
  const workers = await startWorkers({ ...contextOf(app), url: app.url });
  onTestFinished(() => workers.stop());
  // With the data that pg-boss stores for them.
  const scheduled = await app.owner<{ id: string; name: string }[]>`
    insert into pgboss.job (name, data) select name, data from pgboss.schedule returning id, name`;
  expect(scheduled.map(({ name }) => name).toSorted()).toEqual(['remove-idempotency-records', 'sweep-jobs']);
  const ids = scheduled.map(({ id }) => id);
  const done = async () =>
    (await app.owner`select from pgboss.job where id = any(${ids}) and state = 'completed'`).count;
  await expect.poll(done).toBe(2);
});
