import { queryObjects } from 'node:v8';
import { expect, onTestFinished, test } from 'vitest';
import { EmailsInFlight } from '../../../src/jobs/verification/emails-in-flight.ts';
import { runBatch, type JobBatch } from '../../../src/jobs/turns.ts';
import type { LeasedJob } from '../../../src/queries/jobs/leases.ts';
import { openVerifier } from '../../../src/verification/verifier.ts';
import { startApp } from '../../setup/app.ts';
import { contextOf } from '../working.ts';

const app = await startApp();

const alive = () =>
  [EmailsInFlight, AbortController, AbortSignal].map((type) => queryObjects(type, { format: 'count' }));

test('10,000 batches leave nothing in memory while their worker lives', async () => {
  const verifier = openVerifier({ ...app.config, VERIFY_SMTP: 'off' });
  onTestFinished(() => verifier.close());
  const stopping = new AbortController();
  const context = { ...contextOf(app), verifier, stopping: stopping.signal };
  const job = { id: 'job', type: 'verify_email', customer_id: 'customer', request: {} } as LeasedJob;
  const batch: JobBatch = async (given, { customer_id }, signal) => {
    const work = new EmailsInFlight(given, customer_id, signal);
    const none = { address: null, contact_ids: [], is_duplicate: false, earlier: null };
    const input = { ...none, position: 1, item: 'no address', domain: '' };
    expect(work.begin([input], 1)).toBe(1);
    await work.pause();
    expect(work.verified).toMatchObject([{ verification: { status: 'invalid' } }]);
    work.release(work.verified);
    work.end();
  };
  const before = alive();
  for (let batches = 0; batches < 10_000; batches += 1) await runBatch(context, job, batch, () => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  for (const [i, count] of alive().entries()) expect(count - before[i]!).toBeLessThan(100);
  expect(stopping.signal.aborted).toBe(false);
});
