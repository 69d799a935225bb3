import { expect, test } from 'vitest';
import { sweepJobs } from '../../src/jobs/workers.ts';
import type { Import } from '../../src/schemas/imports.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { startServerProcess } from '../setup/server-process.ts';
import { beginImport, contactLines, contactsCsv, countsOf, errorsOf, newContacts, sendFile } from './importing.ts';
import { contextOf } from './working.ts';

const app = await startApp();

const customer = customerOfEachTest(app);

const read = async (id: string): Promise<Import> => (await customer.get(`/imports/${id}`)).body;

/** Kills a worker process as soon as it has written more records, or has ended the import. */
async function workUntilKilled(id: string): Promise<Import> {
  const { processed } = await read(id);
  const worker = await startServerProcess(app.url, {}, ['src/cli.ts', 'work', '--json']);
  let seen = await read(id);
  await expect
    .poll(async () => ((seen = await read(id)), seen.processed > processed || seen.finished_at !== null), {
      timeout: 60_000,
      interval: 5,
    })
    .toBe(true);
  await worker.stop('SIGKILL');
  // As if the queue had missed its heartbeat, so that the test need not wait for that.
  await app.owner`delete from pgboss.job where name = 'import' and state = 'active'`;
  await sweepJobs(contextOf(app), {});
  return read(id);
}

test('an import is exact though its workers are killed', { timeout: 120_000 }, async () => {
  const lines = contactLines(12_000);
  for (let i = 5; i < lines.length; i += 97) lines[i] = `Ada,No ${i},no address,`;
  const id = await beginImport(customer, newContacts);
  await sendFile(customer, id, contactsCsv(...lines));
  const seen: number[] = [];
  for (let done = false; !done;) {
    const { processed, finished_at: end } = await workUntilKilled(id);
    seen.push(processed);
    done = end !== null || seen.length === 3;
  }
  const last = await startServerProcess(app.url, {}, ['src/cli.ts', 'work', '--json']);
  await expect.poll(async () => (await read(id)).status, { timeout: 60_000 }).toBe('COMPLETED');
  await last.stop();
  expect(seen.length).toBeGreaterThan(1);

  const good = lines.filter((line) => !line.includes('no address'));
  const failed = lines.length - good.length;
  expect(countsOf(await read(id))).toMatchObject({ total: 12_000, processed: 12_000, created: good.length, failed });
  const stored = await app.owner<{ work_email: string }[]>`
    select work_email from contacts where customer_id = ${customer.id} order by id`;
  expect(stored.map(({ work_email }) => work_email)).toEqual(good.map((line) => line.split(',')[2]));
  const { body } = await customer.post('/contacts/metadata', {});
  expect(body.pagination.total_records).toBe(good.length);
  const errors = await errorsOf(customer, id);
  const expected = lines.flatMap((line, i) => (line.includes('no address') ? [`${line},${i + 2}`] : []));
  expect(errors.map((line) => line.split(',').slice(0, 5).join(','))).toEqual(expected);
});
