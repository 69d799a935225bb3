import { expect, onTestFinished, test, vi } from 'vitest';
import { parseConfig } from '../../../src/process/config.ts';
import { verifyEmails } from '../../../src/jobs/verify-emails.ts';
import { checkCredits } from '../../../src/queries/jobs/credit-checks.ts';
import { openCanary } from '../../../src/verification/mail-hosts.ts';
import { openVerifier } from '../../../src/verification/verifier.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, grant, inject, make, makeList, unique, type TestCustomer } from '../../setup/factories.ts';
import { readJournal } from '../../setup/journal.ts';
import { randomDomain, startNameServer } from '../../setup/name-server.ts';
import { creditsOf, customerWith, read, verify } from '../calls.ts';
import { expectSettled } from '../verifying.ts';
import { contextOf, verifyTurn } from '../working.ts';

const names = await startNameServer();
const app = await startApp({ VERIFY_DNS_SERVERS: names.address });
const domain = names.name({ mx: [[1, 'mail.test']] });

const address = (): string => `${unique('ada')}@${domain}`;
const given = (addresses: string[], more: object = {}) => ({ emails: addresses.map((email) => ({ email })), ...more });
const work = ({ id }: TestCustomer, verifier = app.verifier) =>
  verifyTurn(verifyEmails.batch)({ ...contextOf(app), verifier }, { customerId: id });

const funded = () => customerWith(app, { verification: 1_000 });

async function started(customer: TestCustomer, body: object): Promise<string> {
  const answer = await verify(customer, body);
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200, body: { status: 'PENDING' } });
  return answer.body.id;
}

/** Starts a verification, works at it, and returns the job with the rows of its results. */
async function run(customer: TestCustomer, addresses: string[], more: object = {}) {
  const id = await started(customer, given(addresses, more));
  await work(customer);
  return ended(customer, id);
}

async function ended(customer: TestCustomer, id: string) {
  const { body: job } = await read(customer, id);
  expect(job.status).toBe('COMPLETED');
  await expectSettled(app, customer, id);
  return { job, rows: (await customer.post(`/service-handler/${id}/results`, { paginate: { limit: 100 } })).body };
}

/** Makes all results of a customer so many hours old. */
const age = ({ id }: TestCustomer, hours: number) =>
  app.owner`update job_results set finished_at = ${new Date(Date.now() - hours * 3_600_000)} where customer_id = ${id}`;

test('an address that was verified in the last 24 hours is free, is not reserved, and shows the earlier result', async () => {
  const customer = await funded();
  const [one, other] = [address(), address()];
  const [first] = (await run(customer, [one])).rows;
  expect(first).toMatchObject({ charged: 1, reused: false, result: { status: 'verified' } });
  const { job, rows } = await run(customer, [` ${one.toUpperCase()}`, other, one]);
  expect(job.credits).toEqual({ pool: 'verification', reserved: 1, charged: 1, refunded: 0 });
  expect(rows.map(({ status, charged, reused }: never) => [status, charged, reused])).toEqual([
    ['succeeded', 0, true],
    ['succeeded', 1, false],
    ['skipped', 0, false],
  ]);
  expect(rows[0].result).toEqual({ ...first.result, reused: true });
});

test('an address that was verified in the last 24 hours is free also if the same job has verified it, written with other accents, in the same batch', async () => {
  const customer = await funded();
  const one = address();
  const { job, rows } = await run(customer, [one, one.replace('ada', 'ádà'), one.replace('ada', 'Âda')]);
  expect(job.credits).toMatchObject({ reserved: 3, charged: 1, refunded: 2 });
  expect(rows.map(({ reused }: never) => reused)).toEqual([false, true, true]);
  const again = await run(customer, [one, one.replace('ada', 'ádà')], { fresh: true });
  expect(again.job.credits.charged).toBe(2);
});

