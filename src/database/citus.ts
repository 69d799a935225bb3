import type postgres from 'postgres';

/**
 * Where the rows of a table are stored in a database that is distributed over several machines with Citus:
 *
 * - `distributed`: all rows of a customer are stored on the same worker.
 * - `reference`: each machine stores all rows. A write fails if a machine is down. Such tables seldom change, and
 *   distributed tables refer to them.
 * - `local`: the coordinator stores all rows.
 */
type Placement = 'distributed' | 'reference' | 'local';

const referenceTables = new Set(['customers', 'prospects', 'subscription_tiers', 'users']);

// Keys and sessions are read before a request can know which worker has the customer's rows. What is written for every
// customer, such as the last use of a key, must not depend on all workers.
const localTables = new Set([
  'api_keys',
  'audit_events',
  'catalog_imports',
  'catalog_state',
  'catalogs',
  'failed_logins',
  'held_people',
  'password_links',
  'privacy_log',
  'prospect_values',
  'schema_migrations',
  'sessions',
  'suppressions',
]);

export function placementOf(table: string): Placement {
  if (referenceTables.has(table)) return 'reference';
  return localTables.has(table) ? 'local' : 'distributed';
}

const distributionColumn = 'customer_id';

type Session = postgres.Sql | postgres.TransactionSql;

/**
 * Table that is distributed first. Citus stores a customer's rows of all other distributed tables on the same worker.
 */
const firstTable = 'contacts';

export async function hasCitus(sql: Session): Promise<boolean> {
  const [extension] = await sql`select from pg_extension where extname = 'citus'`;
  return extension !== undefined;
}

export async function isDistributed(sql: Session): Promise<boolean> {
  if (!(await hasCitus(sql))) return false;
  const [table] = await sql`select from pg_dist_partition where logicalrelid = to_regclass(${firstTable})`;
  return table !== undefined;
}

export const inOrderOfPlacing = (tables: readonly string[]): string[] =>
  tables.toSorted((a, b) => Number(b === firstTable) - Number(a === firstTable));

/**
 * Distributes a table over the machines of a Citus cluster, or copies it to them, according to its placement. The
 * caller must drop the table's foreign keys before, and add them again afterwards.
 */
export async function placeTable(tx: postgres.TransactionSql, table: string): Promise<void> {
  switch (placementOf(table)) {
    case 'reference':
      await tx`select create_reference_table(${table})`;
      return;
    case 'distributed':
      await tx`
        select create_distributed_table(
          ${table}, ${distributionColumn}, colocate_with => ${table === firstTable ? 'none' : firstTable}
        )`;
      return;
    case 'local':
  }
}

/**
 * Makes Citus change the shards one after another, over one connection to each worker. Each change of a transaction
 * then sees the previous changes, also if they are in other tables.
 */
export async function changeShardsInSequence(tx: postgres.TransactionSql): Promise<void> {
  await tx`set local citus.multi_shard_modify_mode = 'sequential'`;
}
