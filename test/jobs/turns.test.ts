import { pino } from 'pino';
import { describe, expect, test, onTestFinished } from 'vitest';
import { unavailable } from '../../src/errors.ts';
import { jobBatches, startWorkers, type Workers } from '../../src/jobs/workers.ts';
import { settle, takeTurn, type JobBatch } from '../../src/jobs/turns.ts';
import { startJob } from '../../src/jobs/start-job.ts';
import { enqueueTurn, type Message } from '../../src/queries/records/turns.ts';
import { startApp } from '../setup/app.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';
import { begin, contextOf, echo, ended, entriesOf, jobRow, waitingMessages, verifyTurn } from './working.ts';

const app = await startApp();
const context = contextOf(app);

/**
 * Starts a worker of the verify queue, which counts as a process of its own and runs so many turns at a time. It is stopped
 * after each test, so it cannot disturb another one.
 */
async function startWorker(slice: JobBatch, atOnce = 1): Promise<Workers> {
  const workers = await startWorkers(
    { ...context, url: app.url },
    { verify: { handle: takeTurn('verify', { ...jobBatches, verify_email: slice }), atOnce } },
  );
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= workers.stop());
  onTestFinished(stop);
  return { stop };
}

/** Takes a turn, as with this message if one is given. */
const turnOf = ({ id }: TestCustomer, slice: JobBatch, message?: Message): Promise<void> =>
  verifyTurn(slice)(
    { ...context, ...(message && { message: { signal: new AbortController().signal, ...message } }) },
    { customerId: id },
  );

/** Takes the message of a customer as the queue does for a worker, from another one that gave no sign of life if need be. */
async function takeMessage({ id }: TestCustomer): Promise<Message> {
  const [message] = await app.owner<[Message]>`
    update pgboss.job
    set
      state = 'active', started_on = now(), heartbeat_on = now(),
      retry_count = retry_count + case when state = 'active' then 1 else 0 end
    where name = 'verify' and group_id = ${id}
    returning id, retry_count as "retryCount"`;
  return message;
}

/** Ends the rest of a job now. */
const endRest = (job: string) => app.owner`update jobs set due_at = now() where id = ${job}`;

/** Returns a promise and the function that resolves it. */
function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** Returns a batch that waits before it delivers its results. */
function held(): { slice: JobBatch; begun: Promise<void>; open: () => void } {
  const [begun, go] = [gate(), gate()];
  const slice: JobBatch = async (...given) => {
    begun.open();
    await go.opened;
    await echo()(...given);
  };
  return { slice, begun: begun.opened, open: go.open };
}

test('the log lines of a worker name the request that started the job', async () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  const caller = await app.customer();
  await grant(app.fastify, caller.id, 'verification', 1);
  const body = { emails: [{ email: 'nobody' }], sync_crm: false };
  const { id } = (await caller.post('/service-handler/verify-email', body, { 'x-request-id': 'of-verify-email' })).body;
  await takeTurn('verify', jobBatches)({ ...context, log }, { customerId: caller.id });
  const said = { job_id: id, reqId: 'of-verify-email', msg: 'a job is completed' };
  expect(lines).toContainEqual(expect.objectContaining(said));
});

