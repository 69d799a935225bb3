import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sendWithCommit, openDatabase, type SharedDatabase, type Transaction } from '../../src/database/db.ts';
import { parseConfig } from '../../src/process/config.ts';
import { notFound, RecordsChanged } from '../../src/errors.ts';
import { asSuperuser, createDatabase, type TestDatabase } from '../setup/database.ts';
import { startFaultyProxy } from '../setup/faulty-proxy.ts';

let database: TestDatabase;
let owner: postgres.Sql;
let db: SharedDatabase;

beforeAll(async () => {
  database = await createDatabase();
  owner = postgres(database.ownerUrl, { max: 1, fetch_types: false, onnotice: () => {} });
  await owner`create table pairs (number integer not null)`;
  await owner`create table notes (text text not null constraint notes_text_key unique)`;
  await owner`grant select, insert on pairs, notes to sales_data_api`;
  db = openDatabase(parseConfig({}), database.url);
});
afterAll(async () => {
  await db.close();
  await owner.end();
  await database.drop();
});

const unavailable = { code: 'unavailable', retryAfter: 1 };

/** Terminates a backend and waits until it is gone. */
const terminate = (pid: number): Promise<unknown> =>
  asSuperuser((sql) => sql`select pg_terminate_backend(${pid}, 5000)`);

test('the pools use the service role, UTC, time limits and no JIT', async () => {
  const settings = `select current_setting('role') as role, current_setting('TimeZone') as zone, session_user::text as login,
      current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
      current_setting('idle_in_transaction_session_timeout') as idle, current_setting('jit') as jit`;
  for (const pool of ['lookup', 'search', 'transaction'] as const) {
    const [row] = await db[pool]<postgres.Row[]>((sql) => sql.unsafe(settings));
    const limits = { statement: '10s', lock: '10s', idle: '10s' };
    expect(row).toEqual({ role: 'sales_data_api', zone: 'UTC', login: 'sales_service', jit: 'off', ...limits });
  }
});

test('the pools work while another is full, and the full one rejects with 503 in bounded time and recovers', async () => {
  const limits = { DATABASE_SEARCH_CONNECTIONS: '2', DATABASE_QUEUE_LENGTH: '1', DATABASE_QUEUE_MS: '50' };
  const small = openDatabase(parseConfig(limits), database.url);
  const hold = Promise.withResolvers<void>();
  const holders = ['one', 'other'].map((customerId) => small.for({ customerId }, null).search(() => hold.promise));
  const waiting = small.search((sql) => sql`select 1`);
  const turnedAway = small.search((sql) => sql`select 1`);
  await expect(turnedAway).rejects.toMatchObject(unavailable);
  await expect(waiting).rejects.toMatchObject(unavailable);
  expect(await small.lookup((sql) => sql`select 1 as one`)).toEqual([{ one: 1 }]);
  expect(await small.transaction((sql) => sql`select 1 as one`)).toEqual([{ one: 1 }]);
  hold.resolve();
  await Promise.all(holders);
  expect(await small.search((sql) => sql`select 1 as one`)).toEqual([{ one: 1 }]);
  await small.close();
});

/** Returns the texts of the service's running statements. */
const running = async (text: string): Promise<number> => {
  const { count } = await asSuperuser(
    (sql) => sql`
      select from pg_stat_activity
      where datname = ${new URL(database.url).pathname.slice(1)} and state <> 'idle' and query like ${`%${text}%`}`,
  );
  return count;
};
const patience = { timeout: 10_000, interval: 20 };

test('a customer whose time is up has nothing written, unless the transaction has committed', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(notFound('time')), i / 2);
      const half = (tx: Transaction) => tx`insert into pairs (number) values (${-1 - i})`;
      return db
        .for({ customerId: `${i % 20}`, signal: controller.signal }, null)
        .transaction(async (tx) => [await half(tx), await half(tx)])
        .then(
          () => -1 - i,
          ({ code }: { code: string }) => {
            expect(code).toMatch(/not_found|unavailable/);
            return undefined;
          },
        );
    }),
  );
  // No statement of it continues: the visible rows stay unchanged.
  await expect.poll(() => running('insert into pairs'), patience).toBe(0);
  const rows = await owner<{ number: number; count: number }[]>`
    select number, count(*)::integer as count from pairs where number < 0 group by number`;
  expect(rows.filter(({ count }) => count !== 2)).toEqual([]);
  const kept = new Set(rows.map(({ number }) => number));
  expect(outcomes.filter((number) => number !== undefined && !kept.has(number))).toEqual([]);
  // The connections still work. On a busy machine 60 transactions wait longer than the service lets requests wait.
  const reads = Array.from({ length: 60 }, (_, i) =>
    db.for({ customerId: `${i}`, waitMs: patience.timeout }, null).transaction((tx) => tx`select ${i}::integer as i`),
  );
  expect((await Promise.all(reads)).map(([row]) => row!['i'])).toEqual(Array.from({ length: 60 }, (_, i) => i));
});

