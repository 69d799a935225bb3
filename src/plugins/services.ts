import fp from 'fastify-plugin';
import type { Catalog, CatalogReads } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database, SharedDatabase } from '../database/db.ts';

/** The services that routes use. The command that starts the app opens them and closes them. */
export interface Services {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Config;
    /**
     * The database without its methods for queries. Routes use `request.db` instead, which works for the request's
     * customer.
     */
    db: Omit<SharedDatabase, keyof Database>;
    /**
     * The catalog without its methods for reading. Routes use `request.catalog` instead, which works for the request's
     * customer.
     */
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
