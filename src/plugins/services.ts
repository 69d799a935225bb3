import fp from 'fastify-plugin';
import type { Catalog, CatalogReads } from '../catalog/catalog.ts';
import type { Config } from '../process/config.ts';
import type { Database, SharedDatabase } from '../database/db.ts';

/**
 * The configuration, the database and the prospect catalog, which all routes use. The command that starts the app opens
 * them and closes them.
 */
export interface Services {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Config;
    /**
     * The database without its query methods. Routes must run queries with `request.db`, which applies the limits of
     * the customer and the timeout of the request.
     */
    db: Omit<SharedDatabase, keyof Database>;
    /**
     * The prospect catalog without its read methods. Routes must read with `request.catalog`, which applies the limits
     * of the customer and the timeout of the request.
     */
    catalog: Omit<Catalog, keyof CatalogReads>;
  }
}

export default fp(
  async (app, services: Services) => {
    app.decorate('config', services.config);
    app.decorate('db', services.db);
    app.decorate('catalog', services.catalog);
  },
  { name: 'services' },
);
