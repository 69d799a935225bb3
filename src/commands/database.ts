import type { Catalog } from '../catalog/catalog.ts';
import { openCatalog } from '../catalog/open.ts';
import { readConfig, type Config } from '../config.ts';
import { openDatabase, type Database, type SharedDatabase } from '../db.ts';
import { checkSchema } from '../migrations.ts';

/** A PostgreSQL server, as the service and as the owner of the schema reach it. */
interface Server {
  url: string;
  ownerUrl: string;
  close(): Promise<void>;
}

/** What a command works with, opened; whoever opened it closes it. */
export interface OpenServices {
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
  url: string;
  ownerUrl: string;
  close(): Promise<void>;
}

/**
 * Opens the database that the environment names, or else the embedded server in `DATA_DIR`, beside a running service too.
 * @param asWanted the database as the command and its catalog shall have it
 */
export async function openServices(
  config: Config = readConfig(),
  asWanted: (db: SharedDatabase) => SharedDatabase = (db) => db,
): Promise<OpenServices> {
  const server = await openServer(config);
  const db = asWanted(openDatabase(config, server.url));
  const catalog = openCatalog(config, db);
  const close = async () => {
    await catalog.close();
    await db.close();
    await server.close();
  };
  return { config, db, catalog, url: server.url, ownerUrl: server.ownerUrl, close };
}

async function openServer(config: Config): Promise<Server> {
  const { DATABASE_URL: url, MIGRATION_DATABASE_URL: ownerUrl, DATA_DIR } = config;
  if (url) return { url, ownerUrl: ownerUrl ?? url, close: async () => undefined };
  const { openEmbeddedPostgres } = await import('../embedded-postgres.ts');
  const server = await openEmbeddedPostgres(DATA_DIR);
  return { url: server.serviceUrl, ownerUrl: server.ownerUrl, close: () => server.close() };
}

/** Makes sure that the database has this program's schema. */
export async function requireSchema({ db }: Pick<OpenServices, 'db'>): Promise<void> {
  const state = await db.lookup(checkSchema);
  if (state === 'behind')
    throw new Error('The database has not the current schema: run `migrate`, or give `--migrate`');
  if (state === 'ahead') throw new Error('The database is newer than this program');
}

/** Runs work on the server itself, and closes it whatever happens. */
export async function withServer<T>(work: (server: Server) => Promise<T>): Promise<T> {
  const server = await openServer(readConfig());
  try {
    return await work(server);
  } finally {
    await server.close();
  }
}

/** Runs a verb's work on the database, and closes it whatever happens. */
export async function withDatabase<T>(work: (db: Database) => Promise<T>): Promise<T> {
  const services = await openServices();
  try {
    return await work(services.db);
  } finally {
    await services.close();
  }
}
