import { pino } from 'pino';
import { expect } from 'vitest';
import { startWorkers, type Workers } from '../../src/jobs/workers.ts';
import { wake } from '../../src/jobs/wake.ts';
import { grantCredits, reserveCredits } from '../../src/queries/credits.ts';
import { insertInputs, insertJob } from '../../src/queries/jobs.ts';
import { unlockedAmong } from '../../src/queries/unlocks.ts';
import type { TestApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';

/** A customer with credits to unlock with. */
export async function customerWithCredits(t: TestApp, credits: number): Promise<TestCustomer> {
  const customer = await t.customer();
  const given = { pool: 'subscription', amount: credits, note: null } as const;
  await t.db.transaction((sql) => grantCredits(sql, customer.id, given));
  return customer;
}

/** Workers as `work` has them, in this process. */
export async function startOwnWorkers(t: TestApp): Promise<Workers> {
  const log = pino({ level: process.env['JOB_LOG_LEVEL'] ?? 'silent' });
  return startWorkers({ config: t.config, db: t.db, catalog: t.catalog, log, url: t.url });
}

/** The job's row. */
export async function readJob(t: TestApp, id: string) {
  const [job] = await t.owner`select * from jobs where id = ${id}`;
  return job!;
}

/** The job, when it has ended. */
export async function ended(t: TestApp, id: string) {
  await expect
    .poll(async () => (await readJob(t, id))['finished_at'], { timeout: 60_000, interval: 50 })
    .not.toBeNull();
  return readJob(t, id);
}

/** What became of the items, in their order. */
export const resultsOf = (t: TestApp, id: string) =>
  t.owner`select position, item, contact_id, status, reason, charged, result from job_results where job_id = ${id} order by position`;

/** The balance and what is put aside, and the ledger's own sums of them. */
export async function creditsOf(t: TestApp, customer: TestCustomer) {
  const [kept] = await t.owner`
    select available::integer, reserved::integer from credit_balances where customer_id = ${customer.id} and pool = 'subscription'`;
  const [summed] = await t.owner`
    select
      coalesce(sum(case kind when 'grant' then amount when 'adjust' then amount when 'release' then amount when 'reserve' then -amount end), 0)::integer as available,
      coalesce(sum(case kind when 'reserve' then amount when 'release' then -amount when 'charge' then -amount end), 0)::integer as reserved
    from credit_entries where customer_id = ${customer.id} and pool = 'subscription'`;
  expect(kept).toEqual(summed);
  return kept!;
}

/** Starts a job by filters; answers its id. */
export const startUnlock = (
  t: TestApp,
  customer: TestCustomer,
  { sync_crm = false, ...request }: { filters: object; order_by?: object; total_records: number; sync_crm?: boolean },
): Promise<string> =>
  t.db.transaction(async (sql) => {
    const total = request.total_records;
    const { id } = await insertJob(sql, customer.id, {
      type: 'unlock_contacts',
      sync_crm,
      request,
      pool: 'subscription',
      total,
      cost: 1,
      reserved: total,
    });
    await wake(sql, 'unlock', customer.id);
    await reserveCredits(sql, customer.id, id, { pool: 'subscription', amount: total });
    return id;
  });

/** Starts a job by ids; answers its id. */
export const startSelected = (
  t: TestApp,
  customer: TestCustomer,
  { sync_crm = false, ids }: { ids: string[]; sync_crm?: boolean },
): Promise<string> =>
  t.db.transaction(async (sql) => {
    const distinct = [...new Set(ids)];
    const reserved = distinct.length - (await unlockedAmong(sql, customer.id, distinct)).size;
    const { id } = await insertJob(sql, customer.id, {
      type: 'unlock_selected_contacts',
      sync_crm,
      request: {},
      pool: 'subscription',
      total: ids.length,
      cost: 1,
      reserved,
    });
    await insertInputs(
      sql,
      customer.id,
      id,
      ids.map((item, i) => ({
        position: i + 1,
        item,
        contact_ids: [],
        is_duplicate: ids.indexOf(item) < i,
      })),
    );
    await wake(sql, 'unlock', customer.id);
    await reserveCredits(sql, customer.id, id, { pool: 'subscription', amount: reserved });
    return id;
  });
