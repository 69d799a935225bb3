import { pino } from 'pino';
import { expect, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/database/db.ts';
import { type Handler, type JobContext, settle, takeTurn, type JobBatch } from '../../src/jobs/turns.ts';
import { jobBatches } from '../../src/jobs/workers.ts';
import { startJob } from '../../src/jobs/start-job.ts';
import { findNextInputs } from '../../src/queries/jobs/runs.ts';
import { allCustomers } from '../../src/access/credentials.ts';
import { parseConfig } from '../../src/process/config.ts';
import type { TestApp } from '../setup/app.ts';
import { isOnCitus } from '../setup/database.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';

const log = pino({ level: 'silent' });

/** Returns the services that job handlers use in this process. */
export const contextOf = ({ config, db, catalog, verifier }: TestApp): JobContext & Pick<TestApp, 'db'> => ({
  config,
  db,
  allCustomersDb: db.for({ customerId: allCustomers }, 'job'),
  catalog,
  verifier,
  log,
  stopping: new AbortController().signal,
});

/** Works at the jobs of the unlock queue of a customer in this process until they have ended. */
export async function workAtUndos(app: TestApp, { id: customerId }: Pick<TestCustomer, 'id'>): Promise<void> {
  const context = { ...contextOf(app), db: app.db.for({ customerId }, 'job') };
  // A turn ends early while other customers wait.
  for (let turns = 0; turns < 100; turns += 1) {
    await takeTurn('unlock', jobBatches)(context, { customerId });
    const open = await app.owner`select id from jobs where customer_id = ${customerId} and finished_at is null`;
    if (open.length === 0) return;
  }
}

/** Creates a job of the verify queue with this many inputs, and grants the credits for them. */
export async function begin(app: TestApp, { id }: Pick<TestCustomer, 'id'>, items: number): Promise<string> {
  await grant(app.fastify, id, 'verification', items);
  const inputs = Array.from({ length: items }, (_, i) => ({
    position: i + 1,
    item: `${i}@example.com`,
    address: null,
    contact_ids: [],
    is_duplicate: false,
  }));
  const given = { type: 'verify_email', sync_crm: false, request: {}, pool: 'verification', cost: 1 } as const;
  const begun = await app.db.transaction((sql) =>
    startJob(sql, { customerId: id, apiKeyId: null }, { ...given, total: items, reserved: items, inputs }),
  );
  return begun.id;
}

/** Creates a batch function that returns the next inputs unchanged as results, each charged at the job's cost. */
export const echo =
  (limit = 200): JobBatch =>
  async (context, job) => {
    const { position: after } = (job.progress ?? { position: 0 }) as { position: number };
    const inputs = await context.db.lookup((sql) => findNextInputs(sql, job.customer_id, job.id, { after, limit }));
    await settle(context, job, async () => ({
      results: inputs.map(({ position, item }) => ({ position, item, status: 'succeeded', charged: job.cost })),
      progress: { position: inputs.at(-1)!.position },
      mayComplete: true,
    }));
  };

/** Returns the current row of a job. */
export async function jobRow({ owner }: TestApp, id: string) {
  const [job] = await owner<
    {
      status: string;
      succeeded: number;
      skipped: number;
      charged: string;
      refunded: string;
      failures: number;
      attempt: number;
      error: string | null;
      purged_at: Date | null;
    }[]
  >`select * from jobs where id = ${id}`;
  return job!;
}

/** Waits until a job has ended. */
export async function ended(app: TestApp, id: string): Promise<void> {
  await expect
    .poll(async () => (await jobRow(app, id)).status, { timeout: 100_000, interval: 20 })
    .toMatch(/COMPLETED|FAILED|CANCELLED/);
}

/** Returns a job's ledger entries in order, as `kind amount`. */
export async function entriesOf({ owner }: TestApp, jobId: string): Promise<string[]> {
  const entries = await owner<{ kind: string; amount: string }[]>`
    select kind, amount from credit_entries where job_id = ${jobId} order by number`;
  return entries.map(({ kind, amount }) => `${kind} ${amount}`);
}

/** Returns the number of a customer's messages that wait in a queue. */
export async function waitingMessages({ owner }: TestApp, queue: string, customerId: string): Promise<number> {
  const { count } = await owner`
    select from pgboss.job
    where name = ${queue} and state = 'created' and data ->> 'customerId' = ${customerId} and start_after <= now()`;
  return count;
}

/** Creates a handler whose turns run one batch of a verification job with this function. */
export const verifyTurn = (slice: JobBatch): Handler<'verify'> =>
  takeTurn('verify', { ...jobBatches, verify_email: slice }, 0);

/**
 * Makes each write of a contact with this first name take a while, until the test ends. Returns a database whose statements may
 * take a second.
 */
export async function slowDb(app: TestApp, firstName: string, seconds: number): Promise<TestApp['db']> {
  await app.owner.unsafe(`
    create function pause(name text) returns boolean language plpgsql as $$
      begin
        perform pg_sleep(case when name = '${firstName}' then ${seconds} else 0 end);
        return true;
      end $$`);
  await app.owner`alter table contacts add constraint contacts_pause check (pause(first_name)) not valid`;
  const hurried = openDatabase(parseConfig({ STATEMENT_TIMEOUT_MS: '1000' }), app.url, { distributed: isOnCitus() });
  onTestFinished(async () => {
    await hurried.close();
    await app.owner`alter table contacts drop constraint contacts_pause`;
  });
  return hurried;
}
