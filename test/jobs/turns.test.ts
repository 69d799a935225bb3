import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { unavailable } from '../../src/errors.ts';
import { settle } from '../../src/jobs/settle.ts';
import { startJob } from '../../src/jobs/start-job.ts';
import { slices } from '../../src/jobs/slices.ts';
import { takeTurn, type Slice } from '../../src/jobs/turns.ts';
import { startWorkers, type Workers } from '../../src/jobs/workers.ts';
import { patient, startApp } from '../setup/app.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';
import { begin, contextOf, echo, ended, entriesOf, jobRow, waitingMessages, verifyTurn } from './working.ts';

const test = await startApp(patient);
const context = contextOf(test);

/**
 * Starts a worker of the verify queue that runs one turn at a time. It is stopped after each test, so it cannot disturb
 * another one.
 */
async function startWorker(slice: Slice): Promise<Workers> {
  const workers = await startWorkers(
    { ...context, url: test.url },
    { verify: { handle: takeTurn('verify', { ...slices, verify_email: slice }), atOnce: 1 } },
  );
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= workers.stop());
  onTestFinished(stop);
  return { stop };
}

const turnOf = ({ id }: TestCustomer, slice: Slice): Promise<void> => verifyTurn(slice)(context, { customerId: id });

/** Expires the lease of a job, or its back-off delay, now. */
const endLease = (job: string) =>
  test.owner`update jobs set leased_until = now() - interval '1 second' where id = ${job} and lease is not null`;

/** Returns a promise and the function that resolves it. */
function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** Returns a batch that waits before it delivers its results. */
function held(): { slice: Slice; begun: Promise<void>; open: () => void } {
  const [begun, go] = [gate(), gate()];
  const slice: Slice = async (...given) => {
    begun.open();
    await go.opened;
    await echo()(...given);
  };
  return { slice, begun: begun.opened, open: go.open };
}

describe('one worker', () => {
  it("completes ten items of one customer before 5 % of another customer's 10,000 earlier items", async () => {
    const [busy, modest] = [await test.customer(), await test.customer()];
    const long = await begin(test, busy, 10_000);
    const short = await begin(test, modest, 10);
    const worker = await startWorker(echo());
    await ended(test, short);
    const [before] = await test.owner<[{ items: number }]>`
      select count(*)::integer as items
      from job_results r
      where r.job_id = ${long} and r.finished_at <= (select finished_at from jobs where id = ${short})`;
    expect(before.items).toBeLessThan(500);
    await ended(test, long);
    await worker.stop();
    expect(await jobRow(test, long)).toMatchObject({ status: 'COMPLETED', succeeded: 10_000, charged: '10000' });
  });

  it('yields a long job as soon as another customer waits', async () => {
    const [busy, modest] = [await test.customer(), await test.customer()];
    const long = await begin(test, busy, 10_000);
    const worker = await startWorker(echo());
    await expect.poll(async () => (await jobRow(test, long)).succeeded).toBeGreaterThan(1_000);
    const short = await begin(test, modest, 10);
    // Before that its message was not visible, however long the start took to commit.
    const [{ waits }] = await test.owner<[{ waits: string }]>`select clock_timestamp()::text as waits`;
    await ended(test, short);
    const [between] = await test.owner<[{ items: number }]>`
      select count(*)::integer as items
      from job_results r
      join jobs j on j.id = ${short}
      where r.job_id = ${long} and r.finished_at between ${waits} and j.finished_at`;
    expect(between.items).toBeLessThan(500);
    expect(await jobRow(test, long)).toMatchObject({ status: 'PROCESSING' });
    await ended(test, long);
    await worker.stop();
  });

  it('processes the jobs of one customer in turn', async () => {
    const customer = await test.customer();
    const long = await begin(test, customer, 30);
    const short = await begin(test, customer, 10);
    for (let turns = 0; turns < 2; turns += 1) await turnOf(customer, echo(10));
    expect(await jobRow(test, short)).toMatchObject({ status: 'COMPLETED' });
    expect(await jobRow(test, long)).toMatchObject({ status: 'PROCESSING', succeeded: 10 });
  });

  it('completes all jobs that are started while it works, without a sweep', async () => {
    const customers = await Promise.all(Array.from({ length: 4 }, () => test.customer()));
    const worker = await startWorker(echo());
    const jobs = await Promise.all(
      Array.from({ length: 120 }, (_, i) => begin(test, customers[i % customers.length]!, 1 + (i % 3))),
    );
    for (const job of jobs) await ended(test, job);
    await worker.stop();
    for (const { id } of customers) {
      const left = await test.owner`
        select from credit_balances where customer_id = ${id} and (available, reserved) <> (0, 0)`;
      expect(left.count).toBe(0);
    }
  });
});

