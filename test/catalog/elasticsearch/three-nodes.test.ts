import { afterAll, describe } from 'vitest';
import { SearchCluster } from '../../search-cluster/cluster.ts';
import { startApp } from '../../setup/app.ts';
import { needNodes, noNodes } from '../../setup/elasticsearch.ts';
import { conforms } from '../conformance.ts';

// The same answers from three nodes as from one. How the catalog survives failing nodes is in faults.test.ts.
describe.skipIf(noNodes)(`the catalog on three nodes of Elasticsearch ${needNodes}`, async () => {
  const cluster = noNodes ? undefined : await SearchCluster.start({ nodes: 3, heap: '384m' });
  afterAll(() => cluster?.stop());
  const environment = cluster && {
    ELASTICSEARCH_URL: cluster.url,
    ELASTICSEARCH_INDEX: 'three-nodes',
    ELASTICSEARCH_SHARDS: '3',
    ELASTICSEARCH_REPLICAS: '1',
    ELASTICSEARCH_TIMEOUT_MS: '8000',
  };
  conforms(await startApp(environment), { runs: 4, again: true });
});
