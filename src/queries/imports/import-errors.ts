import type { Sql, Transaction } from '../../database/db.ts';

/**
 * Stores lines, one for each record that failed or has warnings.
 * @param position offset in the import's file (bytes) of the first record of the transaction
 * @param lines as one text
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

/** Length of the text that `readErrors` returns (characters). */
const partLength = 128 * 1024;

export interface ErrorsPlace {
  /** The `position` of the stored lines. */
  position: number;
  /** Characters of these lines before the place. */
  offset: number;
}

/**
 * Returns up to 128 Ki characters of stored lines, or undefined at the end.
 * @param from the place `next` that the previous call returned
 */
export async function readErrors(
  sql: Sql,
  customerId: string,
  importId: string,
  { position, offset }: ErrorsPlace,
): Promise<{ text: string; next: ErrorsPlace } | undefined> {
  const [row] = await sql<{ position: number; text: string; is_last: boolean }[]>`
    select
      position,
      substring(lines from ${offset + 1}::integer for ${partLength}::integer) as text,
      length(lines) <= ${offset + partLength}::integer as is_last
    from import_errors
    where customer_id = ${customerId}
      and import_id = ${importId}
      and position >= ${position}
    order by position
    limit 1`;
  if (!row) return undefined;
  const next = row.is_last
    ? { position: row.position + 1, offset: 0 }
    : { position: row.position, offset: offset + partLength };
  return { text: row.text, next };
}
