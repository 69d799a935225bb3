import { afterAll, describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { conforms } from './conformance.ts';
import { person, writePeople } from './people.ts';

describe.skipIf(noElasticsearch)(`the catalog on Elasticsearch ${need}`, async () => {
  const environment = noElasticsearch
    ? {}
    : await ownCatalog({ ELASTICSEARCH_SHARDS: '3', ELASTICSEARCH_TIMEOUT_MS: '4000' });
  const services = await startApp(environment);
  conforms(services, 20);

  test('an interrupted reindex leaves searches as they were, and the next load takes away what it left', async () => {
    const { catalog } = services;
    const url = `${environment['ELASTICSEARCH_URL']}/_alias/${environment['ELASTICSEARCH_INDEX']}-everywhere`;
    const built = async (): Promise<number> => Object.keys((await (await fetch(url)).json()) as object).length;
    await writePeople(
      catalog,
      Array.from({ length: 1_500 }, () => person()),
    );
    await catalog.refresh();
    const before = await catalog.count({ criteria: [] });
    // The first thousand are in the new index by then.
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

  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(environment);
  });
});
