import fp from 'fastify-plugin';
import type { Catalog, CatalogReads } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database, SharedDatabase } from '../database/db.ts';

/** The services that routes use. The command that starts the app opens and closes these services. */
export interface Services {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Config;
    /**
     * The database without its query methods. For queries, routes use `request.db`, which is limited to the request's
     * customer and time.
     */
    db: Omit<SharedDatabase, keyof Database>;
    /**
     * The catalog without its read methods. To read, routes use `request.catalog`, which is limited to the request's
     * customer and time.
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
