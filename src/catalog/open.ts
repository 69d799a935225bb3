import type { Config } from '../config.ts';
import type { SharedDatabase } from '../db.ts';
import type { Catalog } from './catalog.ts';
import { elasticsearchCatalog } from './elasticsearch.ts';
import { postgresCatalog } from './postgres.ts';

/** The catalog that the configuration names. It connects when first asked. */
export const openCatalog = (config: Config, db: SharedDatabase): Catalog =>
  config.ELASTICSEARCH_URL === undefined ? postgresCatalog(db) : elasticsearchCatalog(config, db);
