import { inSpan } from '../tracing/tracing.ts';
import type { Catalog, CatalogReads } from './catalog.ts';

export const traceCatalog = (catalog: Catalog): Catalog => ({
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
