import { expect, onTestFinished, test, vi } from 'vitest';
import { parseConfig } from '../../../src/process/config.ts';
import { verifyEmails } from '../../../src/jobs/verify-emails.ts';
import { openCanary } from '../../../src/verification/mail-hosts.ts';
import { openVerifier } from '../../../src/verification/verifier.ts';
import { startApp } from '../../setup/app.ts';
import { inject, type TestCustomer } from '../../setup/factories.ts';
import { randomDomain, startNameServer } from '../../setup/name-server.ts';
import { creditsOf, customerWith, read, verify } from '../calls.ts';
import { expectSettled } from '../verifying.ts';
import { contextOf, verifyTurn } from '../working.ts';

const app = await startApp();

/** Starts a name server, and returns a function that creates a worker process of its own: with new caches. */
async function network(more: Record<string, string> = {}) {
  const names = await startNameServer();
  const newWorker = () => {
    const config = parseConfig({ VERIFY_DNS_SERVERS: names.address, ...more });
    const verifier = openVerifier(config);
    onTestFinished(() => verifier.close());
    return ({ id }: TestCustomer) =>
      verifyTurn(verifyEmails)({ ...contextOf(app), config, verifier }, { customerId: id });
  };
  return { names, newWorker };
}

const funded = () => customerWith(app, { verification: 100 });
const start = async (customer: TestCustomer, emails: string[]): Promise<string> =>
  (await verify(customer, { emails: emails.map((email) => ({ email })) })).body.id;
const jobOf = async (customer: TestCustomer, id: string) => (await read(customer, id)).body;
const resultsOf = async (customer: TestCustomer, id: string) =>
  (await customer.post(`/service-handler/${id}/results`)).body;
/** Ends the pause before the job's next batch. */
const wake = (id: string) => app.owner`update jobs set due_at = now() where id = ${id}`;
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);
const readiness = async () => (await inject(app.fastify, 'GET', '/readyz')).body;

test('while the name server denies everything, a job waits and nothing is charged; then it goes on', async () => {
  const { names, newWorker } = await network();
  const customer = await funded();
  const domain = names.name({ mx: [[1, 'mail.test']] });
  names.deniesAll = true;
  const addresses = [`ada@${domain}`, `bob@${domain}`, `cy@${randomDomain()}`, 'no address', `x@mailinator.com`];
  const id = await start(customer, addresses);
  const worker = newWorker();
  await worker(customer);
  expect(await jobOf(customer, id)).toMatchObject({
    status: 'PROCESSING',
    waiting_for: 'name_server',
    processed: 1,
    credits: { charged: 1 },
  });
  await expect.poll(readiness).toMatchObject({ status: 'ready', checks: { verification: 'degraded' } });
  await app.owner`update customers set status = 'SUSPENDED' where id = ${customer.id}`;
  await expect.poll(readiness).toMatchObject({ status: 'ready', checks: { verification: 'up' } });
  await app.owner`update customers set status = 'OK' where id = ${customer.id}`;

  // Again and again, the canaries are asked once.
  for (let again = 0; again < 3; again += 1) {
    await wake(id);
    await worker(customer);
  }
  expect([names.asked('gmail.com'), names.asked('outlook.com')]).toEqual([['MX'], ['MX']]);
  expect(await jobOf(customer, id)).toMatchObject({ waiting_for: 'name_server', processed: 1 });
  expect((await creditsOf(customer)).verification).toEqual({ balance: 95, reserved: 4 });

  names.deniesAll = false;
  await wake(id);
  await newWorker()(customer);
  expect(await jobOf(customer, id)).toMatchObject({ status: 'COMPLETED', waiting_for: null });
  const outcomes = (await resultsOf(customer, id)).map(({ result, charged }: never) => [result['status'], charged]);
  expect(outcomes).toEqual([
    ['verified', 1],
    ['verified', 1],
    ['invalid', 1],
    ['invalid', 1],
    ['disposable', 1],
  ]);
  await expectSettled(app, customer, id);
  await expect.poll(async () => (await readiness()).checks.verification).toBe('up');
});

test('after an hour, the addresses that wait end unknown and are free', async () => {
  const { names, newWorker } = await network();
  const customer = await funded();
  names.deniesAll = true;
  const id = await start(customer, [`ada@${randomDomain()}`, `bob@${randomDomain()}`, 'x@mailinator.com']);
  const worker = newWorker();
  await worker(customer);
  await app.owner`update jobs set waiting_since = ${minutesAgo(59)} where id = ${id}`;
  await wake(id);
  await worker(customer);
  expect(await jobOf(customer, id)).toMatchObject({ waiting_for: 'name_server', processed: 0 });
  await app.owner`update jobs set waiting_since = ${minutesAgo(60)} where id = ${id}`;
  await wake(id);
  await worker(customer);
  const job = await jobOf(customer, id);
  expect(job).toMatchObject({ status: 'COMPLETED', waiting_for: null, credits: { charged: 0, refunded: 3 } });
  for (const { result, charged } of await resultsOf(customer, id))
    expect([result.status, result.checks.mx.reason, charged]).toEqual(['unknown', 'name_server', 0]);
  await expectSettled(app, customer, id);
});

test('a job that waits can be cancelled', async () => {
  const { names, newWorker } = await network();
  const customer = await funded();
  names.deniesAll = true;
  const id = await start(customer, [`ada@${randomDomain()}`]);
  await newWorker()(customer);
  const cancelled = await customer.post(`/service-handler/${id}/cancel`);
  expect(cancelled.body).toMatchObject({ status: 'CANCELLED', waiting_for: null, credits: { refunded: 1 } });
});

test.each([
  ['one canary that is found is enough', 'gmail.com,canary.test'],
  ['without canaries the name server is believed', ''],
])('%s', async (_, VERIFY_CANARY_DOMAINS) => {
  const { names, newWorker } = await network({ VERIFY_CANARY_DOMAINS });
  const customer = await funded();
  names.deniesAll = VERIFY_CANARY_DOMAINS === '';
  const id = await start(customer, [`ada@${randomDomain()}`]);
  await newWorker()(customer);
  expect(await jobOf(customer, id)).toMatchObject({ status: 'COMPLETED', credits: { charged: 1 } });
});

test('the canaries are asked at most once a minute, and again after it', async () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(5);
  onTestFinished(() => now.mockRestore());
  let isUp = false;
  const asked: string[] = [];
  const isBelieved = openCanary(['a.test', 'b.test'], async (domain) => {
    asked.push(domain);
    return isUp;
  });
  expect(await Promise.all([isBelieved(), isBelieved()])).toEqual([false, false]);
  isUp = true;
  now.mockReturnValue(60_004);
  expect([await isBelieved(), asked]).toEqual([false, ['a.test', 'b.test']]);
  now.mockReturnValue(60_005);
  expect([await isBelieved(), asked.length]).toEqual([true, 4]);
});
