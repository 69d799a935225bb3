import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parseConfig } from '../../../src/process/config.ts';
import { verifyEmails } from '../../../src/jobs/verify-emails.ts';
import type { JobItem } from '../../../src/schemas/jobs.ts';
import type { Verification } from '../../../src/schemas/verification.ts';
import { openVerifier } from '../../../src/verification/verifier.ts';
import { wrongCounts } from '../../queries/memberships/recount.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../../setup/factories.ts';
import { startMailServer, type Crowd } from '../../setup/mail-server.ts';
import { randomDomain, startNameServer } from '../../setup/name-server.ts';
import { startServerProcess, type ServerProcess } from '../../setup/server-process.ts';
import { customerWith, read } from '../calls.ts';
import { expectSettled as expectJobSettled, startVerify, type Given } from '../verifying.ts';
import { contextOf, verifyTurn } from '../working.ts';

const names = await startNameServer();
/** While this is set, mailbox checks wait for it. */
let held: Promise<void> | undefined;
/** While this is set, mailbox checks wait here for each other. */
let crowd: Crowd | undefined;
const mail = await startMailServer(async (recipient) => {
  await held;
  await crowd?.pass();
  return /^(ada|bob|eve)/.test(recipient) ? undefined : { code: 550, text: '5.1.1 No such user here' };
});
const environment = {
  VERIFY_DNS_SERVERS: names.address,
  VERIFY_SMTP: 'on',
  VERIFY_SMTP_PORT: `${mail.port}`,
  VERIFY_PRIVATE_ADDRESSES: 'on',
  VERIFY_DOMAIN_INTERVAL_MS: '0',
};
let customer: TestCustomer;
/** A domain with mailboxes whose names begin with ada, bob or eve. */
let domain: string;

const app = await startApp();

beforeEach(async () => {
  held = undefined;
  crowd = undefined;
  domain = names.name({ mx: [[1, names.name({ a: ['127.0.0.1'] })]] });
  customer = await funded();
});

const funded = (): Promise<TestCustomer> => customerWith(app, { verification: 10_000 });

const startWorker = (more: Record<string, string> = {}) =>
  startServerProcess(app.url, { ...environment, ...more }, ['src/cli.ts', 'work', '--json']);

const verify = (emails: Given[], sync_crm = false, by = customer): Promise<string> => startVerify(by, emails, sync_crm);

const readJob = async (id: string, by = customer) => (await read(by, id)).body;
const ended = async (id: string, by = customer): Promise<void> => {
  await expect.poll(async () => (await readJob(id, by)).status, { timeout: 60_000, interval: 50 }).toBe('COMPLETED');
};
type VerifiedItem = Omit<JobItem, 'result'> & { result: Verification | null };
const results = async (id: string, by = customer): Promise<VerifiedItem[]> =>
  (await by.post(`/service-handler/${id}/results`, { paginate: { limit: 100 } })).body;
const outcomes = async (id: string) =>
  (await results(id)).map((one) => [one.item, one.status, one.reason ?? one.result!.status, one.charged]);

const expectSettled = (id: string, by = customer): Promise<void> => expectJobSettled(app, by, id);

/** Returns how often a mail server checked each of these emails. */
const timesAsked = (addresses: string[]): number[] =>
  addresses.map((address) => mail.recipients.filter((one) => one === address).length);

