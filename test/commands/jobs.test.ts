import { expect, test } from 'vitest';
import { queues } from '../../src/database/queues.ts';
import { retryJob } from '../../src/jobs/start-job.ts';
import { endJob } from '../../src/jobs/turns.ts';
import { purgeEndedJob } from '../../src/queries/jobs/runs.ts';
import { begin, contextOf, echo, entriesOf, jobRow, waitingMessages, verifyTurn } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { runCommand, type Run } from '../setup/cli.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';

const app = await startApp();
const unknownId = '01990000-0000-7000-8000-000000000000';

const run = (line: string[]): Promise<Run> => runCommand(line, { DATABASE_URL: app.url });

/** Runs a command line with `--json` and returns its result. */
async function json(line: string[]) {
  const { code, stdout, stderr } = await run([...line, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

const turn = ({ id }: TestCustomer, limit = 200) => verifyTurn(echo(limit))(contextOf(app), { customerId: id });

const fail = (customer: TestCustomer, id: string) =>
  app.db.transaction((sql) => endJob(sql, customer.id, id, { status: 'FAILED', error: 'broken' }));

test('jobs list shows the latest jobs, by customer and by status', async () => {
  const customer = await app.customer();
  const [first, second] = [await begin(app, customer, 5), await begin(app, customer, 3)];
  await turn(customer);
  const all = await json(['jobs', 'list', '--customer', customer.id]);
  expect(all.map(({ id }: { id: string }) => id)).toEqual([second, first]);
  expect(all[1]).toMatchObject({ customer_id: customer.id, type: 'verify_email', status: 'COMPLETED', processed: 5 });
  const waiting = await json(['jobs', 'list', '--customer', customer.id, '--status', 'PENDING']);
  expect(waiting.map(({ id }: { id: string }) => id)).toEqual([second]);
  const { stdout } = await run(['jobs', 'list', '--limit', '1']);
  expect(stdout).toMatch(new RegExp(`^ID +CUSTOMER .*\n${second} +${customer.id} .*0/3 +0/3 verification`));
});

test('jobs cancel ends a job like the API does, and fails the second time', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 5);
  expect(await json(['jobs', 'cancel', '--job', job])).toMatchObject({ id: job, status: 'CANCELLED', skipped: 5 });
  expect(await run(['jobs', 'cancel', '--job', job])).toMatchObject({ code: 1, stdout: '' });
  expect(await run(['jobs', 'cancel', '--job', unknownId])).toMatchObject({ code: 1, stdout: '' });
  expect(await entriesOf(app, job)).toEqual(['reserve 5', 'release 5']);
});

test('jobs retry creates one new job with its own credits for the open items of a failed job', async () => {
  const customer = await app.customer();
  const failed = await begin(app, customer, 5);
  await turn(customer, 2);
  await fail(customer, failed);
  const made = await json(['jobs', 'retry', '--job', failed]);
  expect(made).toMatchObject({ status: 'PENDING', total: 3, credits: { reserved: 3 } });
  expect(made.id).not.toBe(failed);
  expect(await run(['jobs', 'retry', '--job', failed])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(made.id),
  });
  await turn(customer);
  const results = await app.owner`select item from job_results where job_id = ${made.id} order by position`;
  expect(results.map(({ item }) => item)).toEqual(['2@example.com', '3@example.com', '4@example.com']);
  expect(await entriesOf(app, failed)).toEqual(['reserve 5', 'charge 2', 'release 3']);
  expect(await entriesOf(app, made.id)).toEqual(['reserve 3', 'charge 3']);
});

test('jobs many retries of one job at the same time create one new job, and the others return its id in the error', async () => {
  const customer = await app.customer();
  const failed = await begin(app, customer, 5);
  await turn(customer, 2);
  await fail(customer, failed);
  const retries = await Promise.allSettled(
    Array.from({ length: 8 }, () => app.db.transaction((sql) => retryJob(sql, customer.id, failed))),
  );
  const made = retries.flatMap((retry) => (retry.status === 'fulfilled' ? [retry.value.id] : []));
  expect(made).toHaveLength(1);
  const refused = retries.flatMap((retry) => (retry.status === 'rejected' ? [retry.reason] : []));
  const expected = { code: 'conflict', message: expect.stringContaining(made[0]!) };
  expect(refused).toEqual(Array.from({ length: 7 }, () => expect.objectContaining(expected)));
  const jobs = await app.owner`select id from jobs where customer_id = ${customer.id}`;
  expect(jobs).toHaveLength(2);
  expect(await entriesOf(app, made[0]!)).toEqual(['reserve 3']);
});

test('jobs retry is refused once the job ended 30 days ago, also while its inputs and results are being removed', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 12_000);
  await turn(customer, 9_000);
  await fail(customer, job);
  // As when items were settled out of order: the first 5,000 inputs and the first 5,000 results are not of the same items.
  await app.owner`delete from job_results where job_id = ${job} and position <= 3000`;
  await app.owner`update jobs set finished_at = now() - interval '30 days 1 minute' where id = ${job}`;
  const refused = { code: 1, stdout: '', stderr: expect.stringContaining('no longer stored') };
  for (let isMore = true; isMore; isMore = await app.db.transaction(purgeEndedJob))
    expect(await run(['jobs', 'retry', '--job', job])).toMatchObject(refused);
  expect(await app.owner`select from jobs where customer_id = ${customer.id}`).toHaveLength(1);
});

test('jobs retry of a cancelled job processes the skipped items, if there are enough credits', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 4);
  await customer.post(`/service-handler/${job}/cancel`);
  await json(['credits', 'adjust', '--customer', customer.id, '--pool', 'verification', '--amount', '-1']);
  expect(await run(['jobs', 'retry', '--job', job])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('3 are available'),
  });
  await grant(app.fastify, customer.id, 'verification', 1);
  expect(await json(['jobs', 'retry', '--job', job])).toMatchObject({ total: 4, credits: { reserved: 4 } });
});

test('jobs retry enqueues a turn for a waiting job and rejects a complete job', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 4);
  await app.owner`delete from pgboss.job where data ->> 'customerId' = ${customer.id}`;
  expect(await json(['jobs', 'retry', '--job', job])).toMatchObject({ id: job, status: 'PENDING' });
  expect(await waitingMessages(app, 'verify', customer.id)).toBe(1);
  await turn(customer);
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
  expect(await run(['jobs', 'retry', '--job', job])).toMatchObject({ code: 1, stdout: '' });
});

test('jobs of a resumed customer continue at once, in every queue', async () => {
  const customer = await app.customer();
  const queued = async (queue: string) => [queue, await waitingMessages(app, queue, customer.id)];
  const turns = Object.entries(queues).flatMap(([queue, { notify }]) => (notify ? [queue] : []));
  expect(turns).toContain('import');
  await json(['customer', 'suspend', '--customer', customer.id]);
  expect(await Promise.all(turns.map(queued))).toEqual(turns.map((queue) => [queue, 0]));
  await json(['customer', 'resume', '--customer', customer.id]);
  expect(await Promise.all(turns.map(queued))).toEqual(turns.map((queue) => [queue, 1]));
});