test('the slots of two worker processes are shared: one customer alone gets half of them, another gets one at once, and all jobs complete', async () => {
  await app.owner`delete from pgboss.job where name = 'verify'`; // those of other tests
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
  for (let processes = 0; processes < 2; processes += 1) await startWorker(slice, 2);
  const jobs: string[] = [];
  for (let i = 0; i < 6; i += 1) jobs.push(await begin(app, greedy, 5));
  await expect.poll(() => inFlight.get(greedy.id), { timeout: 20_000 }).toBe(2);
  jobs.push(await begin(app, modest, 5));
  await expect.poll(() => inFlight.get(modest.id), { timeout: 20_000 }).toBe(1);
  open();
  for (const job of jobs) await ended(app, job);
  expect(Object.fromEntries(most)).toEqual({ [greedy.id]: 2, [modest.id]: 1 });
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

test("one worker completes ten items of one customer before 5 % of another customer's 10,000 earlier items", async () => {
  const [busy, modest] = [await app.customer(), await app.customer()];
  const long = await begin(app, busy, 10_000);
  const short = await begin(app, modest, 10);
  const worker = await startWorker(echo());
  await ended(app, short);
  const [before] = await app.owner<[{ items: number }]>`
      select count(*)::integer as items
      from job_results r
      where r.job_id = ${long} and r.finished_at <= (select finished_at from jobs where id = ${short})`;
  expect(before.items).toBeLessThan(500);
  await ended(app, long);
  await worker.stop();
  expect(await jobRow(app, long)).toMatchObject({ status: 'COMPLETED', succeeded: 10_000, charged: '10000' });
});

test('one worker processes the jobs of one customer in turn', async () => {
  const customer = await app.customer();
  const long = await begin(app, customer, 30);
  const short = await begin(app, customer, 10);
  for (let turns = 0; turns < 2; turns += 1) await turnOf(customer, echo(10));
  expect(await jobRow(app, short)).toMatchObject({ status: 'COMPLETED' });
  expect(await jobRow(app, long)).toMatchObject({ status: 'PROCESSING', succeeded: 10 });
});

test('a start has a message of its own, however long it takes to commit: turns of other messages do not see its job', async () => {
  const customer = await app.customer();
  await app.db.transaction((sql) => enqueueTurn(sql, 'verify', customer.id));
  await grant(app.fastify, customer.id, 'verification', 1);
  const [begun, go] = [gate(), gate()];
  const given = { type: 'verify_email', sync_crm: false, request: {}, pool: 'verification', cost: 1 } as const;
  const inputs = [{ position: 1, item: 'a@example.com', address: null, contact_ids: [], is_duplicate: false }];
  const starting = app.db.transaction(async (sql) => {
    const { id } = await startJob(
      sql,
      { customerId: customer.id, apiKeyId: null },
      { ...given, total: 1, reserved: 1, inputs },
    );
    begun.open();
    await go.opened;
    return id;
  });
  await begun.opened;
  await app.owner`delete from pgboss.job where name = 'verify'`; // as when a worker takes the message that waits
  await turnOf(customer, echo());
  expect(await waitingMessages(app, 'verify', customer.id)).toBe(0);
  go.open();
  const job = await starting;
  expect(await waitingMessages(app, 'verify', customer.id)).toBe(1);
  await turnOf(customer, echo());
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
});

test('a turn settles nothing once another one has taken its job', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 10);
  const { slice, begun, open } = held();
  const stale = turnOf(customer, slice);
  await begun;
  await turnOf(customer, echo(4));
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 4 });
  open();
  await stale;
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 4, failures: 0 });
  await turnOf(customer, echo());
  expect(await entriesOf(app, job)).toEqual(['reserve 10', 'charge 4', 'charge 6']);
});

test('a turn is told when the queue gives its message to another worker, and settles nothing', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 10);
  const { slice, begun, open } = held();
  const { opened: told, open: tell } = gate();
  const lost = new AbortController();
  const message = { ...(await takeMessage(customer)), signal: lost.signal };
  const late = verifyTurn(async (given, run, signal) => {
    signal.addEventListener('abort', tell);
    await slice(given, run, signal);
  })({ ...context, message }, { customerId: customer.id });
  await begun;
  await turnOf(customer, echo(3), await takeMessage(customer));
  lost.abort();
  await told;
  open();
  await late;
  expect(await jobRow(app, job)).toMatchObject({ succeeded: 3, failures: 0 });
});

test('a turn leaves a job to the turn that works at it, as long as the queue sees a sign of life', async () => {
  await app.owner`delete from pgboss.job where name = 'verify'`; // those of other tests
  const customer = await app.customer();
  const job = await begin(app, customer, 10);
  const { slice, begun, open } = held();
  const worker = await startWorker(slice);
  await begun;
  await turnOf(customer, echo());
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 0, attempt: 1 });
  open();
  await ended(app, job);
  await worker.stop();
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED', succeeded: 10, attempt: 1 });
});

