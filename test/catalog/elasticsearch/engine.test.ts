import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { namesOf, newIndex } from '../../../src/catalog/elasticsearch/indexes.ts';
import { toSearch } from '../../../src/catalog/prospects.ts';
import { insertUnlocks, findUnindexedProspects } from '../../../src/queries/jobs/unlocks.ts';
import { startApp } from '../../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../../setup/elasticsearch.ts';
import { conforms } from '../conformance.ts';
import { person, writePeople } from '../people.ts';

describe.skipIf(noElasticsearch)(`the catalog on Elasticsearch ${need}`, async () => {
  const environment = noElasticsearch
    ? {}
    : await ownCatalog({ ELASTICSEARCH_SHARDS: '3', ELASTICSEARCH_TIMEOUT_MS: '4000' });
  const services = await startApp(environment);
  conforms(services, { runs: 10 });

  test('an interrupted reindex does not change searches, and the next import deletes its incomplete index', async () => {
    const { catalog, config } = services;
    const url = `${environment['ELASTICSEARCH_URL']}/_alias/${namesOf(config).everywhere}`;
    const built = async (): Promise<number> => Object.keys((await (await fetch(url)).json()) as object).length;
    await writePeople(
      catalog,
      Array.from({ length: 1_500 }, () => person()),
    );
    await catalog.refresh();
    const before = await catalog.count({ criteria: [] });
    // At that time the first thousand people are in the new index.
    const interrupt = (done: number): void => {
      if (done > 1_000) throw new Error('interrupted');
    };
    await expect(catalog.reindex(interrupt)).rejects.toThrow('interrupted');
    expect(await built()).toBe(2);
    expect(await catalog.count({ criteria: [] })).toBe(before);
    await catalog.prepare();
    expect(await built()).toBe(1);
    expect(await catalog.reindex(() => undefined)).toBe(before);
    expect(await catalog.count({ criteria: [] })).toBe(before);
  });

  test('after an import the index is refreshed by itself, so searches see a new unlock soon', async () => {
    const { catalog, db } = services;
    const [customer, ada] = [randomUUID(), person({ last_name: 'Soon' })];
    await catalog.prepare();
    await writePeople(catalog, [ada]);
    await catalog.finish();
    const search = toSearch(customer, { filters: { last_name: ['Soon'] } });
    expect(await catalog.count(search)).toBe(1);
    await db.transaction((sql) => insertUnlocks(sql, customer, [ada._id]));
    await catalog.syncUnlocks([ada._id]);
    await expect.poll(() => catalog.count(search)).toBe(0);
  });

  test('an unlock is marked as indexed when every index has it, not when the first one has it', async () => {
    const { catalog, db, config } = services;
    const [customer, ada] = [randomUUID(), person({ last_name: 'Everywhere' })];
    const { people, everywhere } = namesOf(config);
    await catalog.prepare();
    await writePeople(catalog, [ada]);
    await db.transaction((sql) => insertUnlocks(sql, customer, [ada._id]));
    const unindexed = () => db.lookup((sql) => findUnindexedProspects(sql, 10));
    const other = newIndex(people);
    const ask = async (method: string, path: string): Promise<void> => {
      const { ok } = await fetch(`${environment['ELASTICSEARCH_URL']}/${other}${path}`, { method });
      expect(ok, `${method} ${path}`).toBe(true);
    };
    await ask('PUT', '');
    onTestFinished(() => ask('DELETE', ''));
    await ask('PUT', `/_alias/${everywhere}`);
    await ask('POST', '/_close');
    await expect(catalog.syncUnlocks([ada._id])).rejects.toMatchObject({ code: 'unavailable' });
    expect(await unindexed()).toEqual([ada._id]);
    await ask('POST', '/_open');
    await catalog.syncUnlocks([ada._id]);
    expect(await unindexed()).toEqual([]);
  });

  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(environment);
  });
});
