import { describe, expect, test } from 'vitest';
import type { Transaction } from '../../../src/database/db.ts';
import { checkCredits } from '../../../src/queries/jobs/credit-checks.ts';
import { reserveCredits } from '../../../src/queries/jobs/credits.ts';
import { insertJob } from '../../../src/queries/jobs/jobs.ts';
import { startApp } from '../../setup/app.ts';
import { grant } from '../../setup/factories.ts';

const app = await startApp();
const pool = 'subscription';

const inTransaction = <T>(work: (sql: Transaction) => Promise<T>): Promise<T> => app.db.transaction(work);

/** Creates a customer with this many credits. Returns its id. */
async function spender(amount: number): Promise<string> {
  const { id } = await app.customer();
  await grant(app.fastify, id, pool, amount);
  return id;
}

/** Creates a job that has reserved nothing. */
const jobOf = async (id: string): Promise<string> => {
  const given = { api_key_id: null, type: 'unlock_contacts', sync_crm: false, request: {}, pool } as const;
  return (await inTransaction((sql) => insertJob(sql, id, { ...given, total: 0, cost: 1, reserved: 0 }))).id;
};

const reserve = (id: string, job: string, amount: number) =>
  inTransaction((sql) => reserveCredits(sql, id, job, { pool, amount, apiKeyId: null }));

async function balanceOf(id: string): Promise<{ available: number; reserved: number }> {
  const [row] = await app.owner<[{ available: number; reserved: number }]>`
    select available::integer, reserved::integer from credit_balances where customer_id = ${id} and pool = ${pool}`;
  return { ...row };
}

describe('the ledger', () => {
  test('cannot be updated, deleted from or truncated by the service', async () => {
    const id = await spender(5);
    const forbidden = [
      `update credit_entries set amount = 6 where customer_id = '${id}'`,
      `delete from credit_entries where customer_id = '${id}'`,
      'truncate credit_entries',
      `delete from credit_balances where customer_id = '${id}'`,
    ];
    for (const text of forbidden)
      await expect(
        inTransaction((sql) => sql.unsafe(text)),
        text,
      ).rejects.toThrow(/permission denied/);
    expect(await app.owner`select amount from credit_entries where customer_id = ${id}`).toEqual([{ amount: '5' }]);
  });
});

describe('a reservation', () => {
  test('never takes the same credits twice: of concurrent reservations only as many succeed as there are credits for', async () => {
    const id = await spender(20);
    const jobs = await Promise.all(Array.from({ length: 50 }, () => jobOf(id)));
    const outcomes = await Promise.allSettled(jobs.map((job) => reserve(id, job, 1)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
    expect(await balanceOf(id)).toEqual({ available: 0, reserved: 20 });
    const faults = await app.db.lookup((sql) => checkCredits(sql, id));
    expect(faults.filter(({ of }) => of.startsWith(pool))).toEqual([]);
  });
});
