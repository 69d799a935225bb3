import { describe, expect, test } from 'vitest';
import { sweepJobs } from '../../src/jobs/sweep-jobs.ts';
import { startApp } from '../setup/app.ts';
import { begin, contextOf, echo, jobRow, waitingMessages, verifyTurn } from './working.ts';

const app = await startApp();
const sweep = () => sweepJobs(contextOf(app), {});

/** Deletes a customer's queue messages, as a crash of the queue could. */
const loseMessages = (customerId: string) =>
  app.owner`delete from pgboss.job where data ->> 'customerId' = ${customerId}`;

describe('the sweep', () => {
  test('enqueues a turn for each customer with a waiting job and no queued turn, and for no other', async () => {
    const [lost, waiting, leased, suspended, ended] = await Promise.all(
      Array.from({ length: 5 }, () => app.customer()),
    );
    const jobs = new Map<string, string>();
    for (const customer of [lost!, waiting!, leased!, suspended!, ended!])
      jobs.set(customer.id, await begin(app, customer, 5));
    await verifyTurn(echo())(contextOf(app), { customerId: ended!.id });
    await app.owner`update customers set status = 'SUSPENDED' where id = ${suspended!.id}`;
    await app.owner`
      update jobs set status = 'PROCESSING', lease = (select gen_random_uuid()), leased_until = now() + interval '15 seconds'
      where id = ${jobs.get(leased!.id)!}`;
    for (const { id } of [lost!, leased!, suspended!, ended!]) await loseMessages(id);
    await sweep();
    const messages = async (id: string) => waitingMessages(app, 'verify', id);
    expect(await messages(lost!.id)).toBe(1);
    expect(await messages(waiting!.id)).toBe(1);
    for (const { id } of [leased!, suspended!, ended!]) expect(await messages(id)).toBe(0);
  });

  test('enqueues a turn for a job of a dead worker once its lease has expired', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 5);
    await loseMessages(customer.id);
    await app.owner`
      update jobs set status = 'PROCESSING', started_at = now(), lease = (select gen_random_uuid()), leased_until = now() - interval '1 second'
      where id = ${job}`;
    await sweep();
    expect(await waitingMessages(app, 'verify', customer.id)).toBe(1);
    await verifyTurn(echo())(contextOf(app), { customerId: customer.id });
    expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED', succeeded: 5 });
  });

  test('removes inputs and results 30 days after the end, and keeps the job and the ledger', async () => {
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
});
