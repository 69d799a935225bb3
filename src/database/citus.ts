import type postgres from 'postgres';
import { distributionColumn, placementOf } from './placement.ts';

/** A connection, or an open transaction. */
type Session = postgres.Sql | postgres.TransactionSql;

/** The distributed table whose shards decide where those of all others are: on the same worker, by customer. */
const firstTable = 'contacts';

/** Returns whether the database has the extension Citus. It can have it without being distributed. */
export async function hasCitus(sql: Session): Promise<boolean> {
  const [extension] = await sql`select from pg_extension where extname = 'citus'`;
  return extension !== undefined;
}

/** Returns whether the tables of this database are spread over several machines with Citus. */
export async function isDistributed(sql: Session): Promise<boolean> {
  if (!(await hasCitus(sql))) return false;
  const [table] = await sql`select from pg_dist_partition where logicalrelid = to_regclass(${firstTable})`;
  return table !== undefined;
}

/** Sorts tables in the order in which they can be placed. */
export const inOrderOfPlacing = (tables: readonly string[]): string[] =>
  tables.toSorted((a, b) => Number(b === firstTable) - Number(a === firstTable));

/**
 * Moves a table of a database with Citus to where it belongs, with its rows. The table must not have foreign keys to
 * distributed tables, or from other tables; they are added afterwards.
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
 * Prepares a transaction that changes several tables of a database with Citus. Citus then changes one shard after
 * another, through one connection to each worker, so that each change sees those before it.
 */
export async function changeShardsInSequence(tx: postgres.TransactionSql): Promise<void> {
  await tx`set local citus.multi_shard_modify_mode = 'sequential'`;
}
