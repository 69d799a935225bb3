import type { Sql, Transaction } from '../../database/db.ts';

/**
 * Stores lines of an import's errors file. Each line describes a record that failed.
 * @param position offset in the import's file (bytes) of the first record that the transaction processes
 * @param lines the lines, as one text
 */
export async function insertErrors(
  sql: Transaction,
  customerId: string,
  importId: string,
  position: number,
  lines: string,
): Promise<void> {
  await sql`
    insert into import_errors (customer_id, import_id, position, lines)
    values (${customerId}, ${importId}, ${position}, ${lines})`;
}

/**
 * Reads the next stored lines of an import's errors file. Returns undefined at the end.
 * @param after the `position` that the previous call returned; -1 for the first call
 */
export async function readErrors(
  sql: Sql,
  customerId: string,
  importId: string,
  after: number,
): Promise<{ position: number; lines: string } | undefined> {
  const [row] = await sql<{ position: number; lines: string }[]>`
    select position, lines
    from import_errors
    where customer_id = ${customerId}
      and import_id = ${importId}
      and position > ${after}
    order by position
    limit 1`;
  return row;
}
