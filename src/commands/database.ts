import type { FastifyBaseLogger } from 'fastify';
import { openCatalog } from '../catalog/open.ts';
import { readConfig, type Config } from '../process/config.ts';
import { isDistributed } from '../database/citus.ts';
import type { EmbeddedPostgres } from '../database/embedded-postgres.ts';
import { openDatabase, type SharedDatabase, type Transaction } from '../database/db.ts';
import { checkSchema } from '../database/migrations.ts';
import { requireCustomer, type Customer } from '../queries/accounts/customers.ts';
import { requireOwner, type OwnedTable } from '../queries/records/finders.ts';
import { keyFromFile } from '../accounts/webhook-targets.ts';
import { closing } from './command.ts';

type Server = Omit<EmbeddedPostgres, 'serviceUrl' | 'superuserUrl'> & { url: string };

export type OpenServices = Awaited<ReturnType<typeof openServices>>;

/**
 * Opens the database and the catalog. Without `DATABASE_URL`, uses the embedded PostgreSQL in `DATA_DIR`, and starts it
 * if necessary.
 */
export async function openServices(given: Config = readConfig()) {
  const server = await openServer(given);
  const config = await withWebhookKey(given);
  const db = await openPlanned(config, server.url);
  const catalog = openCatalog(config, db);
  const close = async () => {
    await catalog.close();
    await db.close();
    await server.close();
  };
  /** Logs outages of the database from now on. Ends the process with exit code 1 if the embedded PostgreSQL ends. */
  const watchDatabase = (log: FastifyBaseLogger) => {
    db.logOutages(log);
    if (server.owner !== undefined)
      log.info({ owner: server.owner }, 'another process owns the embedded PostgreSQL, which ends with that process');
    server.watch((reason) => {
      log.fatal({ reason }, 'the embedded PostgreSQL has ended; start this process again');
      process.exit(1);
    });
  };
  return { config, db, catalog, url: server.url, ownerUrl: server.ownerUrl, watchDatabase, close };
}

/**
 * Returns the configuration with a key for webhook secrets. With the embedded PostgreSQL, the service creates the key
 * itself and stores it in `DATA_DIR`.
 */
async function withWebhookKey(config: Config): Promise<Config> {
  if (config.DATABASE_URL !== undefined || config.WEBHOOK_SECRET_KEY !== undefined) return config;
  return { ...config, WEBHOOK_SECRET_KEY: await keyFromFile(config.DATA_DIR) };
}

async function openPlanned(config: Config, url: string): Promise<SharedDatabase> {
  const db = openDatabase(config, url);
  try {
    if (!(await db.lookup(isDistributed))) return db;
  } catch (error) {
    await db.close();
    throw error;
  }
  await db.close();
  return openDatabase(config, url, { distributed: true });
}

async function openServer(config: Config): Promise<Server> {
  const { DATABASE_URL: url, MIGRATION_DATABASE_URL: ownerUrl, DATA_DIR } = config;
  if (url)
    return { url, ownerUrl: ownerUrl ?? url, owner: undefined, watch: () => undefined, close: async () => undefined };
  const { openEmbeddedPostgres } = await import('../database/embedded-postgres.ts');
  const server = await openEmbeddedPostgres(DATA_DIR);
  return { ...server, url: server.serviceUrl };
}

export async function requireSchema({ db }: Pick<OpenServices, 'db'>): Promise<void> {
  const { state, isSupported } = await db.lookup(checkSchema);
  if (isSupported) return;
  if (state === 'behind')
    throw new Error('The database does not have the current schema: run `migrate`, or start with `--migrate`');
  throw new Error('The database is newer than this program: update the program');
}

export const withServer = async <T>(work: (server: Server) => Promise<T>): Promise<T> =>
  closing(await openServer(readConfig()), work);

export const withServices = async <T>(work: (services: OpenServices) => Promise<T>, given?: Config): Promise<T> =>
  closing(await openServices(given), work);

export const withDatabase = <T>(work: (db: SharedDatabase) => Promise<T>): Promise<T> =>
  withServices(({ db }) => work(db));

export const inTransaction = <T>(work: (sql: Transaction) => Promise<T>): Promise<T> =>
  withDatabase((db) => db.transaction(work));

type CustomerWork<T> = (sql: Transaction, customerId: string) => Promise<T>;

export const forCustomer = <T>(customer: string, work: CustomerWork<T>): Promise<T> =>
  inTransaction(async (sql) => work(sql, (await requireCustomer(sql, customer)).id));

/** Runs `work` for the customer of a record. */
export const forOwner = <T>(table: OwnedTable, id: string, work: CustomerWork<T>): Promise<T> =>
  inTransaction(async (sql) => work(sql, await requireOwner(sql, table, id)));

/** Runs `work` with the services, once it is known that the customer exists. */
export const withCustomer = <T>(
  customerId: string,
  work: (services: OpenServices, customer: Customer) => Promise<T>,
): Promise<T> =>
  withServices(async (services) => work(services, await services.db.lookup((sql) => requireCustomer(sql, customerId))));

/**
 * Milliseconds that a statement of a command on the whole catalog may take. Such statements take longer than those of
 * requests.
 */
const maxStatementMs = 3_600_000;

export const withCatalog = <T>(work: (services: OpenServices) => Promise<T>): Promise<T> =>
  withServices(work, { ...readConfig(), STATEMENT_TIMEOUT_MS: maxStatementMs });
