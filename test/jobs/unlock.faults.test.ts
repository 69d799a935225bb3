import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openCatalog } from '../../src/catalog/open.ts';
import { parseConfig } from '../../src/process/config.ts';
import { startWorkers } from '../../src/jobs/workers.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { person, writePeople } from '../catalog/people.ts';
import { recount } from '../queries/memberships/recount.ts';
import { runAlone } from '../setup/alone.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { unique, type TestCustomer } from '../setup/factories.ts';
import { startFaultyProxy, type FaultyProxy } from '../setup/faulty-proxy.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { customerWith } from './calls.ts';
import { booksOf, ended, readJob, resultsOf, startUnlock } from './spending.ts';

runAlone();

const many = 1_500;

async function fillCatalog({ catalog }: TestApp): Promise<{ people: Prospect[]; filters: object }> {
  const last_name = unique('Name');
  const people = Array.from({ length: many }, (_, i) =>
    person({
      last_name,
      score: i % 101,
      work_email: `${last_name}${i}@x.example`,
      emails: [],
      job_company_name: `Company ${i % 90}`,
    }),
  );
  await catalog.prepare();
  await writePeople(catalog, people);
  await catalog.finish();
  return { people, filters: { last_name: [last_name] } };
}

const startWorker = (app: TestApp, environment: Record<string, string> = {}): Promise<ServerProcess> =>
  startServerProcess(app.url, environment, ['src/cli.ts', 'work', '--json']);

const unlockedSoFar = async (customer: TestCustomer, job: string): Promise<number> =>
  (await readJob(customer, job)).succeeded;

/** Lets other workers continue after a worker died: the queue misses its heartbeat now. */
const leaveToOthers = (app: TestApp) =>
  app.owner`
    update pgboss.job
    set state = 'retry', start_after = now()
    where name = 'unlock' and state = 'active'`;

/**
 * Expects that each prospect is unlocked once and charged once, in the order of the search, and that no credits stay
 * reserved.
 */
async function expectWhole(app: TestApp, customer: TestCustomer, job: string, people: Prospect[]): Promise<void> {
  expect(await ended(customer, job)).toMatchObject({
    status: 'COMPLETED',
    succeeded: many,
    credits: { reserved: many, charged: many },
  });
  const results = await resultsOf(customer, job);
  const inOrder = people.toSorted((a, b) => b.score - a.score || (a._id < b._id ? -1 : 1));
  expect(results.map(({ item }) => item)).toEqual(inOrder.map(({ _id }) => _id));
  const [{ unlocks }] = (await app.owner`
    select count(*)::integer as unlocks from unlocks where customer_id = ${customer.id} and job_id = ${job}`) as unknown as [
    { unlocks: number },
  ];
  expect(unlocks).toBe(many);
  expect(await booksOf(app, customer)).toEqual({ balance: 0, reserved: 0 });
}

test(
  'a worker killed while it unlocks prospects is followed by another that goes on, with no prospect left out, paid twice or made a contact twice',
  { timeout: 120_000 },
  async () => {
    const app = await startApp();
    const customer = await customerWith(app, { subscription: many });
    const { people, filters } = await fillCatalog(app);
    const job = await startUnlock(customer, { filters, total_records: many, sync_crm: true });
    for (let kills = 0; kills < 2; kills += 1) {
      const before = await unlockedSoFar(customer, job);
      const worker = await startWorker(app);
      await expect.poll(() => unlockedSoFar(customer, job), { timeout: 30_000, interval: 2 }).toBeGreaterThan(before);
      await worker.stop('SIGKILL');
      await leaveToOthers(app);
    }
    expect(await readJob(customer, job)).toMatchObject({ status: 'PROCESSING', finished_at: null });
    expect(await unlockedSoFar(customer, job)).toBeLessThan(many);
    const last = await startWorker(app);
    await expectWhole(app, customer, job, people);
    const { contacts, companies } = await recount(app.owner, customer.id);
    expect([contacts, companies]).toEqual([
      { kept: many, real: many },
      { kept: 90, real: 90 },
    ]);
    expect(await last.stop()).toBe(0);
  },
);

