import { afterAll, describe } from 'vitest';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { unlocks } from './unlocking.ts';

describe.skipIf(noElasticsearch)(`unlocking from the Elasticsearch catalog ${need}`, async () => {
  const environment = noElasticsearch ? {} : await ownCatalog();
  const app = await startApp(environment);
  unlocks(app);
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(environment);
  });
});
