import { beforeEach, expect, test, onTestFinished } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import type { JobContext } from '../../src/jobs/turns.ts';
import { retryJob } from '../../src/jobs/start-job.ts';
import { verifyEmails } from '../../src/jobs/verify-emails.ts';
import { openVerifier } from '../../src/verification/verifier.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../setup/factories.ts';
import { startMailServer } from '../setup/mail-server.ts';
import { startNameServer } from '../setup/name-server.ts';
import { customerWith, read } from './calls.ts';
import { expectSettled, startVerify } from './verifying.ts';
import { contextOf, verifyTurn } from './working.ts';

/** Time limit of one step on a busy machine, in milliseconds. */
const patience = { timeout: 20_000 };

// Each email gets one result and each mailbox is checked once, in whatever order the mail servers respond and however a
// turn ends.

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
beforeEach(async () => {
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

/** Creates a separate worker: a function that runs one turn, the context of its jobs, and a function that stops it. */
function newWorker(more: Record<string, string> = {}): {
  turn: () => Promise<void>;
  context: JobContext;
  stop: () => void;
} {
  const config = parseConfig({ ...environment, ...more });
  const verifier = openVerifier(config);
  const stopping = new AbortController();
  const context = {
    ...contextOf(app),
    config,
    verifier,
    stopping: stopping.signal,
    background: new Set<Promise<void>>(),
  };
  onTestFinished(async () => {
    stopping.abort();
    await verifier.close();
    await Promise.all(context.background);
  });
  const turn = () => verifyTurn(verifyEmails)(context, { customerId: customer.id });
  return { turn, context, stop: () => stopping.abort() };
}

const readJob = async (id: string) => (await read(customer, id)).body;
const addressesAt = (domain: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `ada${i}@${domain}`);
const timesAsked = (addresses: string[]): number[] =>
  addresses.map((address) => mail.recipients.filter((one) => one === address).length);
const statusOf = async (contact: string) => (await customer.get(`/contacts/${contact}`)).body.verification_status;

async function expectDoneOnce(id: string, addresses: string[]): Promise<void> {
  expect(await readJob(id)).toMatchObject({ status: 'COMPLETED', succeeded: addresses.length });
  await expectSettled(app, customer, id);
  expect(timesAsked(addresses)).toEqual(addresses.map(() => 1));
}

test('a stopping worker waits for mailbox checks in flight and leaves the other emails to the next worker', async () => {
  const [{ slow, answer }, fast] = [slowDomain(), newDomain()];
  const addresses = [...addressesAt(slow, 6), ...addressesAt(fast, 2)];
  const id = await startVerify(customer, addresses);
  const { turn, stop } = newWorker({ VERIFY_DOMAIN_CONNECTIONS: '2' });
  const first = turn();
  await expect.poll(() => timesAsked(addresses), patience).toEqual([1, 1, 0, 0, 0, 0, 1, 1]);
  stop();
  answer();
  await first;
  expect(await readJob(id)).toMatchObject({ status: 'PROCESSING', processed: 4 });
  await newWorker().turn();
  await expectDoneOnce(id, addresses);
});

test('a repeated email gets its result together with the first one; after a cancellation a retry verifies both, for both contacts', async () => {
  const { slow, answer } = slowDomain();
  const [first, second] = [
    await make(customer, '/contacts', contactBody({ work_email: `ada@${slow}` })),
    await make(customer, '/contacts', contactBody({ work_email: `Ada@${slow}` })),
  ];
  const given = [
    { email: `ada@${slow}`, contact_id: first },
    { email: ` ADA@${slow} `, contact_id: second },
  ];
  const id = await startVerify(customer, given, true);
  const turn = newWorker().turn();
  await expect.poll(() => timesAsked([`ada@${slow}`]), patience).toEqual([1]);
  expect((await customer.post(`/service-handler/${id}/cancel`)).body).toMatchObject({
    status: 'CANCELLED',
    skipped: 2,
  });
  answer();
  await turn;
  expect([await statusOf(first), await statusOf(second)]).toEqual(['unverified', 'unverified']);
  await expectSettled(app, customer, id);
  const retry = await app.db.transaction((sql) => retryJob(sql, customer.id, id));
  await newWorker().turn();
  expect(await readJob(retry.id)).toMatchObject({ status: 'COMPLETED', total: 2, succeeded: 1, skipped: 1 });
  expect([await statusOf(first), await statusOf(second)]).toEqual(['verified', 'verified']);
  await expectSettled(app, customer, retry.id);
});

test('a turn that another one has followed writes no results and no contacts', async () => {
  const { slow, answer } = slowDomain();
  const contact = await make(customer, '/contacts', contactBody({ work_email: `ada@${slow}` }));
  const id = await startVerify(customer, [{ email: `ada@${slow}`, contact_id: contact }], true);
  const turn = newWorker().turn();
  await expect.poll(() => timesAsked([`ada@${slow}`]), patience).toEqual([1]);
  await app.owner`update jobs set attempt = attempt + 1 where id = ${id}`;
  answer();
  await turn;
  expect(await readJob(id)).toMatchObject({ status: 'PROCESSING', processed: 0, credits: { charged: 0 } });
  expect(await statusOf(contact)).toBe('unverified');
});
