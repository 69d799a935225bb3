import { expect, onTestFinished, test, vi } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { verifyEmails } from '../../src/jobs/verify-emails.ts';
import { checkCredits } from '../../src/queries/jobs/credit-checks.ts';
import type { Verification } from '../../src/schemas/verification.ts';
import { openCanary } from '../../src/verification/mail-hosts.ts';
import { openVerifier } from '../../src/verification/verifier.ts';
import { wrongCounts } from '../queries/memberships/recount.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, grant, inject, make, makeList, unique, type TestCustomer } from '../setup/factories.ts';
import { readJournal } from '../setup/journal.ts';
import { startMailServer } from '../setup/mail-server.ts';
import { randomDomain, startNameServer } from '../setup/name-server.ts';
import { creditsOf, customerWith, read, verify } from './calls.ts';
import { contextOf, verifyTurn } from './working.ts';

const names = await startNameServer();
const app = await startApp({ VERIFY_DNS_SERVERS: names.address });
const domain = names.name({ mx: [[1, 'mail.test']] });

interface Row {
  item: string;
  contact_id: string | null;
  status: string;
  reason: string | null;
  charged: number;
  reused: boolean;
  result: Verification;
}

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

const jobOf = async (customer: TestCustomer, id: string) => (await read(customer, id)).body;
const resultsOf = async (customer: TestCustomer, id: string): Promise<Row[]> =>
  (await customer.post(`/service-handler/${id}/results`, { paginate: { limit: 100 } })).body;

async function ended(customer: TestCustomer, id: string) {
  const job = await jobOf(customer, id);
  expect(job.status).toBe('COMPLETED');
  await expectSettled(customer, id);
  return { job, rows: await resultsOf(customer, id) };
}

/**
 * Expects one result for each input, and that results, job, ledger and balance agree: nothing was charged twice or
 * missed.
 */
async function expectSettled(customer: TestCustomer, id: string): Promise<void> {
  const [sums] = await app.owner`
    select
      j.total, j.reserved, j.charged, j.refunded,
      (select count(*) from job_inputs i where i.customer_id = ${customer.id} and i.job_id = j.id) as inputs,
      (select count(*) from job_results r where r.customer_id = ${customer.id} and r.job_id = j.id) as rows,
      (select sum(charged) from job_results r where r.customer_id = ${customer.id} and r.job_id = j.id) as by_rows,
      (select sum(amount) from credit_entries e where e.customer_id = ${customer.id} and e.job_id = j.id and kind = 'charge') as by_ledger,
      (select reserved from credit_balances b where b.customer_id = ${customer.id} and pool = 'verification') as still_reserved
    from jobs j
    where j.customer_id = ${customer.id}
      and j.id = ${id}`;
  const { total, reserved, charged, refunded, inputs, rows, by_rows, by_ledger } = sums!;
  expect([Number(inputs), Number(rows)]).toEqual([total, total]);
  expect([Number(by_rows), Number(by_ledger ?? 0)]).toEqual([Number(charged), Number(charged)]);
  expect(Number(charged) + Number(refunded)).toBe(Number(reserved));
  expect(Number(sums!['still_reserved'])).toBe(0);
}

/** Creates a worker process of its own, with new caches: a function that runs one turn, and one that stops it. */
function newWorker(environment: Record<string, string>) {
  const config = parseConfig({ VERIFY_DNS_SERVERS: names.address, ...environment });
  const verifier = openVerifier(config);
  const stopping = new AbortController();
  const background = new Set<Promise<void>>();
  const context = { ...contextOf(app), config, verifier, stopping: stopping.signal, background };
  onTestFinished(async () => {
    stopping.abort();
    await verifier.close();
    await Promise.all(background);
  });
  const turn = ({ id }: TestCustomer) => verifyTurn(verifyEmails.batch)(context, { customerId: id });
  return { turn, stop: () => stopping.abort() };
}

/** Domains whose mail servers respond only after the promise resolves. */
const held = new Map<string, Promise<void>>();
/** At the domains of `mailDomain`, mailboxes exist whose names begin with ada, bob or eve. */
const mail = await startMailServer(async (recipient) => {
  await held.get(recipient.split('@')[1]!);
  return /^(ada|bob|eve)/.test(recipient) ? undefined : { code: 550, text: '5.1.1 No such user here' };
});
const asking = {
  VERIFY_SMTP: 'on',
  VERIFY_SMTP_PORT: `${mail.port}`,
  VERIFY_SMTP_TIMEOUT_MS: '60000',
  VERIFY_DEADLINE_MS: '60000',
  VERIFY_PRIVATE_ADDRESSES: 'on',
  VERIFY_DOMAIN_INTERVAL_MS: '0',
};
const mailDomain = (): string => names.name({ mx: [[1, names.name({ a: ['127.0.0.1'] })]] });

