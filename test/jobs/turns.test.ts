import { describe, expect, test, onTestFinished } from 'vitest';
import { unavailable } from '../../src/errors.ts';
import { jobBatches, startWorkers, type Workers, sweepJobs } from '../../src/jobs/workers.ts';
import { settle, takeTurn, type JobBatch } from '../../src/jobs/turns.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { begin, contextOf, echo, ended, entriesOf, jobRow, verifyTurn, waitingMessages } from './working.ts';

const app = await startApp();
const context = contextOf(app);

/**
 * Starts a worker of the verify queue, which counts as a process of its own and runs so many turns at a time. It is stopped
 * after each test, so it cannot disturb another one.
 */
async function startWorker(slice: JobBatch, atOnce = 1): Promise<Workers> {
  const workers = await startWorkers(
    { ...context, url: app.url },
    { verify: { handle: takeTurn('verify', { ...jobBatches, verify_email: slice }), atOnce } },
  );
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= workers.stop());
  onTestFinished(stop);
  return { stop };
}

const turnOf = ({ id }: TestCustomer, slice: JobBatch): Promise<void> => verifyTurn(slice)(context, { customerId: id });

/** Ends the rest of a job now. */
const endRest = (job: string) => app.owner`update jobs set due_at = now() where id = ${job}`;

/** Returns a batch that waits before it delivers its results. */
function held() {
  const [begun, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slice: JobBatch = async (...given) => {
    begun.resolve();
    await go.promise;
    await echo()(...given);
  };
  return { slice, begun: begun.promise, open: go.resolve };
}

test('the slots of two worker processes are shared: one customer alone gets half of them, another gets one at once, and all jobs complete', async () => {
  await app.owner`delete from pgboss.job where name = 'verify'`; // those of other tests
  const [greedy, modest] = [await app.customer(), await app.customer()];
  const inFlight = new Map<string, number>();
  const most = new Map<string, number>();
  const go = Promise.withResolvers<void>();
  const slice: JobBatch = async (given, job, ...rest) => {
    const now = (inFlight.get(job.customer_id) ?? 0) + 1;
    inFlight.set(job.customer_id, now);
    most.set(job.customer_id, Math.max(now, most.get(job.customer_id) ?? 0));
    await go.promise;
    await echo()(given, job, ...rest);
    inFlight.set(job.customer_id, inFlight.get(job.customer_id)! - 1);
  };
  for (let processes = 0; processes < 2; processes += 1) await startWorker(slice, 2);
  const jobs: string[] = [];
  for (let i = 0; i < 6; i += 1) jobs.push(await begin(app, greedy, 5));
  await expect.poll(() => inFlight.get(greedy.id), { timeout: 20_000 }).toBe(2);
  jobs.push(await begin(app, modest, 5));
  await expect.poll(() => inFlight.get(modest.id), { timeout: 20_000 }).toBe(1);
  go.resolve();
  for (const job of jobs) await ended(app, job);
  expect(Object.fromEntries(most)).toEqual({ [greedy.id]: 2, [modest.id]: 1 });
});

test("one worker completes ten items of one customer before 5 % of another customer's 10,000 earlier items", async () => {
  const [busy, modest] = [await app.customer(), await app.customer()];
  const long = await begin(app, busy, 10_000);
  const short = await begin(app, modest, 10);
  const worker = await startWorker(echo());
  await ended(app, short);
  const [before] = await app.owner<[{ items: number }]>`
      select count(*)::integer as items
      from job_results r
      where r.job_id = ${long} and r.finished_at <= (select finished_at from jobs where id = ${short})`;
  expect(before.items).toBeLessThan(500);
  await ended(app, long);
  await worker.stop();
  expect(await jobRow(app, long)).toMatchObject({ status: 'COMPLETED', succeeded: 10_000, charged: '10000' });
});

test('a turn settles nothing once another one has taken its job', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 10);
  const { slice, begun, open } = held();
  const stale = turnOf(customer, slice);
  await begun;
  await turnOf(customer, echo(4));
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 4 });
  open();
  await stale;
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 4, failures: 0 });
  await turnOf(customer, echo());
  expect(await entriesOf(app, job)).toEqual(['reserve 10', 'charge 4', 'charge 6']);
});

test('a turn whose job is cancelled settles nothing, and the unspent credits are released once', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 10);
  await turnOf(customer, echo(4));
  const { slice, begun, open } = held();
  const late = turnOf(customer, slice);
  await begun;
  const answer = await customer.post(`/service-handler/${job}/cancel`);
  expect(answer).toMatchObject({ status: 200, body: { status: 'CANCELLED', succeeded: 4, skipped: 6 } });
  open();
  await late;
  expect(await entriesOf(app, job)).toEqual(['reserve 10', 'charge 4', 'release 6']);
  expect(await jobRow(app, job)).toMatchObject({ status: 'CANCELLED', succeeded: 4, charged: '4', refunded: '6' });
});

test('a turn whose writes fail leaves no trace of them, and the job backs off', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 2);
  const half: JobBatch = (context, job) =>
    settle(context, job, async (sql) => {
      await sql`insert into companies (customer_id, company_name, type, folded) values (${customer.id}, 'Half', '', '{}')`;
      throw new Error('half way');
    }).then(() => undefined);
  await turnOf(customer, half);
  expect((await app.owner`select from companies where customer_id = ${customer.id}`).count).toBe(0);
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', failures: 1, succeeded: 0 });
  await turnOf(customer, echo());
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 0 });
  await endRest(job);
  await turnOf(customer, echo());
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED', failures: 0, succeeded: 2 });
});

describe('a job', () => {
  const broken: JobBatch = async () => {
    throw new Error('secret cause');
  };

  test('that fails five times in a row becomes FAILED, shows no internal cause and releases its unspent credits', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 10);
    await turnOf(customer, echo(3));
    for (let turns = 1; turns <= 5; turns += 1) {
      expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', failures: turns - 1 });
      await turnOf(customer, broken);
      await endRest(job);
    }
    expect(await entriesOf(app, job)).toEqual(['reserve 10', 'charge 3', 'release 7']);
    const { body } = await customer.get(`/service-handler/${job}`);
    expect(body).toMatchObject({ status: 'FAILED', processed: 3, credits: { reserved: 10, charged: 3, refunded: 7 } });
    expect(body.error).toMatch(/error of the service/);
    expect(body.error).not.toMatch(/secret/);
  });

  test("that fails does not block its customer's other jobs", async () => {
    const customer = await app.customer();
    const poison = await begin(app, customer, 10);
    const good = await begin(app, customer, 10);
    const worker = await startWorker(async (context, job, ...rest) =>
      job.id === poison ? broken(context, job, ...rest) : echo()(context, job, ...rest),
    );
    await ended(app, good);
    await worker.stop();
    expect(await jobRow(app, poison)).toMatchObject({ status: 'PROCESSING' });
  });

  test('waits without limit for an unavailable service and counts no failure', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 10);
    for (let turns = 0; turns < 7; turns += 1) {
      await turnOf(customer, async () => {
        throw unavailable('The catalog does not answer');
      });
      expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', failures: 0 });
      await endRest(job);
    }
    await turnOf(customer, echo());
    expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
  });

  test('of a suspended customer waits until it is resumed', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 10);
    await app.owner`update customers set status = 'SUSPENDED' where id = ${customer.id}`;
    await turnOf(customer, echo());
    expect(await jobRow(app, job)).toMatchObject({ status: 'PENDING' });
    await app.owner`update customers set status = 'OK' where id = ${customer.id}`;
    await turnOf(customer, echo());
    expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
  });
});

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