test('a turn whose job is cancelled settles nothing, and the unspent credits are released once', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 10);
  await turnOf(customer, echo(4));
  const { slice, begun, open } = held();
  const late = turnOf(customer, slice);
  await begun;
  const answer = await customer.post(`/service-handler/${job}/cancel`);
  expect(answer).toMatchObject({ status: 200, body: { status: 'CANCELLED', succeeded: 4, skipped: 6 } });
  open();
  await late;
  expect(await entriesOf(app, job)).toEqual(['reserve 10', 'charge 4', 'release 6']);
  expect(await jobRow(app, job)).toMatchObject({ status: 'CANCELLED', succeeded: 4, charged: '4', refunded: '6' });
});

test('a turn does not charge again for a position that has a result', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 2);
  const first = { position: 1, item: '0@example.com', status: 'succeeded', charged: 1 } as const;
  const second = { position: 2, item: '1@example.com', status: 'failed', charged: 0 } as const;
  const again: JobBatch = async (context, job) => {
    await settle(context, job, async () => ({ results: [first], mayComplete: false }));
    await settle(context, job, async () => ({ results: [first, second], mayComplete: true }));
  };
  await turnOf(customer, again);
  expect(await entriesOf(app, job)).toEqual(['reserve 2', 'charge 1', 'release 1']);
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED', succeeded: 1 });
});

test('a turn whose writes fail leaves no trace of them, and the job backs off', async () => {
  const customer = await app.customer();
  const job = await begin(app, customer, 2);
  const half: JobBatch = (context, job) =>
    settle(context, job, async (sql) => {
      await sql`insert into companies (customer_id, company_name, type, folded) values (${customer.id}, 'Half', '', '{}')`;
      throw new Error('half way');
    }).then(() => undefined);
  await turnOf(customer, half);
  expect((await app.owner`select from companies where customer_id = ${customer.id}`).count).toBe(0);
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', failures: 1, succeeded: 0 });
  await turnOf(customer, echo());
  expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', succeeded: 0 });
  await endRest(job);
  await turnOf(customer, echo());
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED', failures: 0, succeeded: 2 });
});

describe('a job', () => {
  const broken: JobBatch = async () => {
    throw new Error('secret cause');
  };

  test('that fails five times in a row becomes FAILED, shows no internal cause and releases its unspent credits', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 10);
    await turnOf(customer, echo(3));
    for (let turns = 1; turns <= 5; turns += 1) {
      expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', failures: turns - 1 });
      await turnOf(customer, broken);
      await endRest(job);
    }
    expect(await entriesOf(app, job)).toEqual(['reserve 10', 'charge 3', 'release 7']);
    const { body } = await customer.get(`/service-handler/${job}`);
    expect(body).toMatchObject({ status: 'FAILED', processed: 3, credits: { reserved: 10, charged: 3, refunded: 7 } });
    expect(body.error).toMatch(/error of the service/);
    expect(body.error).not.toMatch(/secret/);
  });

  test("that fails does not block its customer's other jobs", async () => {
    const customer = await app.customer();
    const poison = await begin(app, customer, 10);
    const good = await begin(app, customer, 10);
    const worker = await startWorker(async (context, job, ...rest) =>
      job.id === poison ? broken(context, job, ...rest) : echo()(context, job, ...rest),
    );
    await ended(app, good);
    await worker.stop();
    expect(await jobRow(app, poison)).toMatchObject({ status: 'PROCESSING' });
  });

  test('waits without limit for an unavailable service and counts no failure', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 10);
    for (let turns = 0; turns < 7; turns += 1) {
      await turnOf(customer, async () => {
        throw unavailable('The catalog does not answer');
      });
      expect(await jobRow(app, job)).toMatchObject({ status: 'PROCESSING', failures: 0 });
      await endRest(job);
    }
    await turnOf(customer, echo());
    expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
  });

  test('of a suspended customer waits until it is resumed', async () => {
    const customer = await app.customer();
    const job = await begin(app, customer, 10);
    await app.owner`update customers set status = 'SUSPENDED' where id = ${customer.id}`;
    await turnOf(customer, echo());
    expect(await jobRow(app, job)).toMatchObject({ status: 'PENDING' });
    await app.owner`update customers set status = 'OK' where id = ${customer.id}`;
    await turnOf(customer, echo());
    expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
  });
});
