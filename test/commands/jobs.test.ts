import { describe, expect, test } from 'vitest';
import { queues } from '../../src/database/queues.ts';
import { retryJob } from '../../src/jobs/job-types.ts';
import { endJob } from '../../src/jobs/turns.ts';
import { begin, contextOf, echo, entriesOf, jobRow, waitingMessages, verifyTurn } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { operatorWith, unknownId, words } from '../setup/cli.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';

const app = await startApp();
const { run, json } = operatorWith({ DATABASE_URL: app.url });

const turn = ({ id }: TestCustomer, limit = 200) => verifyTurn(echo(limit))(contextOf(app), { customerId: id });

const fail = (customer: TestCustomer, id: string) =>
  app.db.transaction((sql) => endJob(sql, customer.id, id, { status: 'FAILED', error: 'broken' }));

test('jobs list shows the latest jobs, by customer and by status', async () => {
  const customer = await app.customer();
  const [first, second] = [await begin(app, customer, 5), await begin(app, customer, 3)];
  await turn(customer);
  const all = await json(words`jobs list --customer ${customer.id}`);
  expect(all.map(({ id }: { id: string }) => id)).toEqual([second, first]);
  expect(all[1]).toMatchObject({ customer_id: customer.id, type: 'verify_email', status: 'COMPLETED', processed: 5 });
  const waiting = await json(words`jobs list --customer ${customer.id} --status PENDING`);
  expect(waiting.map(({ id }: { id: string }) => id)).toEqual([second]);
  const { stdout } = await run(words`jobs list --limit 1`);
  expect(stdout).toMatch(new RegExp(`^ID +CUSTOMER .*\n${second} +${customer.id} .*0/3 +0/3 verification`));
});

test('jobs retry creates one new job with its own credits for the open items of a failed job', async () => {
  const customer = await app.customer();
  const failed = await begin(app, customer, 5);
  await turn(customer, 2);
  await fail(customer, failed);
  const made = await json(words`jobs retry --job ${failed}`);
  expect(made).toMatchObject({ status: 'PENDING', total: 3, credits: { reserved: 3 } });
  expect(made.id).not.toBe(failed);
  expect(await run(words`jobs retry --job ${failed}`)).toMatchObject({
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

test('jobs retry of a cancelled job processes the skipped items, if there are enough credits', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 4);
  expect(await json(words`jobs cancel --job ${job}`)).toMatchObject({ id: job, status: 'CANCELLED', skipped: 4 });
  expect(await run(words`jobs cancel --job ${job}`)).toMatchObject({ code: 1, stdout: '' });
  expect(await entriesOf(app, job)).toEqual(['reserve 4', 'release 4']);
  await json(words`credits adjust --customer ${customer.id} --pool verification --amount -1`);
  expect(await run(words`jobs retry --job ${job}`)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('3 are available'),
  });
  await grant(app.fastify, customer.id, 'verification', 1);
  expect(await json(words`jobs retry --job ${job}`)).toMatchObject({ total: 4, credits: { reserved: 4 } });
});

test('jobs retry enqueues a turn for a waiting job and rejects a complete job', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 4);
  await app.owner`delete from pgboss.job where data ->> 'customerId' = ${customer.id}`;
  expect(await json(words`jobs retry --job ${job}`)).toMatchObject({ id: job, status: 'PENDING' });
  expect(await waitingMessages(app, 'verify', customer.id)).toBe(1);
  await turn(customer);
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
  expect(await run(words`jobs retry --job ${job}`)).toMatchObject({ code: 1, stdout: '' });
});

test('jobs of a resumed customer continue at once, in every queue', async () => {
  const customer = await app.customer();
  const queued = async (queue: string) => [queue, await waitingMessages(app, queue, customer.id)];
  const turns = Object.entries(queues).flatMap(([queue, { notify }]) => (notify ? [queue] : []));
  expect(turns).toContain('import');
  await json(words`customer suspend --customer ${customer.id}`);
  expect(await Promise.all(turns.map(queued))).toEqual(turns.map((queue) => [queue, 0]));
  await json(words`customer resume --customer ${customer.id}`);
  expect(await Promise.all(turns.map(queued))).toEqual(turns.map((queue) => [queue, 1]));
});

const move = (verb: string, customer: string, amount: string, ...more: string[]) =>
  words`credits ${verb} --customer ${customer} --pool subscription --amount ${amount} ${more}`;

describe('credits', () => {
  test('grant and adjust change a balance and write ledger entries', async () => {
    const customer = await app.customer();
    await json(move('grant', customer.id, '100', '--note', 'plan of March'));
    const moved = await json(move('adjust', customer.id, '-30'));
    const none = { balance: 0, reserved: 0 };
    expect(moved).toEqual({
      customer_id: customer.id,
      credits: { subscription: { balance: 70, reserved: 0 }, verification: none },
    });
    expect((await customer.post('/customer/credits/ledger')).body).toMatchObject([
      { kind: 'adjust', amount: -30, balance_after: 70, note: null },
      { kind: 'grant', amount: 100, balance_after: 100, note: 'plan of March' },
    ]);
    const { code, stdout } = await run(move('grant', customer.id, '1'));
    expect([code, stdout]).toEqual([
      0,
      'POOL          BALANCE  RESERVED\nsubscription  71       0\nverification  0        0\n',
    ]);
  });

  test('adjust takes at most the balance, and grant and adjust reject unknown customers', async () => {
    const customer = await app.customer();
    const short = await run(move('adjust', customer.id, '-1'));
    expect(short).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('0 are available') });
    expect(await run(move('grant', unknownId, '1'))).toMatchObject({ code: 1, stdout: '' });
  });

  // Changes as only the database owner can make them. Changes that violate a constraint are not tried.
  const tampering: [what: string, text: string, fault: RegExp][] = [
    [
      'a balance',
      'update credit_balances set available = available + 1 where customer_id = $1',
      /the sums of the ledger are/,
    ],
    [
      'a missing entry',
      "delete from credit_entries where customer_id = $1 and kind = 'charge'",
      /expected entry number|after the entry are|the ledger has/,
    ],
    ['a missing result', 'delete from job_results where customer_id = $1 and position = 1', /items; its results have/],
  ];

  test.each(tampering)('check finds %s that was changed by hand, and exits 1', async (_, text, fault) => {
    const customer = await app.customer();
    await begin(app, customer, 5);
    await turn(customer);
    await app.owner.begin(async (sql) => {
      await sql.unsafe(text, [customer.id]);
    });
    const { code, stdout, stderr } = await run(words`credits check --json`);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: The credits do not match the ledger: \d+ faults?\n$/),
    ]);
    const found = JSON.parse(stdout).faults.filter((one: { customer_id: string }) => one.customer_id === customer.id);
    expect(found).toContainEqual({
      customer_id: customer.id,
      of: expect.any(String),
      fault: expect.stringMatching(fault),
    });
  });
});
