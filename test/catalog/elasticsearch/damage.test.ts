import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Catalog } from '../../../src/catalog/catalog.ts';
import { namesOf } from '../../../src/catalog/elasticsearch/indexes.ts';
import { importPeople, type ImportReport } from '../../../src/catalog/import-people.ts';
import type { Database } from '../../../src/database/db.ts';
import { takeTurn } from '../../../src/jobs/turns.ts';
import { jobBatches, startWorkers } from '../../../src/jobs/workers.ts';
import { insertUnlocks, findUnindexedProspects } from '../../../src/queries/jobs/unlocks.ts';
import type { Prospect } from '../../../src/schemas/prospects.ts';
import { customerWith } from '../../jobs/calls.ts';
import { booksOf, ended, startSelected, startUnlock } from '../../jobs/spending.ts';
import { contextOf } from '../../jobs/working.ts';
import { startApp, type TestApp } from '../../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../../setup/elasticsearch.ts';
import { inject, type TestCustomer } from '../../setup/factories.ts';
import { person } from '../people.ts';

/**
 * Sends a request directly to the search cluster, not through the service. Returns the parsed body.
 * @throws Error if the status is not 2xx
 */
async function askCluster(url: string, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await fetch(`${url}/${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** Returns the names of the indexes that have an alias. */
async function indexesBehind(url: string, alias: string): Promise<string[]> {
  const found = (await (await fetch(`${url}/_alias/${alias}`)).json()) as object;
  return 'error' in found ? [] : Object.keys(found);
}

/** Imports people as the command line does. Returns the report. */
function runImport(
  { db, catalog }: { db: Database; catalog: Catalog },
  people: Prospect[],
  source?: string,
): Promise<ImportReport> {
  return importPeople(db, catalog, {
    chunks: Readable.from(people.map((one) => Buffer.from(`${JSON.stringify(one)}\n`))),
    format: 'ndjson',
    source,
    onBad: (line, fault) => {
      throw new Error(`line ${line}: ${fault}`);
    },
    onProgress: () => undefined,
  });
}

describe.skipIf(noElasticsearch)(`a catalog that was imported into Elasticsearch ${need}`, () => {
  let environment: Record<string, string> = {};
  let app: TestApp;
  let customer: TestCustomer;
  let url: string;
  let alias: string;
  const people = Array.from({ length: 40 }, (_, i) => person({ score: i, last_name: 'Kept' }));

  beforeAll(async () => {
    // An import waits up to five minutes for faults that pass by themselves. The faults in this file do not.
    environment = await ownCatalog({ ELASTICSEARCH_TIMEOUT_MS: '4000' });
    app = await startApp({ ...environment });
    url = environment['ELASTICSEARCH_URL']!;
    alias = namesOf(app.config).people;
    customer = await app.customer();
  });
  afterAll(() => dropCatalog(environment));
  beforeEach(async () => void (await runImport(app, people)));

  const ask = (method: string, path: string, body?: object) => askCluster(url, method, path, body);
  const index = async (): Promise<string> => (await indexesBehind(url, alias))[0]!;
  const block = async (kind: string, isSet: boolean | null) =>
    ask('PUT', `${await index()}/_settings`, { [`index.blocks.${kind}`]: isSet });
  const ready = async (): Promise<string> => (await inject(app.fastify, 'GET', '/readyz')).body.checks.catalog;
  const unlockBody = { filters: {}, total_records: 5 };

  /** Returns the HTTP status of each call that needs the catalog. */
  async function statuses(): Promise<Record<string, number>> {
    const calls = {
      list: () => customer.post('/prospect/list', { all_contacts: true }),
      metadata: () => customer.post('/prospect/metadata', {}),
      filters: () => customer.post('/prospect/filters', { source: 'all' }),
      dryRun: () => customer.post('/service-handler/unlock-contacts', { ...unlockBody, dry_run: true }),
      drySelected: () =>
        customer.post('/service-handler/unlock-selected-contacts', { ids: [people[0]!._id], dry_run: true }),
      start: () =>
        customer.post('/service-handler/unlock-contacts', { filters: { last_name: ['x'] }, total_records: 1 }),
    };
    const found: Record<string, number> = {};
    for (const [name, call] of Object.entries(calls)) found[name] = (await call()).status;
    return found;
  }
  const allAnswer = { list: 201, metadata: 201, filters: 201, dryRun: 200, drySelected: 200, start: 200 };
  const allUnavailable = { list: 503, metadata: 503, filters: 503, dryRun: 503, drySelected: 503, start: 503 };
  const peopleUnavailable = { ...allUnavailable, filters: 201 };

  /** Inserts an unlock that is not indexed yet. Returns the id of the person. */
  async function unlockOne(): Promise<string[]> {
    const ids = [people[Math.floor(Math.random() * people.length)]!._id];
    await app.db.transaction((sql) => insertUnlocks(sql, randomUUID(), ids));
    return ids;
  }

  const sync = (ids: string[]): Promise<string> =>
    app.catalog.syncUnlocks(ids).then(
      () => 'synced',
      (error: { code?: string }) => error.code ?? 'another error',
    );
  const unindexed = (): Promise<string[]> => app.db.lookup((sql) => findUnindexedProspects(sql, 10));

  const added = () => person({ last_name: 'Added' });
  const counted = (): Promise<number> => app.catalog.count({ criteria: [] });
  /** Waits until all calls succeed. */
  const answersAgain = async () => {
    await expect.poll(statuses, { timeout: 60_000, interval: 300 }).toEqual(allAnswer);
    await expect.poll(ready, { timeout: 60_000, interval: 300 }).toBe('up');
  };

  interface Damage {
    hurt: () => Promise<unknown>;
    /** What an operator does, as docs/catalog.md says. */
    mend: () => Promise<unknown>;
    seen: Record<string, number>;
  }
  let name: string;
  const damages: Record<string, Damage> = {
    'loses its alias': {
      hurt: () => ask('DELETE', `${name}/_alias/${alias}`),
      mend: () => ask('POST', '_aliases', { actions: [{ add: { index: name, alias } }] }),
      seen: peopleUnavailable,
    },
    'is closed': {
      hurt: () => ask('POST', `${name}/_close`),
      mend: () => ask('POST', `${name}/_open`),
      seen: peopleUnavailable,
    },
    'shares its alias with another index': {
      hurt: () => ask('PUT', `${alias}-other`, { aliases: { [alias]: {} } }),
      mend: () => ask('DELETE', `${alias}-other`),
      // Elasticsearch skips the other index if nothing there can match, so these reads are complete.
      seen: { ...peopleUnavailable, drySelected: 200, start: 200 },
    },
  };
  for (const [what, { hurt, mend, seen }] of Object.entries(damages))
    test(`that ${what} is reported as a fault of the cluster, takes no import, and loses nothing until it is mended`, async () => {
      await runImport(app, [added()]);
      name = await index();
      const before = await counted();
      await hurt();
      expect(await statuses()).toEqual(seen);
      await expect.poll(ready).toBe('degraded');
      const ids = await unlockOne();
      const synced = sync(ids);
      expect(await unindexed()).toEqual(ids);
      await expect(runImport(app, [added()])).rejects.toMatchObject({ code: 'unavailable' });
      await mend();
      await answersAgain();
      expect(await synced).toBeOneOf(['synced', 'unavailable']);
      expect(await sync(ids)).toBe('synced');
      expect(await unindexed()).toEqual([]);
      expect((await runImport(app, [added()])).people).toBe(before + 1);
      expect(await counted()).toBe(before + 1);
    });

  test('whose disk is nearly full accepts writes again when there is space', async () => {
    await block('read_only_allow_delete', true);
    onTestFinished(async () => void (await block('read_only_allow_delete', null).catch(() => undefined)));
    expect(await statuses()).toEqual(allAnswer);
    await expect.poll(ready).toBe('degraded');
    const ids = await unlockOne();
    const synced = sync(ids);
    expect(await unindexed()).toEqual(ids);
    await block('read_only_allow_delete', null);
    expect(await synced).toBe('synced');
    expect(await unindexed()).toEqual([]);
    await answersAgain();
  });

  test('that is deleted is reported as a fault of the cluster, not as empty, until an import has restored it', async () => {
    const ids = await unlockOne();
    expect(await sync(ids)).toBe('synced');
    await ask('DELETE', await index());
    expect(await statuses()).toEqual(peopleUnavailable);
    await expect.poll(ready).toBe('degraded');
    expect(await sync(ids)).toBe('unavailable');
    await expect(app.catalog.reindex(() => undefined)).rejects.toMatchObject({ code: 'unavailable' });
    expect(await statuses(), 'a part of the people is not the catalog').toEqual(peopleUnavailable);
    expect((await runImport(app, people)).people).toBe(40);
    await answersAgain();
    const [unlocker] = await app.db.lookup(
      (sql) => sql<{ customer_id: string }[]>`
      select customer_id from unlocks where prospect_id = ${ids[0]!}`,
    );
    expect(await app.catalog.count({ criteria: [], netNewFor: unlocker!.customer_id })).toBe(39);
  });

  test('whose suggestions are deleted has them again after an import', async () => {
    const [values] = await indexesBehind(url, namesOf(app.config).values);
    await ask('DELETE', values!);
    expect(await statuses()).toEqual({ ...allAnswer, filters: 503 });
    await expect.poll(ready).toBe('degraded');
    await runImport(app, []);
    await answersAgain();
  });

  test('that is deleted during an import: the import fails, no index is created under its name, and the next import starts over', async () => {
    const many = Array.from({ length: 5_000 }, (_, i) => person({ score: i % 101, last_name: 'Many' }));
    let writes = 0;
    const write: Catalog['write'] = async (batch) => {
      if ((writes += 1) === 3) await ask('DELETE', await index());
      await app.catalog.write(batch);
    };
    const doomed = runImport({ db: app.db, catalog: { ...app.catalog, write } }, many, 'doomed');
    await expect(doomed).rejects.toMatchObject({ code: 'unavailable' });
    const left = (await ask('GET', `${environment['ELASTICSEARCH_INDEX']}*?expand_wildcards=all`)) as object;
    expect(Object.keys(left).filter((name) => !name.includes('-values-'))).toEqual([]);
    const report = await runImport(app, many, 'doomed');
    expect(report).toMatchObject({ loaded: 5_000, resumed_at_line: null, people: 5_000 });
    expect(await counted()).toBe(5_000);
  });
  const many = Array.from({ length: 600 }, (_, i) => person({ score: i % 101, work_email: `p${i}@x.example` }));
  const hurts: Record<string, [hurt: () => Promise<unknown>, mend: () => Promise<unknown>]> = {
    'is blocked for writes': [() => block('write', true), () => block('write', null)],
    'is deleted': [async () => ask('DELETE', await index()), () => runImport(app, [...people, ...many])],
  };
  for (const [what, [hurt, mend]] of Object.entries(hurts))
    test(`that ${what} makes unlock jobs wait; when it is mended they complete, and nobody who was paid for is net-new`, async () => {
      await runImport(app, many);
      const payer = await customerWith(app, { subscription: 600 });
      // Both jobs start before the damage and run after it.
      const selected = await startSelected(
        payer,
        many.slice(0, 200).map(({ _id }) => _id),
      );
      const jobs = [selected, await startUnlock(payer, { filters: {}, total_records: 400 })];
      await hurt();
      // No sweep runs: the jobs themselves must index what they have unlocked.
      const unlock = { handle: takeTurn('unlock', jobBatches), atOnce: 2 };
      const workers = await startWorkers({ ...contextOf(app), url: app.url }, { unlock });
      onTestFinished(() => workers.stop());
      const waiting = async () =>
        (
          await app.owner`
            select from jobs
            where id = any(${jobs}::uuid[]) and finished_at is null and due_at is not null and failures = 0`
        ).count;
      await expect.poll(waiting, { interval: 20, timeout: 60_000 }).toBe(2);
      await mend();
      const done = [await ended(payer, jobs[0]!), await ended(payer, jobs[1]!)];
      expect(done.map(({ status }) => status)).toEqual(['COMPLETED', 'COMPLETED']);
      const unlocked = done.reduce((sum, { succeeded }) => sum + succeeded, 0);
      expect(await app.catalog.count({ criteria: [], netNewFor: payer.id })).toBe((await counted()) - unlocked);
      const charged = done.reduce((sum, { credits }) => sum + credits.charged, 0);
      expect(await booksOf(app, payer)).toEqual({ balance: 600 - charged, reserved: 0 });
    });
});

describe.skipIf(noElasticsearch)(`a catalog that was never imported ${need}`, async () => {
  const environment = noElasticsearch ? {} : await ownCatalog();
  const app = await startApp(environment);

  test('is empty', async () => {
    const customer = await app.customer();
    expect((await customer.post('/prospect/list', {})).body).toEqual([]);
    expect((await customer.post('/prospect/metadata', {})).body.pagination.total_records).toBe(0);
    expect((await customer.post('/prospect/filters', { source: 'all' })).body).toEqual([]);
    expect((await inject(app.fastify, 'GET', '/readyz')).body.checks.catalog).toBe('up');
    expect(await app.catalog.status()).toMatchObject({ people: 0, details: { state: 'not imported yet' } });
  });
});
