import type { Sql, Transaction } from '../database/db.ts';

/**
 * Stores the failed records of one transaction of an import.
 * @param position where in the file the first record of the transaction starts (bytes)
 * @param lines lines of the errors file
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
 * Reads the next stored lines of an import's errors file: those of one transaction. Returns undefined at the end.
 * @param after the position of the lines that were read before; -1 at the beginning
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