test('transactions whose records another one changed run again as a whole, and are 503 after the fifth time', async () => {
  const write = (changes: number) => {
    let attempts = 0;
    return db.transaction(async (tx) => {
      attempts += 1;
      await tx`insert into notes (text) values (${`attempt ${attempts} of ${changes}`})`;
      if (attempts <= changes) throw new RecordsChanged();
      return attempts;
    });
  };
  expect(await write(4)).toBe(5);
  await expect(write(5)).rejects.toMatchObject(unavailable);
  expect(await owner`select text from notes where text like 'attempt %'`).toEqual([{ text: 'attempt 5 of 4' }]);
});

/** What Citus reports while a node dies. */
const losses = [
  ['XX000', 'server closed the connection unexpectedly'],
  ['XX000', 'could not commit transaction for shard 102008 on at least 1 node'],
  ['XX000', "failed to prepare transaction 'citus_0_1_2_3' on host 127.0.0.1:9702"],
  ['58030', 'failed to COPY to shard 0 on 127.0.0.1:9702'],
  ['58030', 'failed to complete COPY on 127.0.0.1:9702'],
] as const;

test('errors of time limits, locks, deadlocks and lost nodes are 503 with their cause, and no others', async () => {
  const fail = (state: string, message = 'x') =>
    db.lookup((sql) =>
      sql.unsafe(`do $$ begin raise exception using errcode = '${state}', message = $m$${message}$m$; end $$`),
    );
  for (const state of ['57014', '55P03', '40001', '40P01', '53300', '57P03', '08006', '25P03'])
    await expect(fail(state)).rejects.toMatchObject({ ...unavailable, cause: { code: state } });
  for (const [state, message] of losses) await expect(fail(state, message)).rejects.toMatchObject(unavailable);
  for (const [state, message] of [
    ['XX000', 'cache lookup failed for type 1'],
    ['58030', 'could not write to file "base/1": Input/output error'],
  ] as const)
    await expect(fail(state, message)).rejects.toMatchObject({ code: state });
  const impatient = openDatabase(parseConfig({ STATEMENT_TIMEOUT_MS: '20' }), database.url);
  await expect(impatient.search((sql) => sql`select pg_sleep(5)`)).rejects.toMatchObject(unavailable);
  await impatient.close();
});

test('transactions killed at any moment, hundreds of times, never end the process and stay atomic', async () => {
  const survivor = join(import.meta.dirname, '..', 'setup', 'survivor.ts');
  const run = promisify(execFile)(process.execPath, [survivor, database.url, database.superuserUrl, '400']);
  const seen = JSON.parse((await run).stdout) as { committed: number[]; unavailable: number; other: string[] };
  expect(seen.other).toEqual([]);
  expect(seen.unavailable).toBeGreaterThan(100);
  const rows = await owner<{ number: number; count: number }[]>`
      select number, count(*)::integer as count from pairs group by number`;
  expect(rows.filter(({ count }) => count !== 2)).toEqual([]);
  const kept = new Set(rows.map(({ number }) => number));
  expect(seen.committed.filter((number) => !kept.has(number))).toEqual([]);
});

test('transactions that lost their connection write nothing more, not even on the next connection', async () => {
  const single = openDatabase(parseConfig({ DATABASE_TRANSACTION_CONNECTIONS: '1' }), database.url);
  const resumed = Promise.withResolvers<void>();
  const late = Promise.withResolvers<unknown>();
  const first = single.transaction(async (tx) => {
    const [row] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
    await terminate(row!.pid);
    await resumed.promise;
    await tx`insert into notes (text) values ('from the first')`.then(late.resolve, late.resolve);
  });
  await expect(first).rejects.toMatchObject(unavailable);
  await single.transaction(async (tx) => {
    await tx`insert into notes (text) values ('from the second')`;
    resumed.resolve();
    expect(await late.promise).toMatchObject({ code: 'CONNECTION_CLOSED' });
  });
  expect(await owner`select text from notes where text like 'from the %'`).toEqual([{ text: 'from the second' }]);
  await single.close();
});

