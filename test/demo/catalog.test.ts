import { afterAll, describe, expect, test } from 'vitest';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { loadDemoCatalog } from '../../src/commands/load-demo.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';

/** The same tests for both catalog engines. */
function fills(environment: Record<string, string>): void {
  test('imports thousands of people into an empty catalog, once, and finishes an interrupted import', async () => {
    const { db, catalog } = await startApp(environment);
    let writes = 0;
    const failing: Catalog = {
      ...catalog,
      write: (people) => ((writes += 1) > 2 ? Promise.reject(new Error('gone')) : catalog.write(people)),
    };
    await expect(loadDemoCatalog(db, failing)).rejects.toThrow('gone');
    expect(await loadDemoCatalog(db, catalog)).toBe(5_000);
    const [suggested] = await catalog.suggest({ source: 'location_country', search: 'united' });
    expect(suggested).toEqual({ type: 'location_country', value: 'United States' });
    const untouched: Catalog = { ...catalog, write: () => Promise.reject(new Error('written again')) };
    expect(await loadDemoCatalog(db, untouched)).toBe(5_000);
  });
}

describe('the demo on Postgres', () => {
  fills({});

  test('does not change a catalog that already has people', async () => {
    const { db, catalog } = await startApp();
    await catalog.prepare();
    await writePeople(catalog, [person()]);
    await catalog.finish();
    expect(await loadDemoCatalog(db, catalog)).toBe(1);
    expect(await catalog.count({ criteria: [] })).toBe(1);
  });
});

describe.skipIf(noElasticsearch)(`the demo on Elasticsearch ${need}`, async () => {
  const own = noElasticsearch ? {} : await ownCatalog({ ELASTICSEARCH_TIMEOUT_MS: '4000' });
  fills(own);
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(own);
  });
});
