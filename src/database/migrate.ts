import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { isSupported, ourMigrations, readMigrations, type AppliedMigration, type Migration } from './migrations.ts';
import { installQueues } from './queues.ts';
import { scramPassword } from './scram-password.ts';

/**
 * The result of `migrate`: the names of the migrations that it applied, and the name of the newest migration in the
 * database.
 */
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
 * Maximum time for which a statement of a migration waits for a lock on a table or row (ms). It is shorter than
 * `DATABASE_QUEUE_MS`, because requests that need the same table wait behind the statement.
 */
const lockTimeoutMs = 500;
/** Pause before a statement that did not get its lock is tried again (ms). The requests behind it run meanwhile. */
const lockPauseMs = 500;
/** How long a migration tries to get a lock before it fails (ms). */
const lockPatienceMs = 300_000;

/**
 * Applies all missing migrations to the database, in order. Each SQL file runs in its own transaction. Several
 * processes may call this at the same time, also while the service runs; each waits for the others. If a newer release
 * has already migrated the database, and this release can run on the result, nothing changes.
 * @throws MigrationError if an applied file was edited, the database is too new for this program, its encoding is not
 *   UTF8, a table stayed locked for minutes, or the server is older than PostgreSQL 18
 */
export async function migrate(ownerUrl: string, folder = ourMigrations): Promise<Migrated> {
  const migrations = await readMigrations(folder);
  const options: postgres.Options<{}> & { saslprep: typeof scramPassword } = {
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connect_timeout: 10,
    saslprep: scramPassword,
    onnotice: () => {},
  };
  const sql = postgres(ownerUrl, options);
  try {
    await requireServer(sql);
    const session = await lock(sql);
    const { pending, newest } = compare(migrations, await appliedBy(sql));
    for (const migration of pending) await apply(sql, migration, session);
    if (pending.length > 0) await sql`grant select on schema_migrations to sales_data_api`;
    // Otherwise a newer release owns the queues.
    if (newest === undefined) await installQueues(sql, ownerUrl);
    return { applied: pending.map(({ name }) => name), version: newest ?? migrations.at(-1)!.name };
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

async function appliedBy(sql: postgres.Sql): Promise<Map<string, Applied>> {
  await sql`
    create table if not exists schema_migrations (
      name           text           not null,
      sha256         text           not null,
      applied_at     timestamptz(3) not null default clock_timestamp(),
      oldest_release text,
      constraint schema_migrations_pkey primary key (name)
    )`;
  await addOldestRelease(sql);
  const rows = await sql<Applied[]>`select name, sha256, oldest_release as "oldestRelease" from schema_migrations`;
  return new Map(rows.map((row) => [row.name, row]));
}

/**
 * Adds the column `oldest_release` to the table `schema_migrations`, if it is missing. Older releases created the table
 * without this column.
 */
async function addOldestRelease(sql: postgres.Sql): Promise<void> {
  const [column] = await sql`
    select from pg_attribute
    where attrelid = 'schema_migrations'::regclass and attname = 'oldest_release'`;
  // Every `alter table` waits for the readers of the table, and `/readyz` would wait behind it.
  if (column) return;
  await limitLockWaits(sql, lockTimeoutMs);
  await patiently(() => sql`alter table schema_migrations add column oldest_release text`);
}

/** A row of `schema_migrations`. */
interface Applied extends AppliedMigration {
  sha256: string;
}

/**
 * Compares the migrations of this program with the applied ones. Returns the migrations that must still be applied, and
 * the name of the newest applied migration that this program does not know, if any.
 * @param applied the applied migrations, by name
 * @throws MigrationError if an applied file was edited, or the database is too new for this program
 */
function compare(
  migrations: Migration[],
  applied: Map<string, Applied>,
): { pending: Migration[]; newest: string | undefined } {
  const known = new Set(migrations.map(({ name }) => name));
  const newer = [...applied.values()].filter(({ name }) => !known.has(name));
  const pending = migrations.filter(({ name }) => !applied.has(name));
  const tooNew = pending.length > 0 ? newer : newer.filter((migration) => !isSupported(migration));
  if (tooNew.length > 0)
    throw new MigrationError(
      `The database is newer than this program: it has ${tooNew.map(({ name }) => name).join(', ')}. Update the program`,
    );
  const edited = migrations.find(({ name, sha256 }) => applied.has(name) && applied.get(name)!.sha256 !== sha256);
  if (edited)
    throw new MigrationError(
      `${edited.name} was edited after this database applied it; undo the edit and write a new migration`,
    );
  return {
    pending,
    newest: newer
      .map(({ name }) => name)
      .sort()
      .at(-1),
  };
}

async function apply(sql: postgres.Sql, migration: Migration, session: number): Promise<void> {
  // A file with this first line runs without a transaction, statement by statement (for `create index concurrently`).
  // Each of its statements must end with a semicolon at the end of a line. A statement with the line `-- repeat` above it
  // is repeated until it changes no row.
  if (/^-- no-transaction\s/.test(migration.text)) {
    for (const statement of migration.text.split(/;[^\S\n]*\n/).filter(isStatement))
      await applyStatement(sql, statement);
    await sql.begin((tx) => record(tx, migration, session));
  } else {
    await limitLockWaits(sql, lockTimeoutMs);
    await patiently(() =>
      sql.begin(async (tx) => {
        await tx.unsafe(migration.text);
        await record(tx, migration, session);
      }),
    );
  }
}

async function applyStatement(sql: postgres.Sql, statement: string): Promise<void> {
  // No request waits behind a statement that works concurrently, and such a statement must not be broken off.
  await limitLockWaits(sql, /\bconcurrently\b/i.test(statement) ? 0 : lockTimeoutMs);
  const run = async () => (await patiently(() => sql.unsafe(statement))).count;
  let changed = await run();
  if (/^-- repeat$/m.test(statement)) while (changed > 0) changed = await run();
}

/**
 * Limits how long each statement of a connection waits for a lock.
 * @param limit the limit (ms); 0 means no limit
 */
const limitLockWaits = (sql: postgres.Sql | postgres.TransactionSql, limit: number) =>
  sql`select set_config('lock_timeout', ${String(limit)}, false)`;

/**
 * Runs a statement or transaction. If it does not get its locks, runs it again.
 * @throws MigrationError if it does not get its locks within `lockPatienceMs`
 */
async function patiently<T>(run: () => PromiseLike<T>): Promise<T> {
  const end = performance.now() + lockPatienceMs;
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      if (performance.now() > end)
        throw new MigrationError(
          'A table stayed locked for 5 minutes: end the long transaction that uses it (see pg_stat_activity), then run migrate again',
        );
      await sleep(lockPauseMs);
    }
  }
}

/**
 * Returns true if a statement failed because it did not get a lock in time (SQLSTATE 55P03) or was part of a deadlock
 * (40P01).
 */
const isLockTimeout = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && ['55P03', '40P01'].includes(error.code);

const isStatement = (text: string): boolean => text.replaceAll(/^\s*--.*$/gm, '').trim() !== '';

/**
 * Saves that a migration was applied. Only the session that holds the migration lock may save this; after a lost
 * connection there is a new session without the lock.
 * @param session id of the database session that holds the migration lock
 * @throws MigrationError if the session has changed
 */
async function record(tx: postgres.TransactionSql, migration: Migration, session: number): Promise<void> {
  const { count } = await tx`
    insert into schema_migrations (name, sha256, oldest_release)
    select ${migration.name}, ${migration.sha256}, ${migration.oldestRelease}
    where pg_backend_pid() = ${session}`;
  if (count !== 1)
    throw new MigrationError(`The connection was lost before ${migration.name} was applied; run migrate again`);
}
