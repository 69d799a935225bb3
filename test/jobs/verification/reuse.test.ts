import { expect, test } from 'vitest';
import { cancelJob, retryJob } from '../../../src/jobs/start-job.ts';
import { verifyEmails } from '../../../src/jobs/verify-emails.ts';
import { checkCredits } from '../../../src/queries/jobs/credit-checks.ts';
import { allJobs } from '../../../src/schemas/jobs.ts';
import { openVerifier } from '../../../src/verification/verifier.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, make, makeList, unique, type TestCustomer } from '../../setup/factories.ts';
import { startNameServer } from '../../setup/name-server.ts';
import { customerWith, read, verify } from '../calls.ts';
import { expectSettled } from '../verifying.ts';
import { contextOf, verifyTurn } from '../working.ts';

const names = await startNameServer();
const app = await startApp({ VERIFY_DNS_SERVERS: names.address });
const domain = names.name({ mx: [[1, 'mail.test']] });

const address = (): string => `${unique('ada')}@${domain}`;
const given = (addresses: string[], more: object = {}) => ({ emails: addresses.map((email) => ({ email })), ...more });
const work = ({ id }: TestCustomer, verifier = app.verifier) =>
  verifyTurn(verifyEmails)({ ...contextOf(app), verifier }, { customerId: id });

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

test('an address that was verified in the last 24 hours is still free if the operator turns reuse off before a worker comes', async () => {
  const customer = await funded();
  const addresses = [address(), address()];
  await run(customer, addresses);
  const id = await started(customer, given(addresses));
  const off = { ...contextOf(app), config: { ...app.config, VERIFY_REUSE_HOURS: 0 } };
  await verifyTurn(verifyEmails)(off, { customerId: customer.id });
  expect((await ended(customer, id)).rows).toMatchObject([{ reused: true }, { reused: true }]);
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
  await Promise.all([1, 2].map(() => verifyTurn(verifyEmails)({ ...context, verifier }, { customerId: customer.id })));
  expect(waiting).toBe(60);
  const jobs = [await ended(customer, ids[0]!), await ended(customer, ids[1]!)];
  expect(jobs.reduce((sum, { job }) => sum + job.credits.charged, 0)).toBe(30);
  expect(jobs.flatMap(({ rows }) => rows).filter(({ reused }) => reused)).toHaveLength(30);
  expect(await app.db.lookup((sql) => checkCredits(sql, customer.id))).toEqual([]);
});

test('a retry does not reserve for addresses that were verified meanwhile', async () => {
  const customer = await funded();
  const addresses = [address(), address(), address()];
  const id = await started(customer, given(addresses));
  await app.db.transaction((sql) => cancelJob(sql, customer.id, id, allJobs));
  await run(customer, addresses.slice(0, 2));
  const retry = await app.db.transaction((sql) => retryJob(sql, customer.id, id));
  await work(customer);
  expect((await ended(customer, retry.id)).job.credits).toMatchObject({ reserved: 1, charged: 1 });
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