describe('a start', () => {
  it("that finds a waiting message is seen by that message's turn, however long the start takes to commit", async () => {
    const customer = await test.customer();
    await turnAfterAnEndedJob(customer);
    await grant(test.app, customer.id, 'verification', 1);
    const [begun, go] = [gate(), gate()];
    const given = { type: 'verify_email', sync_crm: false, request: {}, pool: 'verification', cost: 1 } as const;
    const inputs = [{ position: 1, item: 'a@example.com', contact_ids: [], is_duplicate: false }];
    const starting = test.db.transaction(async (sql) => {
      const { id } = await startJob(sql, customer.id, { ...given, total: 1, reserved: 1, inputs });
      begun.open();
      await go.opened;
      return id;
    });
    await begun.opened;
    const turn = turnOf(customer, echo());
    await expect
      .poll(async () => (await test.owner`select from pg_locks where locktype = 'advisory' and not granted`).count)
      .toBeGreaterThan(0);
    go.open();
    await turn;
    expect(await jobRow(test, await starting)).toMatchObject({ status: 'COMPLETED' });
  });

  it('that is rolled back leaves no message, job or entry', async () => {
    const customer = await test.customer();
    const given = { type: 'verify_email', sync_crm: false, request: {}, pool: 'verification', cost: 1 } as const;
    const inputs = [{ position: 1, item: 'a@example.com', contact_ids: [], is_duplicate: false }];
    const undone = test.db.transaction((sql) =>
      startJob(sql, customer.id, { ...given, total: 1, reserved: 1, inputs }),
    );
    await expect(undone).rejects.toMatchObject({ code: 'insufficient_credits' });
    for (const table of ['jobs', 'job_inputs', 'credit_entries'])
      expect((await test.owner`select from ${test.owner(table)} where customer_id = ${customer.id}`).count).toBe(0);
    expect(await waitingMessages(test, 'verify', customer.id)).toBe(0);
  });

  /** Enqueues a message although there is nothing to do. */
  async function turnAfterAnEndedJob(customer: TestCustomer): Promise<void> {
    await begin(test, customer, 1);
    await turnOf(customer, echo());
    expect(await waitingMessages(test, 'verify', customer.id)).toBe(1);
  }
});

