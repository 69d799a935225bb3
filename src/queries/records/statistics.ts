import { anyCustomerSetting } from '../../database/connection.ts';
import type { Queryable } from '../../database/db.ts';
import { constant } from '../../filters/sql.ts';

/**
 * Returns the tables of which an import changed more than a tenth, so that they should be analysed and vacuumed. In a
 * database that is distributed with Citus, returns none: the numbers are on the nodes, whose servers analyse by
 * themselves.
 */
export async function findChangedTables(sql: Queryable, customerId: string, importId: string): Promise<string[]> {
  const [row] = await sql<{ object: string; changed: number }[]>`
    select object, created + updated as changed
    from imports
    where customer_id = ${customerId}
      and id = ${importId}
      and not dry_run`;
  if (!row) return [];
  const tables = await sql<{ name: string }[]>`
    select relname as name
    from pg_class
    where oid in (${row.object}::regclass, 'companies'::regclass)
      and reltuples < 10 * ${row.changed}::bigint
      and current_setting(${anyCustomerSetting}, true) is null`;
  return tables.map(({ name }) => name);
}

/** Analyses a table, so that the planner knows how many records each customer has. Leaves it out if it is locked. */
export async function analyzeTable(sql: Queryable, table: string): Promise<void> {
  await sql`analyze (skip_locked) ${constant(sql, table)}`;
}

/**
 * Sorts new entries into the indexes of search terms: until then, each look-up of a term reads all of them (up to 1 MB).
 * Counts also become faster. Leaves the table out if it is locked.
 */
export async function vacuumTable(sql: Queryable, table: string): Promise<void> {
  await sql`vacuum (skip_locked) ${constant(sql, table)}`;
}
