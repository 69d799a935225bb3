import { expect } from 'vitest';
import type { TestApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { verify as callVerify } from './calls.ts';

/** An email to verify, optionally with the contact that it belongs to. */
export type Given = string | { email: string; contact_id: string };

/** Starts a verification of emails and returns the job's id. */
export async function startVerify(customer: TestCustomer, emails: Given[], sync_crm = false): Promise<string> {
  const given = emails.map((email) => (typeof email === 'string' ? { email } : email));
  const answer = await callVerify(customer, { emails: given, sync_crm });
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200, body: { status: 'PENDING' } });
  return answer.body.id;
}

/**
 * Expects one result for each input, and that results, job, ledger and balance agree: nothing was charged twice or
 * missed.
 */
export async function expectSettled(app: TestApp, customer: TestCustomer, id: string): Promise<void> {
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
