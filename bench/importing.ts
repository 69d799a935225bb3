import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type SharedDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import type { Import } from '../src/schemas/imports.ts';
import { makeCustomer, type TestCustomer } from '../test/setup/factories.ts';
import { startServer, type Server } from './run.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- bodies of responses

/** A `serve` and a `work` process on a database of their own, as an operator starts them. */
export interface RunningService {
  serve: Server;
  work: Server;
  /** The service's database, for this process. */
  db: SharedDatabase;
  /** A connection with the login of the database's owner. */
  owner: postgres.Sql;
  customer(): Promise<TestCustomer>;
  stop(): Promise<void>;
}

/**
 * Starts the service.
 * @param settings settings of PostgreSQL
 */
export async function startService(settings: Record<string, string> = {}): Promise<RunningService> {
  const server = await openThrowawayPostgres(settings);
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent', STATEMENT_TIMEOUT_MS: '600000' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const owner = postgres(server.ownerUrl, { max: 2, onnotice: () => {} });
  const environment = {
    DATABASE_URL: server.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'warn',
    OVERLOAD_MS: '0',
    RATE_LIMITS: 'off',
  };
  const serve = await startServer(['src/cli.ts', 'serve', '--json'], environment);
  const work = await startServer(['src/cli.ts', 'work', '--json'], environment);
  const stop = async () => {
    await work.stop();
    await serve.stop();
    await owner.end({ timeout: 1 });
    await app.close();
    await db.close();
    await server.close();
  };
  return { serve, work, db, owner, customer: () => makeCustomer(app), stop };
}

/** Settings of an import of contacts. */
export interface ImportCase {
  mode: string;
  match?: string;
  dry_run?: boolean;
}

/** Imports a CSV file of contacts over HTTP. Returns the durations of its upload and of the work after it. */
export async function importFile(
  { url }: Server,
  key: string,
  settings: ImportCase,
  file: string,
): Promise<{ uploadMs: number; workMs: number }> {
  const call = async (method: string, path: string, body?: string): Promise<Json> => {
    const headers = { authorization: `X-API-Key ${key}`, ...(body && { 'content-type': 'application/json' }) };
    const answer = await fetch(`${url}/api/ext${path}`, { method, headers, ...(body && { body }) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const { data } = await call('POST', '/imports', JSON.stringify({ object: 'contacts', format: 'csv', ...settings }));
  const begun = performance.now();
  await call('PUT', `/imports/${data.id}/file`, file);
  const uploaded = performance.now();
  for (;;) {
    const { status, failed, error }: Import = await call('GET', `/imports/${data.id}`);
    if (status === 'COMPLETED' && failed === 0)
      return { uploadMs: uploaded - begun, workMs: performance.now() - uploaded };
    if (status === 'COMPLETED' || status === 'FAILED') throw new Error(`${status}, ${failed} failed: ${error}`);
    await sleep(100);
  }
}