/** Creates a domain whose mail servers respond only after `answer` is called. */
function slowDomain(): { slow: string; answer: () => void } {
  const slow = mailDomain();
  const { promise, resolve } = Promise.withResolvers<void>();
  held.set(slow, promise);
  return { slow, answer: resolve };
}

/** Works at a job until its end, with mail servers. */
async function asked(customer: TestCustomer, id: string) {
  const { turn } = newWorker({ ...asking, VERIFY_DOMAIN_CONNECTIONS: '3' });
  for (let turns = 0; turns < 10 && (await jobOf(customer, id)).status !== 'COMPLETED'; turns += 1)
    await turn(customer);
  return ended(customer, id);
}

/** Returns how often a mail server checked each of these emails. */
const timesAsked = (addresses: string[]): number[] =>
  addresses.map((address) => mail.recipients.filter((one) => one === address).length);

test('every email gets the outcome of its checks, in the given order, and an unknown outcome is free', async () => {
  const [customer, domain] = [await funded(), mailDomain()];
  const unknown = names.name('servfail');
  const nowhere = names.name({ mx: [[0, '']] });
  const anybody = names.name({ mx: [[1, 'localhost.test']] });
  names.name({ aaaa: [] }, 'localhost.test');
  const emails = [
    `ada@${domain}`,
    'nobody',
    'x@mailinator.com',
    `info@${domain}`,
    `ada@${nowhere}`,
    ` ADA@${domain.toUpperCase()} `,
    `ada@${unknown}`,
    `zoe@${domain}`,
    `ada@${anybody}`,
  ];
  const { job, rows } = await asked(customer, await started(customer, given(emails)));
  expect(rows.map((one) => [one.item, one.status, one.reason ?? one.result.status, one.charged])).toEqual([
    [`ada@${domain}`, 'succeeded', 'verified', 1],
    ['nobody', 'succeeded', 'invalid', 1],
    ['x@mailinator.com', 'succeeded', 'disposable', 1],
    [`info@${domain}`, 'succeeded', 'do_not_mail', 1],
    [`ada@${nowhere}`, 'succeeded', 'invalid', 1],
    [` ADA@${domain.toUpperCase()} `, 'skipped', 'duplicate', 0],
    [`ada@${unknown}`, 'succeeded', 'unknown', 0],
    [`zoe@${domain}`, 'succeeded', 'invalid', 1],
    [`ada@${anybody}`, 'succeeded', 'unknown', 0],
  ]);
  expect(job).toMatchObject({
    total: 9,
    succeeded: 8,
    skipped: 1,
    failed: 0,
    credits: { pool: 'verification', reserved: 8, charged: 6, refunded: 2 },
  });
  expect(rows[0]!.result.checks).toMatchObject({ mx: { status: 'passed' }, smtp: { status: 'passed', code: 250 } });
});

test('with sync_crm the outcome is written to the contact with this work email, and to no other', async () => {
  const [customer, domain] = [await funded(), mailDomain()];
  const contact = (more: object) => make(customer, '/contacts', contactBody(more));
  const ada = await contact({ work_email: `Ada@${domain}` });
  const twin = await contact({ work_email: `ada@${domain}` });
  const bob = await contact({ work_email: `bob@${domain}`, personal_email: `eve@${domain}` });
  const zoe = await contact({ work_email: `zoe@${domain}` });
  const gone = await contact({ work_email: `eva@${domain}` });
  const begun = Date.now();
  await customer.delete(`/contacts/${gone}`).then(() => undefined);
  const rules = [{ field: 'verification_status', operator: 'equals', value: 'verified' }];
  const list = (await customer.post('/list-contact', { name: 'Good', rules })).body.id;
  const emails = [
    { email: `ada@${domain}`, contact_id: ada },
    { email: `ADA@${domain}`, contact_id: twin },
    { email: `eve@${domain}`, contact_id: bob },
    { email: `zoe@${domain}`, contact_id: zoe },
    { email: `bob@${domain}` },
  ];
  const { rows } = await asked(customer, await started(customer, { emails, sync_crm: true }));
  const read = async (contactId: string) => (await customer.get(`/contacts/${contactId}`)).body;
  for (const one of [ada, twin]) {
    const { verification_status, last_verified, crm_synced_at } = await read(one);
    expect(verification_status).toBe('verified');
    expect(Date.parse(last_verified)).toBeGreaterThan(begun - 1_000);
    expect(crm_synced_at).toBe(last_verified);
  }
  expect(await read(zoe)).toMatchObject({ verification_status: 'invalid' });
  expect(await read(bob)).toMatchObject({ verification_status: 'unverified', crm_synced_at: null });
  expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(2);
  expect(await wrongCounts(customer, app.owner)).toEqual([]);
  expect(rows.map((one) => one.contact_id)).toEqual([ada, twin, bob, zoe, null]);
});

