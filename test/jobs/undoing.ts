import { expect } from 'vitest';
import type { TestApp } from '../setup/app.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';
import { readJob, resultsOf } from './spending.ts';
import { workAtUndos } from './working.ts';

/** Undoes a change. Returns the job, which has ended, and its results. */
export async function undoChange(app: TestApp, customer: TestCustomer, changeId: string) {
  const started = await customer.post(`/changes/${changeId}/undo`, {});
  expect(started, JSON.stringify(started.body)).toMatchObject({ status: 200, body: { status: 'PENDING' } });
  await workAtUndos(app, customer);
  const job = await readJob(customer, started.body.id);
  expect(job).toMatchObject({ status: 'COMPLETED', type: 'undo', processed: job.total, error: null });
  return { id: job.id, job, results: await resultsOf(customer, job.id) };
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
