import fp from 'fastify-plugin';
import type { Catalog, CatalogReads } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database, SharedDatabase } from '../db.ts';

/** What the routes work with; opened and closed by the command that builds the app. */
export interface Services {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance {
    config: Config;
    /** For whom it is used has to be said: a route uses `request.db`. */
    db: Omit<SharedDatabase, keyof Database>;
    /** The same: a route reads by `request.catalog`. */
    catalog: Omit<Catalog, keyof CatalogReads>;
  }
}

/** Hands the services to every plugin as `app.config`, `app.db` and `app.catalog`. */
export default fp(
  async (app, services: Services) => {
    app.decorate('config', services.config);
    app.decorate('db', services.db);
    app.decorate('catalog', services.catalog);
  },
  { name: 'services' },
);
