import { afterAll, describe } from 'vitest';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { conforms } from './conformance.ts';

describe.skipIf(noElasticsearch)(`the catalog on Elasticsearch ${need}`, async () => {
  const environment = noElasticsearch
    ? {}
    : await ownCatalog({ ELASTICSEARCH_SHARDS: '3', ELASTICSEARCH_TIMEOUT_MS: '4000' });
  const services = await startApp(environment);
  conforms(services, 20);
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(environment);
  });
});