describe('with a worker', () => {
  let worker: ServerProcess;
  beforeAll(async () => {
    worker = await startWorker({ VERIFY_DOMAIN_CONNECTIONS: '3' });
  });
  afterAll(() => worker.stop());

  test('every email gets the outcome of its checks, in the given order, and an unknown outcome is free', async () => {
    const unknown = names.name('servfail');
    const nowhere = names.name({ mx: [[0, '']] });
    const anybody = names.name({ mx: [[1, 'localhost.test']] });
    names.name({ aaaa: [] }, 'localhost.test');
    const id = await verify([
      `ada@${domain}`,
      'nobody',
      'x@mailinator.com',
      `info@${domain}`,
      `ada@${nowhere}`,
      ` ADA@${domain.toUpperCase()} `,
      `ada@${unknown}`,
      `zoe@${domain}`,
      `ada@${anybody}`,
    ]);
    await ended(id);
    expect(await outcomes(id)).toEqual([
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
    expect(await readJob(id)).toMatchObject({
      total: 9,
      succeeded: 8,
      skipped: 1,
      failed: 0,
      credits: { pool: 'verification', reserved: 8, charged: 6, refunded: 2 },
    });
    const [first] = await results(id);
    expect(first!.result!.checks).toMatchObject({ mx: { status: 'passed' }, smtp: { status: 'passed', code: 250 } });
    await expectSettled(id);
  });

  test('with sync_crm the outcome is written to the contact with this work email, and to no other', async () => {
    const contact = (more: object) => make(customer, '/contacts', contactBody(more));
    const ada = await contact({ work_email: `Ada@${domain}` });
    const twin = await contact({ work_email: `ada@${domain}` });
    const bob = await contact({ work_email: `bob@${domain}`, personal_email: `eve@${domain}` });
    const zoe = await contact({ work_email: `zoe@${domain}` });
    const gone = await contact({ work_email: `eva@${domain}` });
    const started = Date.now();
    await customer.delete(`/contacts/${gone}`).then(() => undefined);
    const rules = [{ field: 'verification_status', operator: 'equals', value: 'verified' }];
    const list = (await customer.post('/list-contact', { name: 'Good', rules })).body.id;
    const id = await verify(
      [
        { email: `ada@${domain}`, contact_id: ada },
        { email: `ADA@${domain}`, contact_id: twin },
        { email: `eve@${domain}`, contact_id: bob },
        { email: `zoe@${domain}`, contact_id: zoe },
        `bob@${domain}`,
      ],
      true,
    );
    await ended(id);
    const read = async (contactId: string) => (await customer.get(`/contacts/${contactId}`)).body;
    for (const one of [ada, twin]) {
      const { verification_status, last_verified, crm_synced_at } = await read(one);
      expect(verification_status).toBe('verified');
      expect(Date.parse(last_verified)).toBeGreaterThan(started - 1_000);
      expect(crm_synced_at).toBe(last_verified);
    }
    expect(await read(zoe)).toMatchObject({ verification_status: 'invalid' });
    expect(await read(bob)).toMatchObject({ verification_status: 'unverified', crm_synced_at: null });
    expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(2);
    expect(await wrongCounts(customer, app.owner)).toEqual([]);
    expect((await results(id)).map((one) => one.contact_id)).toEqual([ada, twin, bob, zoe, null]);
  });

  test('without sync_crm contacts do not change', async () => {
    const ada = await make(customer, '/contacts', contactBody({ work_email: `ada@${domain}` }));
    const before = (await customer.get(`/contacts/${ada}`)).body;
    await ended(await verify([{ email: `ada@${domain}`, contact_id: ada }]));
    expect((await customer.get(`/contacts/${ada}`)).body).toEqual(before);
  });

  test('a contact that was deleted or has another email now is skipped', async () => {
    let go = () => undefined as void;
    held = new Promise<void>((resolve) => (go = resolve));
    const [ada, bob] = [
      await make(customer, '/contacts', contactBody({ work_email: `ada@${domain}` })),
      await make(customer, '/contacts', contactBody({ work_email: `bob@${domain}` })),
    ];
    const id = await verify(
      [
        { email: `ada@${domain}`, contact_id: ada },
        { email: `bob@${domain}`, contact_id: bob },
      ],
      true,
    );
    await expect.poll(() => mail.recipients.filter((one) => one.endsWith(domain)).length, { timeout: 20_000 }).toBe(2);
    expect((await customer.delete(`/contacts/${ada}`)).status).toBe(200);
    expect((await customer.patch(`/contacts/${bob}`, { work_email: `eve@${domain}` })).status).toBe(200);
    go();
    await ended(id);
    expect(await readJob(id)).toMatchObject({ succeeded: 2, credits: { charged: 2 } });
    expect((await customer.get(`/contacts/${bob}`)).body).toMatchObject({ verification_status: 'unverified' });
  });

  test('each email of a list is verified once, and the outcome is written to all its members', async () => {
    const emails = [`ada@${domain}`, ` ADA@${domain}`.trim(), `zoe@${domain}`, `info@${domain}`];
    const contacts = [];
    for (const work_email of emails) contacts.push(await make(customer, '/contacts', contactBody({ work_email })));
    const outside = await make(customer, '/contacts', contactBody({ work_email: `ada@${domain}` }));
    const list = (await customer.post('/list-contact', { name: 'All' })).body.id;
    await customer.post('/list-contact-details/add-contacts', { list_id: list, contact_ids: contacts });
    const answer = await customer.post(`/list-contact/verify-contacts/${list}`);
    expect(answer).toMatchObject({ status: 200, body: { success: true, data: { status: 'PENDING' } } });
    const { id } = answer.body.data;
    await ended(id);
    expect(await readJob(id)).toMatchObject({ type: 'verify_list', sync_crm: true, total: 3, succeeded: 3 });
    const statuses = [];
    for (const one of [...contacts, outside])
      statuses.push((await customer.get(`/contacts/${one}`)).body.verification_status);
    expect(statuses).toEqual(['verified', 'verified', 'invalid', 'do_not_mail', 'unverified']);
    await expectSettled(id);
  });

  test('the outcome of an email that very many contacts have is written in transactions of bounded size', async () => {
    const list = (await customer.post('/list-contact', { name: 'All' })).body.id;
    const items = Array.from({ length: 850 }, () =>
      contactBody({ work_email: `ada@${domain}`, list_ids: [list], industry: 'Mining' }),
    );
    for (let i = 0; i < 3; i += 1)
      expect((await customer.post('/contacts/batch/create', { items })).body.data.counts.created).toBe(850);
    const { id } = (await customer.post(`/list-contact/verify-contacts/${list}`)).body.data;
    await ended(id);
    await expectSettled(id);
    const transactions = await app.owner<{ status: string; contacts: number }[]>`
      select verification_status as status, count(*)::integer as contacts
      from contacts
      where customer_id = ${customer.id}
      group by verification_status, xmin::text
      order by contacts`;
    expect(transactions.reduce((sum, { contacts }) => sum + contacts, 0)).toBe(2_550);
    expect(new Set(transactions.map(({ status }) => status))).toEqual(new Set(['verified']));
    expect(transactions.at(-1)!.contacts).toBeLessThanOrEqual(1_000);
  });
});

describe('a worker that ends', () => {
  const addresses = () => Array.from({ length: 120 }, (_, i) => `ada${i}@${domain}`);
  /** Expires the heartbeat of a dead worker at once, instead of after their usual time. */
  const age = async () => {
    await app.owner`update pgboss.job set heartbeat_on = heartbeat_on - interval '1 minute' where state = 'active'`;
  };

  test.each(['SIGKILL', 'SIGTERM'] as const)(
    'by %s in the middle has its job resumed, and nothing charged twice',
    { timeout: 120_000 },
    async (signal) => {
      const worker = await startWorker({ VERIFY_DOMAIN_INTERVAL_MS: '10', VERIFY_DOMAIN_CONNECTIONS: '4' });
      const id = await verify(addresses());
      const asked = () => timesAsked(addresses()).filter((times) => times > 0).length;
      await expect.poll(asked, { timeout: 30_000, interval: 20 }).toBeGreaterThan(20);
      expect(await worker.stop(signal)).toBe(signal === 'SIGKILL' ? null : 0);
      const { status, processed, credits } = await readJob(id);
      expect(status).toBe('PROCESSING');
      expect(processed).toBeLessThan(120);
      expect(credits.charged).toBe(processed);
      if (signal === 'SIGKILL') await age();
      const next = await startWorker({ VERIFY_DOMAIN_CONNECTIONS: '20' });
      await ended(id);
      expect(await readJob(id)).toMatchObject({ succeeded: 120, credits: { charged: 120, refunded: 0 } });
      await expectSettled(id);
      // Emails that a killed worker had in flight are checked once more.
      const atMost = signal === 'SIGKILL' ? 2 : 1;
      expect(Math.max(...timesAsked(addresses()))).toBeLessThanOrEqual(atMost);
      expect(await next.stop()).toBe(0);
    },
  );
});

test('emails that wait for a slow domain are left to later turns, and all are verified in the end', async () => {
  const verifier = openVerifier(parseConfig({ ...environment, VERIFY_DOMAIN_INTERVAL_MS: '250' }));
  const stopping = new AbortController();
  const context = { ...contextOf(app), verifier, stopping: stopping.signal };
  const turn = verifyTurn(verifyEmails);
  const other = names.name({ mx: [[1, names.name({ a: ['127.0.0.1'] })]] });
  const addresses = [...Array.from({ length: 40 }, (_, i) => `ada${i}@${domain}`), `bob@${other}`];
  const id = await verify([...addresses, 'nobody']);
  await turn(context, { customerId: customer.id });
  const { processed, status } = await readJob(id);
  expect(status).toBe('PROCESSING');
  expect(processed).toBeGreaterThan(5);
  expect(processed).toBeLessThan(42);
  for (let turns = 0; turns < 10 && (await readJob(id)).status !== 'COMPLETED'; turns += 1)
    await turn(context, { customerId: customer.id });
  expect(await readJob(id)).toMatchObject({ status: 'COMPLETED', succeeded: 42 });
  await expectSettled(id);
  expect(timesAsked(addresses)).toEqual(addresses.map(() => 1));
  await verifier.close();
});

test('a stopping turn settles verified emails, and waits for the others no longer than its shutdown time', async () => {
  held = new Promise<void>(() => undefined);
  const verifier = openVerifier(parseConfig(environment));
  const stopping = new AbortController();
  const config = parseConfig({ ...environment, SHUTDOWN_MS: '500' });
  const context = { ...contextOf(app), config, verifier, stopping: stopping.signal };
  const id = await verify([`ada@${domain}`, 'nobody', `ada@${randomDomain()}`]);
  const turn = verifyTurn(verifyEmails)(context, { customerId: customer.id });
  await expect.poll(() => mail.recipients).toContain(`ada@${domain}`);
  stopping.abort();
  await turn;
  expect(await readJob(id)).toMatchObject({ status: 'PROCESSING', processed: 2 });
  await verifier.close();
});