test('transactions send their last statements with the commit, and commit nothing if one of them fails', async () => {
  const proxy = await startFaultyProxy(database.url);
  const single = openDatabase(parseConfig({ DATABASE_TRANSACTION_CONNECTIONS: '1' }), proxy.through(database.url));
  const write = (text: string | undefined, last: string | undefined) =>
    single.transaction(async (tx) => {
      if (text !== undefined) await tx`insert into notes (text) values (${text})`;
      sendWithCommit(tx, () => [tx`insert into notes (text) values (${last!})`]);
      return 'written';
    });
  expect(await write('first', 'last')).toBe('written');
  const before = proxy.sendings();
  expect(await write(undefined, 'last of one')).toBe('written');
  expect(proxy.sendings() - before).toBe(2); // the begin; the statement and the commit
  await expect(write('undone', 'first')).rejects.toMatchObject({ code: '23505' });
  await expect(write('undone', undefined)).rejects.toThrow('Undefined values are not allowed'); // cannot be built
  await expect(write(undefined, undefined)).rejects.toThrow('Undefined values are not allowed');
  const rows = await owner`select text from notes where text ~ '^(first|last|undone)' order by text`;
  expect(rows.map(({ text }) => text as string)).toEqual(['first', 'last', 'last of one']);
  await single.close();
  await proxy.close();
});

test('transactions that have ended write nothing more', async () => {
  const late = Promise.withResolvers<unknown>();
  const ended = Promise.withResolvers<void>();
  await db.transaction(async (tx) => {
    void ended.promise.then(() => tx`insert into notes (text) values ('too late')`.then(late.resolve, late.resolve));
    await tx`select 1`;
  });
  ended.resolve();
  expect(await late.promise).toMatchObject({ code: 'TRANSACTION_ENDED' });
  expect(await owner`select text from notes where text = 'too late'`).toEqual([]);
});

test('transactions of which one statement failed do not run the others outside the transaction', async () => {
  const failed = Promise.withResolvers<void>();
  const late = Promise.withResolvers<unknown>();
  const fault = new Error('one half');
  const halves = db.transaction(async (tx) => {
    const other = failed.promise.then(() => tx`insert into notes (text) values ('other half')`);
    void other.then(late.resolve, late.resolve);
    const both = Promise.all([Promise.reject(fault), other]);
    both.catch(() => setImmediate(failed.resolve)); // when the rollback was sent but has no response yet
    await both;
  });
  await expect(halves).rejects.toBe(fault);
  expect(await late.promise).toMatchObject({ code: 'TRANSACTION_ENDED' });
  expect(await owner`select text from notes where text = 'other half'`).toEqual([]);
});

test.each([
  ['28P01', "password 'another'"],
  ['28000', 'nologin'],
])(
  'a login that PostgreSQL refuses (%s) makes calls on new connections, and the health check, unavailable',
  async (code, change) => {
    const role = `refused_${randomUUID().slice(0, 8)}`;
    await asSuperuser((sql) => sql.unsafe(`create role ${role} login password 'p' in role sales_data_api`));
    const own = openDatabase(
      parseConfig({}),
      Object.assign(new URL(database.url), { username: role, password: 'p' }).href,
    );
    const ask = (pool: 'lookup' | 'search' | 'health') =>
      own[pool]<postgres.Row[]>((sql) => sql.unsafe('select 1 as one'));
    const fine = [{ one: 1 }];
    expect([await ask('lookup'), await ask('health')]).toEqual([fine, fine]);
    await asSuperuser((sql) => sql.unsafe(`alter role ${role} ${change}`));
    expect(await ask('lookup')).toEqual(fine); // an open connection is still good
    await expect(ask('search')).rejects.toMatchObject({ ...unavailable, cause: { code } });
    await expect.poll(() => ask('health').catch((error: unknown) => error)).toMatchObject(unavailable);
    await own.close();
    await asSuperuser((sql) => sql.unsafe(`drop role ${role}`));
  },
);