test(
  'a worker that is frozen while it unlocks prospects writes nothing after another has taken its job, and no prospect is charged twice',
  { timeout: 180_000 },
  async () => {
    const app = await startApp();
    const customer = await customerWith(app, { subscription: many });
    const { people, filters } = await fillCatalog(app);
    const job = await startUnlock(customer, { filters, total_records: many, sync_crm: true });
    const frozen = await startWorker(app);
    await expect.poll(() => unlockedSoFar(customer, job), { timeout: 30_000, interval: 2 }).toBeGreaterThan(0);
    process.kill(frozen.pid, 'SIGSTOP');
    const before = await unlockedSoFar(customer, job);
    expect(before).toBeLessThan(many);
    const next = await startWorker(app);
    await expect.poll(() => unlockedSoFar(customer, job), { timeout: 60_000 }).toBeGreaterThan(before);
    process.kill(frozen.pid, 'SIGCONT');
    await expectWhole(app, customer, job, people);
    const { contacts } = await recount(app.owner, customer.id);
    expect(contacts).toEqual({ kept: many, real: many });
    expect([await frozen.stop(), await next.stop()]).toEqual([0, 0]);
  },
);

describe.skipIf(noElasticsearch)(`a search cluster that stops while prospects are unlocked ${need}`, () => {
  let environment: Record<string, string> = {};
  let proxy: FaultyProxy;
  let app: TestApp;
  beforeAll(async () => {
    environment = await ownCatalog();
    proxy = await startFaultyProxy(environment['ELASTICSEARCH_URL']!);
    app = await startApp({ ...environment });
  });
  afterAll(async () => {
    await proxy.close();
    await dropCatalog(environment);
  });

  const throughProxy = () => ({
    ...environment,
    ELASTICSEARCH_URL: proxy.through(environment['ELASTICSEARCH_URL']!),
    ELASTICSEARCH_TIMEOUT_MS: '1000',
  });
  const untold = async (customer: TestCustomer): Promise<number> => {
    const [row] = await app.owner`
      select count(*)::integer as count from unlocks where customer_id = ${customer.id} and not in_catalog`;
    return row!['count'];
  };
  const cut = () => {
    proxy.hangUp(true);
    proxy.resetAll();
  };

  test('makes the job wait, and the job resumes when the cluster is back', { timeout: 180_000 }, async () => {
    const config = { ...app.config, ...parseConfig(throughProxy()) };
    const catalog = openCatalog(config, app.db);
    const said: string[] = [];
    const log = pino({ level: 'warn' }, { write: (line: string) => void said.push(line) });
    const workers = await startWorkers({ config, db: app.db, catalog, log, url: app.url });
    const customer = await customerWith(app, { subscription: many });
    const { people, filters } = await fillCatalog(app);
    const job = await startUnlock(customer, { filters, total_records: many });
    await expect.poll(() => unlockedSoFar(customer, job), { timeout: 60_000, interval: 5 }).toBeGreaterThan(0);
    cut();
    const wentWrong = () => said.filter((line) => line.includes('unavailable')).length;
    await expect.poll(wentWrong, { timeout: 60_000 }).toBeGreaterThan(1);
    expect(await readJob(customer, job)).toMatchObject({ status: 'PROCESSING', error: null });
    expect(await unlockedSoFar(customer, job)).toBeLessThan(many);
    proxy.hangUp(false);
    await expectWhole(app, customer, job, people);
    expect(await untold(customer)).toBe(0);
    await workers.stop();
    await catalog.close();
  });

  test(
    'and a worker that is killed then leave no unlock that the cluster does not know when the job has ended',
    { timeout: 180_000 },
    async () => {
      // No sweep runs: the job itself must index what the dead worker has not indexed.
      await app.owner`delete from pgboss.schedule`;
      await app.owner`delete from pgboss.job where name = 'sweep-jobs'`;
      const customer = await customerWith(app, { subscription: many });
      const { people, filters } = await fillCatalog(app);
      const job = await startUnlock(customer, { filters, total_records: many });
      const worker = await startWorker(app, throughProxy());
      await expect.poll(() => untold(customer), { timeout: 60_000, interval: 1 }).toBeGreaterThan(0);
      cut();
      await worker.stop('SIGKILL');
      const left = await untold(customer);
      expect(left).toBeGreaterThan(0);
      proxy.hangUp(false);
      await leaveToOthers(app);
      const next = await startWorker(app, environment);
      await expectWhole(app, customer, job, people);
      expect(await untold(customer)).toBe(0);
      const { body } = await customer.post('/prospect/metadata', { filters });
      expect(body.pagination.total_records).toBe(0);
      expect(await next.stop()).toBe(0);
    },
  );
});
