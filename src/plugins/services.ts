import fp from 'fastify-plugin';
import type { Catalog, CatalogReads } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database, SharedDatabase } from '../database/db.ts';

/** The services that routes use. The command that builds the app opens and closes them. */
export interface Services {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Config;
    /** The database without its query methods: routes use `request.db`, which belongs to a customer. */
    db: Omit<SharedDatabase, keyof Database>;
    /** The catalog without its read methods: routes use `request.catalog`, which belongs to a customer. */
    catalog: Omit<Catalog, keyof CatalogReads>;
  }
}

/** Makes the services available to all plugins as `app.config`, `app.db` and `app.catalog`. */
export default fp(
  async (app, services: Services) => {
    app.decorate('config', services.config);
    app.decorate('db', services.db);
    app.decorate('catalog', services.catalog);
  },
  { name: 'services' },
);
