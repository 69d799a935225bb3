import type postgres from 'postgres';
import { distributionColumn, placementOf } from './placement.ts';

type Session = postgres.Sql | postgres.TransactionSql;

/**
 * The distributed table that determines on which Citus worker the rows of each customer are stored. The rows of all
 * other distributed tables are stored on the same worker.
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
 * Distributes a table and its rows over the machines of a Citus cluster, in the way that `placementOf` returns. Foreign
 * keys between this table and distributed tables must be dropped before, and added again afterwards.
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
 * Makes Citus change the shards one after another during a transaction, over one connection to each worker. In a
 * transaction that changes several tables, each change then sees the previous changes.
 */
export async function changeShardsInSequence(tx: postgres.TransactionSql): Promise<void> {
  await tx`set local citus.multi_shard_modify_mode = 'sequential'`;
}