test('without sync_crm contacts do not change', async () => {
  const [customer, email] = [await funded(), address()];
  const ada = await make(customer, '/contacts', contactBody({ work_email: email }));
  const before = (await customer.get(`/contacts/${ada}`)).body;
  const id = await started(customer, { emails: [{ email, contact_id: ada }] });
  await work(customer);
  await ended(customer, id);
  expect((await customer.get(`/contacts/${ada}`)).body).toEqual(before);
});

test('a contact that was deleted or has another email now is skipped', async () => {
  const [customer, { slow, answer }] = [await funded(), slowDomain()];
  const [ada, bob] = [
    await make(customer, '/contacts', contactBody({ work_email: `ada@${slow}` })),
    await make(customer, '/contacts', contactBody({ work_email: `bob@${slow}` })),
  ];
  const emails = [
    { email: `ada@${slow}`, contact_id: ada },
    { email: `bob@${slow}`, contact_id: bob },
  ];
  const id = await started(customer, { emails, sync_crm: true });
  const turn = newWorker(asking).turn(customer);
  await expect.poll(() => timesAsked([`ada@${slow}`, `bob@${slow}`])).toEqual([1, 1]);
  expect((await customer.delete(`/contacts/${ada}`)).status).toBe(200);
  expect((await customer.patch(`/contacts/${bob}`, { work_email: `eve@${slow}` })).status).toBe(200);
  answer();
  await turn;
  expect(await jobOf(customer, id)).toMatchObject({ succeeded: 2, credits: { charged: 2 } });
  expect((await customer.get(`/contacts/${bob}`)).body).toMatchObject({ verification_status: 'unverified' });
});

test('a stopping turn settles verified emails, and waits for the others no longer than its shutdown time', async () => {
  const [customer, { slow }] = [await funded(), slowDomain()];
  const { turn, stop } = newWorker({ ...asking, SHUTDOWN_MS: '500' });
  const id = await started(customer, given([`ada@${slow}`, 'nobody', `ada@${randomDomain()}`]));
  const first = turn(customer);
  await expect.poll(() => mail.recipients).toContain(`ada@${slow}`);
  stop();
  await first;
  expect(await jobOf(customer, id)).toMatchObject({ status: 'PROCESSING', processed: 2 });
});

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
  expect(rows.map(({ status, charged, reused }) => [status, charged, reused])).toEqual([
    ['succeeded', 0, true],
    ['succeeded', 1, false],
    ['skipped', 0, false],
  ]);
  expect(rows[0]!.result).toEqual({ ...first!.result, reused: true });
});

