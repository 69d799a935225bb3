import { expect, test, onTestFinished } from 'vitest';
import { jobBatches, startWorkers } from '../../src/jobs/workers.ts';
import { takeTurn, type JobBatch } from '../../src/jobs/turns.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { begin, contextOf, echo, ended, entriesOf, jobRow } from './working.ts';

const app = await startApp();
const context = contextOf(app);

/** Starts a worker with slots for turns of the queue `verify`, which counts as a separate process. */
async function startWorker(slice: JobBatch, atOnce = 2): Promise<void> {
  const workers = await startWorkers(
    { ...context, url: app.url },
    { verify: { handle: takeTurn('verify', { ...jobBatches, verify_email: slice }), atOnce } },
  );
  onTestFinished(() => workers.stop());
}

test('the slots of two worker processes are shared: one customer alone gets half of them, another gets one at once, and all jobs complete', async () => {
  const [greedy, modest] = [await app.customer(), await app.customer()];
  const inFlight = new Map<string, number>();
  const most = new Map<string, number>();
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  const slice: JobBatch = async (given, job, ...rest) => {
    const now = (inFlight.get(job.customer_id) ?? 0) + 1;
    inFlight.set(job.customer_id, now);
    most.set(job.customer_id, Math.max(now, most.get(job.customer_id) ?? 0));
    await opened;
    await echo()(given, job, ...rest);
    inFlight.set(job.customer_id, inFlight.get(job.customer_id)! - 1);
  };
  await startWorker(slice);
  await startWorker(slice);
  const jobs: string[] = [];
  for (let i = 0; i < 6; i += 1) jobs.push(await begin(app, greedy, 5));
  await expect.poll(() => inFlight.get(greedy.id), { timeout: 20_000 }).toBe(2);
  jobs.push(await begin(app, modest, 5));
  await expect.poll(() => inFlight.get(modest.id), { timeout: 20_000 }).toBe(1);
  open();
  for (const job of jobs) await ended(app, job);
  expect(Object.fromEntries(most)).toEqual({ [greedy.id]: 2, [modest.id]: 1 });
});

test('long work goes on while first turns of new work hold all slots that they may have', async () => {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  const busy = await app.customer();
  const long = await begin(app, busy, 100);
  await app.owner`update jobs set attempt = 5 where id = ${long}`;
  await app.owner`update pgboss.job set priority = 0 where group_id = ${busy.id}`;
  let newcomers = 0;
  const slice: JobBatch = async (given, job, ...rest) => {
    if (job.customer_id !== busy.id) {
      newcomers += 1;
      await opened;
    }
    await echo(10)(given, job, ...rest);
  };
  const jobs: string[] = [];
  for (let i = 0; i < 8; i += 1) jobs.push(await begin(app, await app.customer(), 5));
  await startWorker(slice, 4);
  await ended(app, long);
  expect(newcomers).toBe(4);
  open();
  for (const job of jobs) await ended(app, job);
});

test('a small job ends within three times its batches, while 20 customers have large jobs', async () => {
  const slots = 4;
  const [batches, size] = [4, 5];
  const modest = await app.customer();
  let others = 0;
  const slice: JobBatch = async (given, job, ...rest) => {
    if (job.customer_id !== modest.id) others += 1;
    await echo(size)(given, job, ...rest);
  };
  const large = new Map<string, TestCustomer>();
  for (let i = 0; i < 20; i += 1) {
    const customer = await app.customer();
    large.set(await begin(app, customer, 2_000), customer);
  }
  await startWorker(slice, slots);
  const attempts = async () =>
    (
      await app.owner<[{ least: number }]>`
      select min(attempt)::integer as least from jobs where id = any(${[...large.keys()]})`
    )[0].least;
  await expect.poll(attempts, { timeout: 60_000 }).toBeGreaterThan(5);
  const small = await begin(app, modest, batches * size);
  others = 0;
  await ended(app, small);
  expect(others).toBeLessThanOrEqual(3 * batches * slots);
  for (const [job, customer] of large) await customer.post(`/service-handler/${job}/cancel`);
});

test('a job is processed by one turn at a time, however many messages its customer has, and charged once', async () => {
  const customer = await app.customer();
  let [now, most] = [0, 0];
  const slice: JobBatch = async (...given) => {
    most = Math.max(most, (now += 1));
    await echo(10)(...given);
    now -= 1;
  };
  const job = await begin(app, customer, 500);
  await app.owner`
      insert into pgboss.job (name, data, singleton_key, group_id, policy, heartbeat_seconds)
      select name, data, i::text, group_id, policy, heartbeat_seconds
      from pgboss.job
      cross join generate_series(1, 50) as i
      where group_id = ${customer.id}`;
  for (let processes = 0; processes < 3; processes += 1) await startWorker(slice, 4);
  await ended(app, job);
  expect(most).toBe(1);
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED', succeeded: 500, charged: '500' });
  const sum = (await entriesOf(app, job)).filter((entry) => entry.startsWith('charge')).length;
  expect(sum).toBe(50);
});
