import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { changeShardsInSequence, isDistributed, placeTable, hasCitus, inOrderOfPlacing, placementOf } from './citus.ts';
import { isSupported, ourMigrations, readApplied, readMigrations } from './migrations.ts';
import type { AppliedMigration, Migration } from './migrations.ts';
import { installQueues } from './queues.ts';
import { sessionSettings } from './connection.ts';

export interface Migrated {
  applied: string[];
  version: string;
}

/** Key of the advisory lock that lets only one process migrate. Its bytes are the letters `sales-da`. */
const lockKey = '8314045570082497633';
const lockPollMs = 100;
const oldestServer = 18;
/**
 * Maximum milliseconds that a statement waits for a lock. Requests to the table are blocked meanwhile, so this is less
 * than `DATABASE_QUEUE_MS`, the time that requests wait.
 */
const lockTimeoutMs = 500;
const lockPauseMs = 500;
const lockPatienceMs = 300_000;

/**
 * Applies all missing migrations in order, each file in one transaction. Waits for other processes that migrate.
 * Changes nothing if a newer release has migrated the database and this one supports its schema.
 * @throws Error if the database or server is not supported, a file was changed after it was applied, or a
 *   table stayed locked for minutes
 */
export async function migrate(ownerUrl: string, folder = ourMigrations): Promise<Migrated> {
  const migrations = await readMigrations(folder);
  return asMigrator(ownerUrl, async (sql, session) => {
    const { pending, newest } = compare(migrations, await appliedBy(sql));
    const distributed = await isDistributed(sql);
    for (const migration of pending) await apply(sql, migration, { session, distributed });
    // Each time, because an earlier call may have been killed before this statement.
    await sql`grant select on schema_migrations to sales_data_api`;
    // Otherwise a newer release owns the queues.
    if (newest === undefined) await installQueues(sql, ownerUrl);
    return { applied: pending.map(({ name }) => name), version: newest ?? migrations.at(-1)!.name };
  });
}

/**
 * Runs `work` under the migration lock, so that no other process changes the schema.
 * @param work gets the connection that holds the lock, and the id of its session
 */
async function asMigrator<T>(ownerUrl: string, work: (sql: postgres.Sql, session: number) => Promise<T>): Promise<T> {
  const sql = postgres(ownerUrl, {
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connect_timeout: 10,
    onnotice: () => {},
    connection: { application_name: 'sales-data-api migrate', ...sessionSettings },
  });
  try {
    await requireServer(sql);
    return await work(sql, await lock(sql));
  } finally {
    await sql.end({ timeout: 5 });
  }
}

async function requireCurrentSchema(sql: postgres.Sql): Promise<void> {
  const { pending, newest } = compare(await readMigrations(ourMigrations), await appliedBy(sql));
  if (pending.length > 0) throw new Error('The database does not have the current schema: run `migrate` first');
  if (newest !== undefined)
    throw new Error(`The database is newer than this program: it has ${newest}. Update the program`);
}

async function requireServer(sql: postgres.Sql): Promise<void> {
  const [server] = await sql<{ number: number; version: string; encoding: string }[]>`
    select
      current_setting('server_version_num')::integer as number,
      current_setting('server_version') as version,
      current_setting('server_encoding') as encoding`;
  if (server!.number < oldestServer * 10_000)
    throw new Error(`PostgreSQL ${oldestServer} or newer is needed; this server is ${server!.version}`);
  if (server!.encoding !== 'UTF8')
    throw new Error(
      `The database must have the encoding UTF8, this one has ${server!.encoding}. Create it again: create database … encoding 'UTF8' template template0`,
    );
}

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

async function appliedBy(sql: postgres.Sql): Promise<AppliedMigration[]> {
  await sql`
    create table if not exists schema_migrations (
      name           text           not null,
      sha256         text           not null,
      applied_at     timestamptz(3) not null default clock_timestamp(),
      oldest_release text,
      constraint schema_migrations_pkey primary key (name)
    )`;
  return readApplied(sql);
}

/**
 * Returns the migrations to apply (`pending`), and the newest applied migration that this program does not know.
 * @throws Error if a file was changed after it was applied, or the database is too new or from before 1.0.0
 */
