import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { ourMigrations, readMigrations, type Migration } from './migrations.ts';
import { installQueues } from './queues.ts';

/** The result of `migrate`: the names of the migrations that it applied, and the name of the newest migration. */
export interface Migrated {
  applied: string[];
  version: string;
}

/** Thrown when the database cannot be migrated to the schema of this program. The message tells the user why. */
export class MigrationError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MigrationError';
  }
}

/**
 * Key of the PostgreSQL advisory lock that lets only one process at a time migrate a database. Its bytes are the
 * letters `sales-da`.
 */
const lockKey = '8314045570082497633';
const lockPollMs = 100;
const oldestServer = 18;

/**
 * Applies the missing migrations to the database in order, each SQL file in its own transaction. Several processes may
 * call it at the same time; each waits for the others.
 * @throws MigrationError if an applied file was edited, the database is newer than this program, its encoding is not UTF8,
 *   or the server is older than PostgreSQL 18
 */
export async function migrate(ownerUrl: string, folder = ourMigrations): Promise<Migrated> {
  const migrations = await readMigrations(folder);
  const sql = postgres(ownerUrl, {
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connect_timeout: 10,
    onnotice: () => {},
  });
  try {
    await requireServer(sql);
    const session = await lock(sql);
    const pending = compare(migrations, await appliedBy(sql));
    for (const migration of pending) await apply(sql, migration, session);
    if (pending.length > 0) await sql`grant select on schema_migrations to sales_data_api`;
    await installQueues(sql, ownerUrl);
    return { applied: pending.map(({ name }) => name), version: migrations.at(-1)!.name };
  } finally {
    await sql.end({ timeout: 5 });
  }
}

async function requireServer(sql: postgres.Sql): Promise<void> {
  const [server] = await sql<{ number: number; version: string; encoding: string }[]>`
    select
      current_setting('server_version_num')::integer as number,
      current_setting('server_version') as version,
      current_setting('server_encoding') as encoding`;
  if (server!.number < oldestServer * 10_000)
    throw new MigrationError(`PostgreSQL ${oldestServer} or newer is needed; this server is ${server!.version}`);
  if (server!.encoding !== 'UTF8')
    throw new MigrationError(
      `The database must have the encoding UTF8, this one has ${server!.encoding}. Create it again: create database … encoding 'UTF8' template template0`,
    );
}

/**
 * Waits for the lock that lets only one process migrate the database. Returns the id of the database session that holds
 * the lock.
 */
async function lock(sql: postgres.Sql): Promise<number> {
  // A session that waits in `pg_advisory_lock()` holds a snapshot. A `create index concurrently` in another process would
  // wait for that snapshot forever.
  for (;;) {
    const [row] = await sql<{ locked: boolean; session: number }[]>`
      select pg_try_advisory_lock(${lockKey}) as locked, pg_backend_pid() as session`;
    if (row!.locked) return row!.session;
    await sleep(lockPollMs);
  }
}

async function appliedBy(sql: postgres.Sql): Promise<Map<string, string>> {
  await sql`
    create table if not exists schema_migrations (
      name       text           not null,
      sha256     text           not null,
      applied_at timestamptz(3) not null default clock_timestamp(),
      constraint schema_migrations_pkey primary key (name)
    )`;
  const rows = await sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations`;
  return new Map(rows.map(({ name, sha256 }) => [name, sha256]));
}

/**
 * Returns the migrations that are not applied to the database yet.
 * @param applied hashes of the applied migrations, by name
 * @throws MigrationError if an applied file was edited, or the database is newer than this program
 */
function compare(migrations: Migration[], applied: Map<string, string>): Migration[] {
  const known = new Set(migrations.map(({ name }) => name));
  const newer = [...applied.keys()].filter((name) => !known.has(name));
  if (newer.length > 0)
    throw new MigrationError(`The database is newer than this program: it has ${newer.join(', ')}. Update the program`);
  const edited = migrations.find(({ name, sha256 }) => applied.has(name) && applied.get(name) !== sha256);
  if (edited)
    throw new MigrationError(
      `${edited.name} was edited after this database applied it; undo the edit and write a new migration`,
    );
  return migrations.filter(({ name }) => !applied.has(name));
}

async function apply(sql: postgres.Sql, migration: Migration, session: number): Promise<void> {
  // A file with this first line runs without a transaction, statement by statement (for `create index concurrently`).
  // Each of its statements must end with a semicolon at the end of a line.
  if (/^-- no-transaction\s/.test(migration.text)) {
    for (const statement of migration.text.split(/;[^\S\n]*\n/).filter(isStatement)) await sql.unsafe(statement);
    await sql.begin((tx) => record(tx, migration, session));
  } else {
    await sql.begin(async (tx) => {
      await tx.unsafe(migration.text);
      await record(tx, migration, session);
    });
  }
}

const isStatement = (text: string): boolean => text.replaceAll(/^\s*--.*$/gm, '').trim() !== '';

/**
 * Records a migration as applied, if the database session is still the one with the id `session`. A new session, after
 * a lost connection, does not hold the migration lock.
 * @throws MigrationError if the session has changed
 */
async function record(tx: postgres.TransactionSql, migration: Migration, session: number): Promise<void> {
  const { count } = await tx`
    insert into schema_migrations (name, sha256)
    select ${migration.name}, ${migration.sha256}
    where pg_backend_pid() = ${session}`;
  if (count !== 1)
    throw new MigrationError(`The connection was lost before ${migration.name} was applied; run migrate again`);
}
