import { afterAll, describe } from 'vitest';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { unlocks } from './unlocking.ts';

describe.skipIf(noElasticsearch)(`unlocking from the Elasticsearch catalog ${need}`, async () => {
  const environment = noElasticsearch ? {} : await ownCatalog();
  const t = await startApp(environment);
  unlocks(t);
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(environment);
  });
});