function compare(migrations: Migration[], rows: AppliedMigration[]) {
  if (rows.some(({ oldestRelease }) => oldestRelease === null))
    throw new Error(
      'The database is from before release 1.0.0, whose migrations begin anew. Move its data into a new database: docs/operating.md, "Move a database from before 1.0.0"',
    );
  const applied = new Map(rows.map((row) => [row.name, row]));
  const known = new Set(migrations.map(({ name }) => name));
  const newer = rows.filter(({ name }) => !known.has(name));
  const pending = migrations.filter(({ name }) => !applied.has(name));
  const tooNew = pending.length > 0 ? newer : newer.filter((migration) => !isSupported(migration));
  if (tooNew.length > 0)
    throw new Error(
      `The database is newer than this program: it has ${tooNew.map(({ name }) => name).join(', ')}. Update the program`,
    );
  const edited = migrations.find(({ name, sha256 }) => applied.has(name) && applied.get(name)!.sha256 !== sha256);
  if (edited)
    throw new Error(
      `${edited.name} was edited after this database applied it; undo the edit and write a new migration`,
    );
  const names = newer.map(({ name }) => name).sort();
  return { pending, newest: names.at(-1) };
}

interface Target {
  session: number;
  distributed: boolean;
}

async function apply(sql: postgres.Sql, migration: Migration, { session, distributed }: Target): Promise<void> {
  // A file with this first line runs without a transaction, statement by statement (for `create index concurrently`).
  // A statement with the line `-- repeat` above it is repeated until it changes no row.
  if (/^-- no-transaction\s/.test(migration.text)) {
    for (const statement of statementsOf(migration.text).filter(isStatement)) await applyStatement(sql, statement);
    await sql.begin((tx) => record(tx, migration, session));
  } else {
    await limitLockWaits(sql, lockTimeoutMs);
    await patiently(() =>
      sql.begin(async (tx) => {
        await run(tx, migration.text, distributed);
        await record(tx, migration, session);
      }),
    );
  }
}

async function run(tx: postgres.TransactionSql, text: string, distributed: boolean): Promise<void> {
  if (!distributed) return void (await tx.unsafe(text));
  await changeShardsInSequence(tx);
  // One by one: Citus sends the whole text of a command to the workers, which accept only one statement.
  for (const statement of statementsOf(text)) {
    const placed = /^-- place: (\w+)$/m.exec(statement)?.[1];
    if (placed !== undefined) await placeTable(tx, placed);
    if (isStatement(statement)) await tx.unsafe(statement);
  }
}

const statementsOf = (text: string): string[] => text.split(/;[^\S\n]*\n/);

async function applyStatement(sql: postgres.Sql, statement: string): Promise<void> {
  // No request waits behind a statement that works concurrently, and such a statement must not be broken off.
  await limitLockWaits(sql, /\bconcurrently\b/i.test(statement) ? 0 : lockTimeoutMs);
  const run = async () => (await patiently(() => sql.unsafe(statement))).count;
  let changed = await run();
  if (/^-- repeat$/m.test(statement)) while (changed > 0) changed = await run();
}

const limitLockWaits = (sql: postgres.Sql | postgres.TransactionSql, limit: number) =>
  sql`select set_config('lock_timeout', ${String(limit)}, false)`;

async function patiently<T>(run: () => PromiseLike<T>): Promise<T> {
  const end = performance.now() + lockPatienceMs;
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      if (performance.now() > end)
        throw new Error(
          'A table stayed locked for 5 minutes: end the long transaction that uses it (see pg_stat_activity), then run migrate again',
          { cause: error },
        );
      await sleep(lockPauseMs);
    }
  }
}

const isLockTimeout = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && ['55P03', '40P01'].includes(error.code);

async function requireSession(tx: postgres.TransactionSql, session: number): Promise<void> {
  const [row] = await tx<{ id: number }[]>`select pg_backend_pid() as id`;
  if (row!.id !== session) throw new Error('The connection was lost; run the command again');
}

const isStatement = (text: string): boolean => text.replaceAll(/^\s*--.*$/gm, '').trim() !== '';

async function record(tx: postgres.TransactionSql, migration: Migration, session: number): Promise<void> {
  const { count } = await tx`
    insert into schema_migrations (name, sha256, oldest_release)
    select ${migration.name}, ${migration.sha256}, ${migration.oldestRelease}
    where pg_backend_pid() = ${session}`;
  if (count !== 1) throw new Error(`The connection was lost before ${migration.name} was applied; run migrate again`);
}

/**
 * Distributes the tables over the machines of a Citus cluster, so that all rows of a customer are on one worker. Runs
 * in one transaction, for which requests to the service wait. Does nothing if the tables are already distributed.
 * @returns the names of the tables that it has distributed
 * @throws Error if the database is not part of a Citus cluster, or if its schema does not match this program
 */
