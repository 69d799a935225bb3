import { pino } from 'pino';
import { afterAll, expect, test, vi } from 'vitest';
import { startWorkers, type Workers } from '../../src/jobs/workers.ts';
import { startApp } from '../setup/app.ts';

const app = await startApp();
const lines: string[] = [];
const log = pino({}, { write: (line) => void lines.push(line) });
const services = { config: app.config, db: app.db, catalog: app.catalog, url: app.url, log };

let workers: Workers | undefined;
afterAll(() => workers?.stop());

/** Enqueues the jobs of all schedules, with the data that pg-boss stores for them. */
const enqueueScheduled = () => app.owner<{ id: string; name: string }[]>`
  insert into pgboss.job (name, data) select name, data from pgboss.schedule returning id, name`;

const logged = () =>
  lines.map((line) => JSON.parse(line) as { msg: string; message_id?: string; kind?: string; level: number });

test('a worker completes the jobs of every schedule', async () => {
  const scheduled = await enqueueScheduled();
  expect(scheduled.map(({ name }) => name).sort()).toEqual(['remove-idempotency-records', 'sweep-jobs']);
  workers = await startWorkers(services);
  await vi.waitFor(
    () => {
      const done = logged().filter(({ msg }) => msg === 'job done');
      for (const { id } of scheduled) expect(done.map(({ message_id }) => message_id)).toContain(id);
    },
    { timeout: 30_000, interval: 50 },
  );
});

test('the error of a failed job is logged', async () => {
  await workers?.stop();
  const fails = { handle: () => Promise.reject(new Error('no luck')), atOnce: 1 };
  workers = await startWorkers(services, { 'remove-idempotency-records': fails });
  await enqueueScheduled();
  const failure = () => logged().find(({ msg }) => msg === 'job failed');
  await vi.waitFor(() => expect(failure()).toBeDefined(), { timeout: 30_000, interval: 50 });
  expect(failure()).toMatchObject({ level: 50, kind: 'remove-idempotency-records', err: { message: 'no luck' } });
});

test('a finished message is removed about a minute after its end', async () => {
  await workers?.stop();
  await app.owner`delete from pgboss.job`;
  const kinds = await app.owner<{ name: string }[]>`
    update pgboss.queue set maintain_on = now() - interval '65 seconds' returning name`;
  await app.owner`
    insert into pgboss.job (name, state, completed_on, deletion_seconds)
    select name, 'completed', now() - interval '65 seconds', deletion_seconds
    from pgboss.queue`;
  workers = await startWorkers(services);
  const left = () => app.owner`
    select name from pgboss.job where state = 'completed' and completed_on < now() - interval '60 seconds'`;
  expect(kinds.length).toBeGreaterThan(5);
  await vi.waitFor(async () => expect(await left()).toEqual([]), { timeout: 30_000, interval: 50 });
});