test('an address that was verified in the last 24 hours is free also if the same job has verified it, written with other accents, in the same batch', async () => {
  const customer = await funded();
  const one = address();
  const { job, rows } = await run(customer, [one, one.replace('ada', 'ádà'), one.replace('ada', 'Âda')]);
  expect(job.credits).toMatchObject({ reserved: 3, charged: 1, refunded: 2 });
  expect(rows.map(({ reused }) => reused)).toEqual([false, true, true]);
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

test('each address of a list is verified once, for all members that have it, and twice for the price of once; a dry run tells the price, and starts nothing', async () => {
  const customer = await funded();
  const list = await makeList(app.fastify, customer);
  const addresses = ['Anna', 'bob', 'cy'].map((name) => unique(name) + `@${domain}`);
  for (const work_email of [...addresses, addresses[1]!.toUpperCase()])
    await make(customer, '/contacts', contactBody({ work_email, list_ids: [list] }));
  await make(customer, '/contacts', contactBody({ work_email: addresses[1]! }));
  const call = async (body?: object) => (await customer.post(`/list-contact/verify-contacts/${list}`, body)).body;
  await run(customer, [addresses[0]!]);
  expect(await call({ dry_run: true })).toEqual({ matches: 3, cost: 2, available: 999 });
  expect(await call({ dry_run: true, fresh: true })).toEqual({ matches: 3, cost: 3, available: 999 });
  const { data } = await call();
  await work(customer);
  expect((await ended(customer, data.id)).job).toMatchObject({
    type: 'verify_list',
    sync_crm: true,
    total: 3,
    credits: { reserved: 2, charged: 2 },
  });
  const { body: contacts } = await customer.post('/contacts/list', {});
  const statuses = contacts.map((one: { verification_status: string }) => one.verification_status);
  expect(statuses).toEqual(['unverified', 'verified', 'verified', 'verified', 'verified']);
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

/** Ends the pause before the job's next batch. */
const wake = (id: string) => app.owner`update jobs set due_at = now() where id = ${id}`;
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);
const readiness = async () => (await inject(app.fastify, 'GET', '/readyz')).body;

test('while the name server denies everything, a job waits and nothing is charged; then it goes on', async () => {
  const names = await startNameServer();
  const environment = { VERIFY_DNS_SERVERS: names.address };
  const customer = await funded();
  const domain = names.name({ mx: [[1, 'mail.test']] });
  names.deniesAll = true;
  const addresses = [`ada@${domain}`, `bob@${domain}`, `cy@${randomDomain()}`, 'no address', `x@mailinator.com`];
  const id = await started(customer, given(addresses));
  const worker = newWorker(environment);
  await worker.turn(customer);
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
    await worker.turn(customer);
  }
  expect([names.asked('gmail.com'), names.asked('outlook.com')]).toEqual([['MX'], ['MX']]);
  expect(await jobOf(customer, id)).toMatchObject({ waiting_for: 'name_server', processed: 1 });
  expect((await creditsOf(customer)).verification).toEqual({ balance: 995, reserved: 4 });

  names.deniesAll = false;
  await wake(id);
  await newWorker(environment).turn(customer);
  expect(await jobOf(customer, id)).toMatchObject({ status: 'COMPLETED', waiting_for: null });
  const outcomes = (await resultsOf(customer, id)).map(({ result, charged }) => [result.status, charged]);
  expect(outcomes).toEqual([
    ['verified', 1],
    ['verified', 1],
    ['invalid', 1],
    ['invalid', 1],
    ['disposable', 1],
  ]);
  await expectSettled(customer, id);
  await expect.poll(async () => (await readiness()).checks.verification).toBe('up');
});

test('after an hour, the addresses that wait end unknown and are free', async () => {
  const names = await startNameServer();
  const environment = { VERIFY_DNS_SERVERS: names.address };
  const customer = await funded();
  names.deniesAll = true;
  const id = await started(customer, given([`ada@${randomDomain()}`, `bob@${randomDomain()}`, 'x@mailinator.com']));
  const worker = newWorker(environment);
  await worker.turn(customer);
  await app.owner`update jobs set waiting_since = ${minutesAgo(59)} where id = ${id}`;
  await wake(id);
  await worker.turn(customer);
  expect(await jobOf(customer, id)).toMatchObject({ waiting_for: 'name_server', processed: 0 });
  await app.owner`update jobs set waiting_since = ${minutesAgo(60)} where id = ${id}`;
  await wake(id);
  await worker.turn(customer);
  const job = await jobOf(customer, id);
  expect(job).toMatchObject({ status: 'COMPLETED', waiting_for: null, credits: { charged: 0, refunded: 3 } });
  for (const { result, charged } of await resultsOf(customer, id))
    expect([result.status, result.checks.mx.reason, charged]).toEqual(['unknown', 'name_server', 0]);
  await expectSettled(customer, id);
});

test.each([
  ['one canary that is found is enough', 'gmail.com,canary.test'],
  ['without canaries the name server is believed', ''],
])('%s', async (_, VERIFY_CANARY_DOMAINS) => {
  const names = await startNameServer();
  const customer = await funded();
  names.deniesAll = VERIFY_CANARY_DOMAINS === '';
  const id = await started(customer, given([`ada@${randomDomain()}`]));
  await newWorker({ VERIFY_DNS_SERVERS: names.address, VERIFY_CANARY_DOMAINS }).turn(customer);
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
