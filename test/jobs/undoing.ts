import { expect } from 'vitest';
import { customerOfEachTest, type TestApp } from '../setup/app.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';
import { readJob, resultsOf } from './spending.ts';
import { workAtUndos } from './working.ts';

interface Row {
  status: string;
  reason: string | null;
  result: { kept: object[] } | null;
}

/** What a dry run must have promised. */
const numbersOf = (rows: readonly Row[]) => ({
  records: rows.length,
  restored: rows.filter(({ status }) => status === 'succeeded').length,
  kept: rows.filter(({ reason, result }) => result?.kept.length || reason === 'changed_since' || reason === 'in_use')
    .length,
  conflicts: rows.filter(({ reason }) => reason === 'taken').length,
});

/** Undoes a change, as its dry run says. Returns the job, which has ended, and its results. */
export async function undoChange(app: TestApp, customer: TestCustomer, changeId: string) {
  const promised = (await customer.post(`/changes/${changeId}/undo`, { dry_run: true })).body;
  const started = await customer.post(`/changes/${changeId}/undo`, {});
  expect(started, JSON.stringify(started.body)).toMatchObject({ status: 200, body: { status: 'PENDING' } });
  await workAtUndos(app, customer);
  const job = await readJob(customer, started.body.id);
  expect(job).toMatchObject({ status: 'COMPLETED', type: 'undo', processed: job.total, error: null });
  const results = await resultsOf(customer, job.id);
  expect(promised).toEqual(numbersOf(results as unknown as Row[]));
  return { id: job.id, job, results };
}

/** Returns the id of the newest change. */
export async function newestChange(customer: TestCustomer): Promise<string> {
  const { body } = await customer.post('/changes/list', { paginate: { limit: 1 } });
  return body[0].change_id;
}

/** Returns the id of the change that a call makes. */
export async function changeOf(customer: TestCustomer, call: Promise<Answer>): Promise<string> {
  const { status, body } = await call;
  expect(status, JSON.stringify(body)).toBeLessThan(300);
  return newestChange(customer);
}

/** Returns a customer that is a new one in each test, and what the tests of undos do with it. */
export function undoing(app: TestApp) {
  const customer = customerOfEachTest(app);
  return {
    customer,
    undo: (changeId: string) => undoChange(app, customer, changeId),
    estimate: async (changeId: string) => (await customer.post(`/changes/${changeId}/undo`, { dry_run: true })).body,
    newestChange: () => newestChange(customer),
    changeOf: (call: Promise<Answer>) => changeOf(customer, call),
  };
}
