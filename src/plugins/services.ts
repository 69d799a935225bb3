import fp from 'fastify-plugin';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database } from '../db.ts';

/** What the routes work with; opened and closed by the command that builds the app. */
export interface Services {
  config: Config;
  db: Database;
  catalog: Catalog;
}

declare module 'fastify' {
  interface FastifyInstance extends Services {}
}

/** Hands the services to every route as `app.config`, `app.db` and `app.catalog`. */
export default fp(
  async (app, services: Services) => {
    app.decorate('config', services.config);
    app.decorate('db', services.db);
    app.decorate('catalog', services.catalog);
  },
  { name: 'services' },
);