test('an address that was verified in the last 24 hours is verified anew with fresh, when it is older, and for another customer', async () => {
  const [customer, stranger] = [await funded(), await funded()];
  const one = address();
  await run(customer, [one]);
  const charged = async (by: TestCustomer, more: object = {}) => (await run(by, [one], more)).job.credits.charged;
  expect(await charged(stranger)).toBe(1);
  expect(await charged(customer)).toBe(0);
  expect(await charged(customer, { fresh: true })).toBe(1);
  // A reused result does not count as a new one.
  await age(customer, 23);
  expect(await charged(customer)).toBe(0);
  await age(customer, 24);
  expect(await charged(customer)).toBe(1);
});

test('an address that was verified in the last 24 hours is found by its last outcome, and one that ended unknown is verified again', async () => {
  const customer = await funded();
  const doubtful = names.name('servfail');
  const one = `ada@${doubtful}`;
  expect((await run(customer, [one])).job.credits).toMatchObject({ reserved: 1, charged: 0 });
  names.name({ mx: [[0, '']] }, doubtful);
  const verifier = openVerifier(app.config);
  const id = await started(customer, given([one]));
  await work(customer, verifier);
  await verifier.close();
  const again = await ended(customer, id);
  expect(again.rows).toMatchObject([{ charged: 1, reused: false, result: { status: 'invalid' } }]);
  expect((await run(customer, [one])).rows).toMatchObject([{ reused: true, result: { status: 'invalid' } }]);
});

test('an address that was verified in the last 24 hours never costs more than was reserved, if the earlier result is gone', async () => {
  const customer = await funded();
  const [one, other] = [address(), address()];
  await run(customer, [one]);
  const id = await started(customer, given([one, other]));
  await app.owner`update job_results set verified_address = null where customer_id = ${customer.id}`;
  await work(customer);
  expect((await ended(customer, id)).job).toMatchObject({ succeeded: 2, credits: { reserved: 1, charged: 1 } });
});

test('an address that was verified in the last 24 hours is written to the contact with sync_crm', async () => {
  const customer = await funded();
  const one = address();
  await run(customer, [one]);
  const contact = await make(customer, '/contacts', contactBody({ work_email: one }));
  const id = await started(customer, { emails: [{ email: one, contact_id: contact }], sync_crm: true });
  await work(customer);
  expect((await ended(customer, id)).job.credits.charged).toBe(0);
  expect((await customer.get(`/contacts/${contact}`)).body.verification_status).toBe('verified');
});

test('two jobs at once with the same addresses are charged once for each', async () => {
  const customer = await funded();
  const addresses = Array.from({ length: 30 }, address);
  const ids = [await started(customer, given(addresses)), await started(customer, given(addresses))];
  // Both have started to verify before one of them settles.
  const context = contextOf(app);
  const crowd = Promise.withResolvers<void>();
  let waiting = 0;
  const verifier = {
    ...app.verifier,
    verify: async (...line: Parameters<typeof app.verifier.verify>) => {
      if ((waiting += 1) === 60) crowd.resolve();
      await crowd.promise;
      return app.verifier.verify(...line);
    },
  };
  await Promise.all(
    [1, 2].map(() => verifyTurn(verifyEmails.batch)({ ...context, verifier }, { customerId: customer.id })),
  );
  expect(waiting).toBe(60);
  const jobs = [await ended(customer, ids[0]!), await ended(customer, ids[1]!)];
  expect(jobs.reduce((sum, { job }) => sum + job.credits.charged, 0)).toBe(30);
  expect(jobs.flatMap(({ rows }) => rows).filter(({ reused }) => reused)).toHaveLength(30);
  expect(await app.db.lookup((sql) => checkCredits(sql, customer.id))).toEqual([]);
});

