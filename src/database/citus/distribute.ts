import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type postgres from 'postgres';
import { changeShardsInSequence, hasCitus, inOrderOfPlacing, isDistributed, placeTable } from './citus.ts';
import { asMigrator, MigrationError, patiently, requireCurrentSchema, requireSession } from '../migrate.ts';
import { ourMigrations } from '../migrations.ts';
import { placementOf } from './placement.ts';

interface Distributed {
  tables: string[];
}

/**
 * Distributes the tables of a database over the machines of its Citus cluster, so that all rows of a customer are on
 * the same worker. Does nothing if the tables are already distributed. Everything happens in one transaction, so a
 * failed call changes nothing. Requests to the service wait until the transaction has ended.
 * @throws MigrationError if the database is not part of a Citus cluster, or if its schema does not match this program.
 */
export const distribute = (ownerUrl: string): Promise<Distributed> =>
  asMigrator(ownerUrl, async (sql, session) => {
    await requireCluster(sql);
    await requireCurrentSchema(sql);
    const tables = (await isDistributed(sql)) ? [] : await distributeTables(sql, session);
    await removeLocalCopies(sql);
    // Citus does not copy statistics to the shards.
    await sql.unsafe(await readFile(join(ourMigrations, plannerAssumptions), 'utf8'));
    return { tables };
  });

/** The migration that sets what the planner expects of a customer. It can be repeated. */
const plannerAssumptions = '0041_customers_of_one_size.sql';

async function requireCluster(sql: postgres.Sql): Promise<void> {
  if (!(await hasCitus(sql)))
    throw new MigrationError(
      'This database does not have the extension citus. Create it on every node (create extension citus), then add the nodes with citus_add_node()',
    );
  const [cluster] = await sql<{ coordinator: boolean; workers: number }[]>`
    select
      count(*) filter (where groupid = 0) > 0 and (select groupid = 0 from pg_dist_local_group) as coordinator,
      (count(*) filter (where groupid > 0 and isactive and shouldhaveshards))::int as workers
    from pg_dist_node
    where noderole = 'primary'`;
  if (!cluster!.coordinator)
    throw new MigrationError(
      'This node is not the coordinator of a Citus cluster: connect to the coordinator, where citus_set_coordinator_host() has been called',
    );
  if (cluster!.workers === 0)
    throw new MigrationError('The Citus cluster has no worker: add one with citus_add_node()');
  await requireRole(sql);
}

/**
 * Checks the PostgreSQL role of the service, which Citus also uses to connect to the workers.
 * @throws MigrationError if the role cannot log in, or if Citus has not created the role on the workers.
 */
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
    throw new MigrationError(
      'Citus connects to the workers as the role sales_data_api, which may not log in. Run as a superuser: alter role sales_data_api login',
    );
  if (!role!.known)
    throw new MigrationError(
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

/** Without the partitions of a table, which are distributed with it. */
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

/** Deletes the old rows that the coordinator still stores for tables which are now on the workers. */
async function removeLocalCopies(sql: postgres.Sql): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select logicalrelid::text as name
    from pg_dist_partition
    where pg_relation_size(logicalrelid) > 0 and (partmethod = 'h' or repmodel = 't')
    order by logicalrelid::text`;
  for (const { name } of tables) await sql`select truncate_local_data_after_distributing_table(${name}::regclass)`;
}