describe('a turn', () => {
  it('that has lost its lease to another turn settles nothing', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 10);
    const { slice, begun, open } = held();
    const stale = turnOf(customer, slice);
    await begun;
    await endLease(job);
    await turnOf(customer, echo(4));
    expect(await jobRow(test, job)).toMatchObject({ status: 'PROCESSING', succeeded: 4 });
    open();
    await stale;
    expect(await jobRow(test, job)).toMatchObject({ status: 'PROCESSING', succeeded: 4, failures: 0 });
    await turnOf(customer, echo());
    expect(await entriesOf(test, job)).toEqual(['reserve 10', 'charge 4', 'charge 6']);
  });

  it('that takes long renews its lease, and its signal is aborted when the lease is lost', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const customer = await test.customer();
    const job = await begin(test, customer, 10);
    const told = gate();
    const { slice, begun, open } = held();
    const turn = turnOf(customer, async (context, job, signal, leavePlace) => {
      signal.addEventListener('abort', told.open);
      await slice(context, job, signal, leavePlace);
    });
    await begun;
    await test.owner`update jobs set leased_until = now() + interval '1 second' where id = ${job}`;
    vi.advanceTimersByTime(5_000);
    const isKept = async () => {
      const [row] =
        await test.owner`select leased_until > now() + interval '5 seconds' as kept from jobs where id = ${job}`;
      return row!['kept'] as boolean;
    };
    await expect.poll(isKept).toBe(true);
    await test.owner`update jobs set lease = gen_random_uuid() where id = ${job}`;
    vi.advanceTimersByTime(5_000);
    await told.opened;
    open();
    await turn;
    expect(await jobRow(test, job)).toMatchObject({ succeeded: 0 });
  });

  it('whose job is cancelled settles nothing, and the unspent credits are released once', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 10);
    await turnOf(customer, echo(4));
    const { slice, begun, open } = held();
    const late = turnOf(customer, slice);
    await begun;
    const answer = await customer.post(`/service-handler/${job}/cancel`);
    expect(answer).toMatchObject({ status: 200, body: { status: 'CANCELLED', succeeded: 4, skipped: 6 } });
    open();
    await late;
    expect(await entriesOf(test, job)).toEqual(['reserve 10', 'charge 4', 'release 6']);
    expect(await jobRow(test, job)).toMatchObject({ status: 'CANCELLED', succeeded: 4, charged: '4', refunded: '6' });
  });

  it('does not charge again for a position that has a result', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 2);
    const first = { position: 1, item: '0@example.com', status: 'succeeded', charged: 1 } as const;
    const second = { position: 2, item: '1@example.com', status: 'failed', charged: 0 } as const;
    const again: Slice = async (context, job) => {
      await settle(context, job, async () => ({ results: [first], isLast: false }));
      await settle(context, job, async () => ({ results: [first, second], isLast: true }));
    };
    await turnOf(customer, again);
    expect(await entriesOf(test, job)).toEqual(['reserve 2', 'charge 1', 'release 1']);
    expect(await jobRow(test, job)).toMatchObject({ status: 'COMPLETED', succeeded: 1 });
  });

  it('whose writes fail leaves no trace of them, and the job backs off', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 2);
    const half: Slice = (context, job) =>
      settle(context, job, async (sql) => {
        await sql`insert into companies (customer_id, company_name, type, folded) values (${customer.id}, 'Half', '', '{}')`;
        throw new Error('half way');
      }).then(() => undefined);
    await turnOf(customer, half);
    expect((await test.owner`select from companies where customer_id = ${customer.id}`).count).toBe(0);
    expect(await jobRow(test, job)).toMatchObject({ status: 'PROCESSING', failures: 1, succeeded: 0 });
    await turnOf(customer, echo());
    expect(await jobRow(test, job)).toMatchObject({ status: 'PROCESSING', succeeded: 0 });
    await endLease(job);
    await turnOf(customer, echo());
    expect(await jobRow(test, job)).toMatchObject({ status: 'COMPLETED', failures: 0, succeeded: 2 });
  });
});

describe('a job', () => {
  const broken: Slice = async () => {
    throw new Error('secret cause');
  };

  it('that fails five times in a row becomes FAILED, shows no internal cause and releases its unspent credits', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 10);
    await turnOf(customer, echo(3));
    for (let turns = 1; turns <= 5; turns += 1) {
      expect(await jobRow(test, job)).toMatchObject({ status: 'PROCESSING', failures: turns - 1 });
      await turnOf(customer, broken);
      await endLease(job);
    }
    expect(await entriesOf(test, job)).toEqual(['reserve 10', 'charge 3', 'release 7']);
    const { body } = await customer.get(`/service-handler/${job}`);
    expect(body).toMatchObject({ status: 'FAILED', processed: 3, credits: { reserved: 10, charged: 3, refunded: 7 } });
    expect(body.error).toMatch(/error of the service/);
    expect(body.error).not.toMatch(/secret/);
  });

  it("that fails does not block its customer's other jobs", async () => {
    const customer = await test.customer();
    const poison = await begin(test, customer, 10);
    const good = await begin(test, customer, 10);
    const worker = await startWorker(async (context, job, ...rest) =>
      job.id === poison ? broken(context, job, ...rest) : echo()(context, job, ...rest),
    );
    await ended(test, good);
    await worker.stop();
    expect(await jobRow(test, poison)).toMatchObject({ status: 'PROCESSING' });
  });

  it('waits without limit for an unavailable service and counts no failure', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 10);
    for (let turns = 0; turns < 7; turns += 1) {
      await turnOf(customer, async () => {
        throw unavailable('The catalog does not answer');
      });
      expect(await jobRow(test, job)).toMatchObject({ status: 'PROCESSING', failures: 0 });
      await endLease(job);
    }
    await turnOf(customer, echo());
    expect(await jobRow(test, job)).toMatchObject({ status: 'COMPLETED' });
  });

  it('of a suspended customer waits until it is resumed', async () => {
    const customer = await test.customer();
    const job = await begin(test, customer, 10);
    await test.owner`update customers set status = 'SUSPENDED' where id = ${customer.id}`;
    await turnOf(customer, echo());
    expect(await jobRow(test, job)).toMatchObject({ status: 'PENDING' });
    await test.owner`update customers set status = 'OK' where id = ${customer.id}`;
    await turnOf(customer, echo());
    expect(await jobRow(test, job)).toMatchObject({ status: 'COMPLETED' });
  });
});
