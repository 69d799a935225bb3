import { beforeEach } from 'vitest';
import type { FastifyInstance } from 'fastify';
import postgres from 'postgres';
import { buildApp } from '../../src/app.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { parseConfig, type Config } from '../../src/process/config.ts';
import { openDatabase, type SharedDatabase } from '../../src/database/db.ts';
import { openVerifier, type Verifier } from '../../src/verification/verifier.ts';
import { atEnd } from './at-end.ts';
import { watchAnswers } from './conformance.ts';
import { createDatabase, isOnCitus } from './database.ts';
import { makeCustomer, type TestCustomer } from './factories.ts';
import { patient } from './server-process.ts';

/** The real app on its own database, with direct access to what is behind it. */
export interface TestApp {
  fastify: FastifyInstance;
  config: Config;
  db: SharedDatabase;
  catalog: Catalog;
  verifier: Verifier;
  /** The database as its owner, to age rows and to recount. */
  owner: postgres.Sql;
  ownerUrl: string;
  superuserUrl: string;
  url: string;
  /** Creates a customer with an admin and a key with every scope. */
  customer: () => Promise<TestCustomer>;
}

/** Closes the app and what is behind it. Throws if a response was not as its route declares. */
async function close(test: TestApp, drop: () => Promise<void>, faultyAnswers: string[]): Promise<void> {
  await test.fastify.close();
  await test.catalog.close();
  await test.verifier.close();
  await test.db.close();
  await test.owner.end({ timeout: 1 });
  await drop();
  const faults = [...new Set(faultyAnswers)];
  if (faults.length > 0) throw new Error(`Responses differ from what their routes declare:\n${faults.join('\n')}`);
}

/**
 * Builds the app as `serve` does, for the tests of one file. After them everything is closed and dropped, and every
 * response must have conformed to its route's declaration.
 */
export async function startApp(environment: Record<string, string> = {}): Promise<TestApp> {
  const { drop, ...database } = await createDatabase();
  // Everything is logged, because captured-logs.ts checks the lines.
  const quiet = { LOG_LEVEL: 'trace', ...patient };
  // No webhook leaves this machine, whatever URL a test makes up. Tests that receive some on loopback replace this.
  const webhooks = {
    WEBHOOK_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    WEBHOOK_DENY: '0.0.0.0/1,128.0.0.0/1,::/1,8000::/1',
  };
  const config = parseConfig({ ...quiet, ...webhooks, DATABASE_URL: database.url, ...environment });
  const db = openDatabase(config, database.url, { distributed: isOnCitus() });
  const catalog = openCatalog(config, db);
  const verifier = openVerifier(config);
  const app = buildApp({ config, db, catalog });
  const faultyAnswers = watchAnswers(app);
  await app.ready();
  const owner = postgres(database.ownerUrl, { max: 2, onnotice: () => {} });
  const test = { fastify: app, config, db, catalog, verifier, owner, ...database, customer: () => makeCustomer(app) };
  atEnd(() => close(test, drop, faultyAnswers));
  return test;
}

/** Returns a customer that is a new one in each test. */
export function customerOfEachTest(app: TestApp): TestCustomer {
  const customer = {} as TestCustomer;
  beforeEach(async () => {
    Object.assign(customer, await app.customer());
  });
  return customer;
}
