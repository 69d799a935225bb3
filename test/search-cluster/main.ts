import { SearchCluster } from './cluster.ts';

// `node test/search-cluster/main.ts [nodes] [heap]`: an Elasticsearch to try things with, until Ctrl-C.
const [nodes = '1', heap = '512m'] = process.argv.slice(2);
const cluster = await SearchCluster.start({ nodes: Number(nodes), heap });
process.stdout.write(`ELASTICSEARCH_URL=${cluster.url}\n`);
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cluster.stop().then(() => process.exit()));
