import type { Config } from '../process/config.ts';
import type { SharedDatabase } from '../database/db.ts';
import { isTracing } from '../tracing/tracing.ts';
import type { Catalog } from './catalog.ts';
import { elasticsearchCatalog } from './elasticsearch/engine.ts';
import { postgresCatalog } from './postgres/engine.ts';
import { traceCatalog } from './trace.ts';

/** In Elasticsearch if `ELASTICSEARCH_URL` is set, else in PostgreSQL. Connects at the first read or write. */
export function openCatalog(config: Config, db: SharedDatabase): Catalog {
  const catalog = config.ELASTICSEARCH_URL === undefined ? postgresCatalog(db) : elasticsearchCatalog(config, db);
  return isTracing() ? traceCatalog(catalog) : catalog;
}
