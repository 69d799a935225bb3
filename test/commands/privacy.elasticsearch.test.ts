import { afterAll, describe } from 'vitest';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { testRequests } from './requests.ts';

describe.skipIf(noElasticsearch)(`requests of people, catalog on Elasticsearch ${need}`, async () => {
  const own = noElasticsearch ? {} : await ownCatalog();
  testRequests(await startApp(own), own);
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(own);
  });
});