export const distribute = (ownerUrl: string): Promise<string[]> =>
  asMigrator(ownerUrl, async (sql, session) => {
    await requireCluster(sql);
    await requireCurrentSchema(sql);
    const tables = (await isDistributed(sql)) ? [] : await distributeTables(sql, session);
    await removeLocalCopies(sql);
    // Citus does not copy statistics to the shards.
    for (const file of plannerAssumptions) await sql.unsafe(await readFile(join(ourMigrations, file), 'utf8'));
    return tables;
  });

const plannerAssumptions = ['0041_customers_of_one_size.sql', '0071_deals_of_one_size.sql'];

async function requireCluster(sql: postgres.Sql): Promise<void> {
  if (!(await hasCitus(sql)))
    throw new Error(
      'This database does not have the extension citus. Create it on every node (create extension citus), then add the nodes with citus_add_node()',
    );
  const [cluster] = await sql<{ coordinator: boolean; workers: number }[]>`
    select
      count(*) filter (where groupid = 0) > 0 and (select groupid = 0 from pg_dist_local_group) as coordinator,
      (count(*) filter (where groupid > 0 and isactive and shouldhaveshards))::int as workers
    from pg_dist_node
    where noderole = 'primary'`;
  if (!cluster!.coordinator)
    throw new Error(
      'This node is not the coordinator of a Citus cluster: connect to the coordinator, where citus_set_coordinator_host() has been called',
    );
  if (cluster!.workers === 0) throw new Error('The Citus cluster has no worker: add one with citus_add_node()');
  await requireRole(sql);
}

async function requireRole(sql: postgres.Sql): Promise<void> {
  const [role] = await sql<{ login: boolean; known: boolean }[]>`
    select
      rolcanlogin as login,
      (select rolsuper from pg_roles where rolname = current_user) or not exists (
        select 1
        from unnest(array['sales_data_api'::regrole, current_user::regrole]) needed
        where needed not in (select objid from pg_dist_object where classid = 'pg_authid'::regclass)
      ) as known
    from pg_roles
    where rolname = 'sales_data_api'`;
  if (!role!.login)
    throw new Error(
      'Citus connects to the workers as the role sales_data_api, which may not log in. Run as a superuser: alter role sales_data_api login',
    );
  if (!role!.known)
    throw new Error(
      'Citus does not know the roles of this database. Run migrate --distribute once with the login of a superuser in MIGRATION_DATABASE_URL',
    );
}

interface ForeignKey {
  table: string;
  name: string;
  definition: string;
}

async function distributeTables(sql: postgres.Sql, session: number): Promise<string[]> {
  const tables = inOrderOfPlacing(await readTables(sql)).filter((table) => placementOf(table) !== 'local');
  await patiently(() =>
    sql.begin(async (tx) => {
      await requireSession(tx, session);
      await tx`set local statement_timeout = 0`;
      await tx`lock table ${tx.unsafe(tables.join(', '))} in access exclusive mode`;
      // With every lock taken, nothing has to wait.
      await tx`set local lock_timeout = 0`;
      await changeShardsInSequence(tx);
      // Citus refuses a foreign key between a table that is placed and one that is not yet.
      const keys = await readForeignKeys(tx);
      for (const { table, name } of keys) await tx`alter table ${tx(table)} drop constraint ${tx(name)}`;
      for (const table of tables) await placeTable(tx, table);
      for (const { table, name, definition } of keys)
        await tx`alter table ${tx(table)} add constraint ${tx(name)} ${tx.unsafe(definition)}`;
    }),
  );
  return tables;
}

/** Returns the names of all tables. Leaves out partitions, because Citus distributes them with their table. */
async function readTables(sql: postgres.Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select relname::text as name
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
    order by relname`;
  return rows.map(({ name }) => name);
}

const readForeignKeys = (tx: postgres.TransactionSql): Promise<ForeignKey[]> =>
  tx<ForeignKey[]>`
    select conrelid::regclass::text as table, conname::text as name, pg_get_constraintdef(oid) as definition
    from pg_constraint
    where contype = 'f' and connamespace = 'public'::regnamespace
    order by conrelid::regclass::text, conname`;

async function removeLocalCopies(sql: postgres.Sql): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select logicalrelid::text as name
    from pg_dist_partition
    where pg_relation_size(logicalrelid) > 0 and (partmethod = 'h' or repmodel = 't')
    order by logicalrelid::text`;
  for (const { name } of tables) await sql`select truncate_local_data_after_distributing_table(${name}::regclass)`;
}
