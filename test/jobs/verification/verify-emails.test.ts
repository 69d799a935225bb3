import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../../src/process/config.ts';
import { verifyEmails } from '../../../src/jobs/verify-emails.ts';
import type { JobItem } from '../../../src/schemas/jobs.ts';
import type { Verification } from '../../../src/schemas/verification.ts';
import { openVerifier } from '../../../src/verification/verifier.ts';
import { wrongCounts } from '../../queries/memberships/recount.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../../setup/factories.ts';
import { startMailServer } from '../../setup/mail-server.ts';
import { randomDomain, startNameServer } from '../../setup/name-server.ts';
import { customerWith, read } from '../calls.ts';
import { expectSettled as expectJobSettled, startVerify, type Given } from '../verifying.ts';
import { contextOf, verifyTurn } from '../working.ts';

/** Time limit of one step on a busy machine, in milliseconds. */
const patience = { timeout: 20_000 };

const app = await startApp();
const names = await startNameServer();
/** Domains whose mail servers respond only after the promise resolves. */
const held = new Map<string, Promise<void>>();
const mail = await startMailServer(async (recipient) => {
  await held.get(recipient.split('@')[1]!);
  return /^(ada|bob|eve)/.test(recipient) ? undefined : { code: 550, text: '5.1.1 No such user here' };
});
const environment = {
  VERIFY_DNS_SERVERS: names.address,
  VERIFY_SMTP: 'on',
  VERIFY_SMTP_PORT: `${mail.port}`,
  VERIFY_SMTP_TIMEOUT_MS: '60000',
  VERIFY_DEADLINE_MS: '60000',
  VERIFY_PRIVATE_ADDRESSES: 'on',
  VERIFY_DOMAIN_INTERVAL_MS: '0',
};

let customer: TestCustomer;
/** A domain with mailboxes whose names begin with ada, bob or eve. */
let domain: string;
beforeEach(async () => {
  domain = newDomain();
  customer = await customerWith(app, { verification: 10_000 });
});

const newDomain = (): string => names.name({ mx: [[1, names.name({ a: ['127.0.0.1'] })]] });

/** Creates a domain whose mail servers respond only after `answer` is called. */
function slowDomain(): { slow: string; answer: () => void } {
  const slow = newDomain();
  const { promise, resolve } = Promise.withResolvers<void>();
  held.set(slow, promise);
  return { slow, answer: resolve };
}

/** Creates a separate worker: a function that runs one turn, and a function that stops it. */
function newWorker(more: Record<string, string> = {}): { turn: () => Promise<void>; stop: () => void } {
  const config = parseConfig({ ...environment, ...more });
  const verifier = openVerifier(config);
  const stopping = new AbortController();
  const background = new Set<Promise<void>>();
  const context = { ...contextOf(app), config, verifier, stopping: stopping.signal, background };
  onTestFinished(async () => {
    stopping.abort();
    await verifier.close();
    await Promise.all(background);
  });
  const turn = () => verifyTurn(verifyEmails.batch)(context, { customerId: customer.id });
  return { turn, stop: () => stopping.abort() };
}

const verify = (emails: Given[], sync_crm = false): Promise<string> => startVerify(customer, emails, sync_crm);
const readJob = async (id: string) => (await read(customer, id)).body;

/** Works at a job until its end. */
async function ended(id: string, worker = newWorker({ VERIFY_DOMAIN_CONNECTIONS: '3' })): Promise<void> {
  for (let turns = 0; turns < 10 && (await readJob(id)).status !== 'COMPLETED'; turns += 1) await worker.turn();
  expect(await readJob(id)).toMatchObject({ status: 'COMPLETED' });
}

type VerifiedItem = Omit<JobItem, 'result'> & { result: Verification | null };
const results = async (id: string): Promise<VerifiedItem[]> =>
  (await customer.post(`/service-handler/${id}/results`, { paginate: { limit: 100 } })).body;
const outcomes = async (id: string) =>
  (await results(id)).map((one) => [one.item, one.status, one.reason ?? one.result!.status, one.charged]);
const expectSettled = (id: string): Promise<void> => expectJobSettled(app, customer, id);

/** Returns how often a mail server checked each of these emails. */
const timesAsked = (addresses: string[]): number[] =>
  addresses.map((address) => mail.recipients.filter((one) => one === address).length);

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
  const { slow, answer } = slowDomain();
  const [ada, bob] = [
    await make(customer, '/contacts', contactBody({ work_email: `ada@${slow}` })),
    await make(customer, '/contacts', contactBody({ work_email: `bob@${slow}` })),
  ];
  const id = await verify(
    [
      { email: `ada@${slow}`, contact_id: ada },
      { email: `bob@${slow}`, contact_id: bob },
    ],
    true,
  );
  const turn = newWorker().turn();
  await expect.poll(() => timesAsked([`ada@${slow}`, `bob@${slow}`]), patience).toEqual([1, 1]);
  expect((await customer.delete(`/contacts/${ada}`)).status).toBe(200);
  expect((await customer.patch(`/contacts/${bob}`, { work_email: `eve@${slow}` })).status).toBe(200);
  answer();
  await turn;
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

test('a stopping turn settles verified emails, and waits for the others no longer than its shutdown time', async () => {
  const { slow } = slowDomain();
  const { turn, stop } = newWorker({ SHUTDOWN_MS: '500' });
  const id = await verify([`ada@${slow}`, 'nobody', `ada@${randomDomain()}`]);
  const first = turn();
  await expect.poll(() => mail.recipients, patience).toContain(`ada@${slow}`);
  stop();
  await first;
  expect(await readJob(id)).toMatchObject({ status: 'PROCESSING', processed: 2 });
});