test('a list is verified twice for the price of once; a dry run tells the price, and starts nothing', async () => {
  const customer = await funded();
  const list = await makeList(app.fastify, customer);
  const addresses = ['Anna', 'bob', 'cy'].map((name) => unique(name) + `@${domain}`);
  for (const email of [...addresses, addresses[1]!.toUpperCase()])
    await make(customer, '/contacts', contactBody({ work_email: email, list_ids: [list] }));
  const call = async (body?: object) => (await customer.post(`/list-contact/verify-contacts/${list}`, body)).body;
  await run(customer, [addresses[0]!]);
  expect(await call({ dry_run: true })).toEqual({ matches: 3, cost: 2, available: 999 });
  expect(await call({ dry_run: true, fresh: true })).toEqual({ matches: 3, cost: 3, available: 999 });
  const { data } = await call();
  await work(customer);
  expect((await ended(customer, data.id)).job).toMatchObject({ total: 3, credits: { reserved: 2, charged: 2 } });
  expect(await call({ dry_run: true })).toEqual({ matches: 3, cost: 0, available: 997 });
  const again = (await call({})).data;
  await work(customer);
  expect((await ended(customer, again.id)).job).toMatchObject({ succeeded: 3, credits: { reserved: 0, charged: 0 } });
  const fresh = (await call({ fresh: true })).data;
  expect((await read(customer, fresh.id)).body.credits.reserved).toBe(3);
  expect((await app.owner`select from jobs where customer_id = ${customer.id}`).count).toBe(4);
});

test('a dry run of addresses tells the price, within the cap of the key', async () => {
  const customer = await funded();
  const capped = await customer.withCaps({ verification: { amount: 7, per: 'day' } });
  const [one, other] = [address(), address()];
  await run(customer, [one]);
  const dry = { ...given([one, other, other.toUpperCase()]), dry_run: true };
  expect((await verify(capped, dry)).body).toEqual({ matches: 2, cost: 1, available: 7 });
  expect((await verify(customer, { ...dry, fresh: true })).body).toEqual({ matches: 2, cost: 2, available: 999 });
  expect((await app.owner`select from jobs where customer_id = ${customer.id}`).count).toBe(1);
});

test('credits.low is told once for each grant, when less than a tenth of it can be spent', async () => {
  const customer = await customerWith(app, { verification: 50 });
  const start = (count: number) => started(customer, given(Array.from({ length: count }, address)));
  const told = async () => {
    const rows = await readJournal(app.owner, customer.id);
    const events = rows.map(({ source, type, data }) => ({ type, source, ...data }));
    return events.filter(({ type }) => type === 'credits.low');
  };
  await start(45);
  expect(await told()).toEqual([]);
  const job = await start(1);
  const first = { type: 'credits.low', source: 'api', pool: 'verification', available: 4 };
  expect(await told()).toEqual([first]);
  await customer.post(`/service-handler/${job}/cancel`);
  await start(2);
  expect(await told()).toEqual([first]);
  await grant(app.fastify, customer.id, 'verification', 100);
  await start(100);
  expect(await told()).toEqual([first, { ...first, available: 3 }]);
});

/** Starts a name server, and returns a function that creates a worker process of its own: with new caches. */
async function network(more: Record<string, string> = {}) {
  const names = await startNameServer();
  const newWorker = () => {
    const config = parseConfig({ VERIFY_DNS_SERVERS: names.address, ...more });
    const verifier = openVerifier(config);
    onTestFinished(() => verifier.close());
    return ({ id }: TestCustomer) =>
      verifyTurn(verifyEmails.batch)({ ...contextOf(app), config, verifier }, { customerId: id });
  };
  return { names, newWorker };
}

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
  const id = await started(customer, given(addresses));
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
  expect((await creditsOf(customer)).verification).toEqual({ balance: 995, reserved: 4 });

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
  const id = await started(customer, given([`ada@${randomDomain()}`, `bob@${randomDomain()}`, 'x@mailinator.com']));
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

test.each([
  ['one canary that is found is enough', 'gmail.com,canary.test'],
  ['without canaries the name server is believed', ''],
])('%s', async (_, VERIFY_CANARY_DOMAINS) => {
  const { names, newWorker } = await network({ VERIFY_CANARY_DOMAINS });
  const customer = await funded();
  names.deniesAll = VERIFY_CANARY_DOMAINS === '';
  const id = await started(customer, given([`ada@${randomDomain()}`]));
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
