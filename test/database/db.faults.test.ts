import { randomUUID } from 'node:crypto';
import type postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase, type Database } from '../../src/database/db.ts';
import { asSuperuser, createDatabase, type TestDatabase } from '../setup/database.ts';
import { startFaultyProxy } from '../setup/faulty-proxy.ts';

const unavailable = { code: 'unavailable', retryAfter: 1 };
const lanes = ['lookup', 'search', 'transaction'] as const;
const ping = (db: Database, lane: (typeof lanes)[number]) =>
  db[lane]<postgres.Row[]>((sql: postgres.ISql<{ instant: string }>) => sql`select 1 as one`);
const pong = [{ one: 1 }];
/** Deadline for the service to recover (ms): 250 ms between attempts, and slack for a busy machine. */
const soon = 2_500;

/** Returns the process id of the backend that answers a look-up. */
async function sessionOf(db: Database): Promise<number> {
  const [row] = await db.lookup((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`);
  return row!.pid;
}

/** Measures an operation: its duration (ms) and its result or error. */
async function timed(work: Promise<unknown>): Promise<{ ms: number; answer: unknown }> {
  const start = performance.now();
  const answer = await work.catch((error: unknown) => error);
  return { ms: performance.now() - start, answer };
}

/** Expects that many calls at once, on all connections, fail within this time (ms). */
async function expectFailures(db: Database, withinMs: number): Promise<void> {
  const callers = lanes.flatMap((lane) => Array.from({ length: 10 }, () => timed(ping(db, lane))));
  for (const { ms, answer } of await Promise.all(callers)) {
    expect(answer).toMatchObject(unavailable);
    expect(ms).toBeLessThan(withinMs);
  }
}

/** Expects that calls succeed, soon after the server has recovered. */
async function expectRecovery(db: Database): Promise<void> {
  for (const lane of lanes) {
    const { ms, answer } = await timed(ping(db, lane));
    expect(answer).toEqual(pong);
    expect(ms).toBeLessThan(soon);
  }
}

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());

test('a server that stops responding fails every call in bounded time, and calls succeed again when it responds', async () => {
  // 0.5 s for a statement, 2 s more until silence counts as death, an eighth of that to notice
  const config = parseConfig({ STATEMENT_TIMEOUT_MS: '500', DATABASE_LOOKUP_CONNECTIONS: '1' });
  const silence = 2_500 * (9 / 8); // and slack for a busy machine
  const proxy = await startFaultyProxy(database.url);
  const db = openDatabase(config, proxy.through(database.url));
  await Promise.all(lanes.map((lane) => ping(db, lane)));
  const idle = openDatabase(parseConfig({ STATEMENT_TIMEOUT_MS: '100' }), database.url);
  const session = await sessionOf(idle);
  proxy.freeze();
  await expectFailures(db, silence + 3_000);
  expect(await sessionOf(idle)).toBe(session); // an idle connection may be silent
  await idle.close();
  // Now all wait for new connections.
  await expectFailures(db, 5_000 + 3_000);
  proxy.thaw();
  await expectRecovery(db);
  await db.close();
  await proxy.close();
});

test.each([
  ['28P01', "password 'another'"],
  ['28000', 'nologin'],
])(
  'a login that PostgreSQL refuses (%s) makes calls on new connections, and the health check, unavailable',
  async (code, change) => {
    const role = `refused_${randomUUID().slice(0, 8)}`;
    await asSuperuser((sql) => sql.unsafe(`create role ${role} login password 'p' in role sales_data_api`));
    const url = new URL(database.url);
    [url.username, url.password] = [role, 'p'];
    const db = openDatabase(parseConfig({}), url.href);
    const health = () => db.health((sql) => sql`select 1 as one`);
    expect([await ping(db, 'lookup'), await health()]).toEqual([pong, pong]);
    await asSuperuser((sql) => sql.unsafe(`alter role ${role} ${change}`));
    expect(await ping(db, 'lookup')).toEqual(pong); // an open connection is still good
    await expect(ping(db, 'search')).rejects.toMatchObject({ ...unavailable, cause: { code } });
    await expect.poll(() => health().catch((error: unknown) => error)).toMatchObject(unavailable);
    await db.close();
    await asSuperuser((sql) => sql.unsafe(`drop role ${role}`));
  },
);
