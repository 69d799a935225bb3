import { inSpan, isTracing } from '../process/tracing.ts';
import type { Catalog, CatalogReads } from './catalog.ts';
import type { Config } from '../process/config.ts';
import type { SharedDatabase } from '../database/db.ts';
import { elasticsearchCatalog } from './elasticsearch/engine.ts';
import { postgresCatalog } from './postgres.ts';

const traceCatalog = (catalog: Catalog): Catalog => ({
  ...catalog,
  ...traceReads(catalog, catalog),
  for: (requester) => traceReads(catalog, catalog.for(requester)),
});

const systems = { postgres: 'postgresql', elasticsearch: 'elasticsearch' } as const;

function traceReads({ engine }: Catalog, reads: CatalogReads): CatalogReads {
  const read = <T>(operation: keyof CatalogReads, work: () => Promise<T>): Promise<T> =>
    inSpan(
      {
        name: `catalog ${operation}`,
        attributes: { 'db.system.name': systems[engine], 'db.operation.name': operation },
      },
      work,
    );
  return {
    search: (search, window) => read('search', () => reads.search(search, window)),
    count: (search) => read('count', () => reads.count(search)),
    find: (ids) => read('find', () => reads.find(ids)),
    suggest: (query) => read('suggest', () => reads.suggest(query)),
  };
}

export function openCatalog(config: Config, db: SharedDatabase): Catalog {
  const catalog = config.ELASTICSEARCH_URL === undefined ? postgresCatalog(db) : elasticsearchCatalog(config, db);
  return isTracing() ? traceCatalog(catalog) : catalog;
}
