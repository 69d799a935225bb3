import type { Transaction } from '../db.ts';
import { missingReferences } from '../errors.ts';

/**
 * What a body can refer to, and the table that keeps it. The order is the order of locking, for everybody: whoever needs
 * several of these, or one of these and then a record that refers to them, takes them in this order and the record last.
 */
const tables = {
  company: 'companies',
  contact: 'contacts',
  user: 'users',
  stage: 'stages',
  product: 'products',
} as const;

/** Rows of these outlive their deletion, which they are marked with. */
const marksDeleted: ReadonlySet<Reference['noun']> = new Set(['company', 'product'] as const);

/** An id in a body that must be a record of the customer's. */
export interface Reference {
  noun: keyof typeof tables;
  id: string;
  /** JSON pointer of the id. */
  path: string;
}

/**
 * Locks what is referred to against deletion until the transaction ends: one round trip, rows in one order for everybody.
 * @returns the references that lead to no record of the customer's
 */
export async function lockReferences(
  sql: Transaction,
  customerId: string,
  references: Reference[],
): Promise<Reference[]> {
  const nouns = (Object.keys(tables) as Reference['noun'][]).filter((noun) =>
    references.some((one) => one.noun === noun),
  );
  const found = await Promise.all(
    nouns.map(async (noun) => {
      const ids = references.filter((one) => one.noun === noun).map(({ id }) => id);
      return (await lockRows(sql, customerId, noun, ids)).map((row) => keyOf(noun, row.id));
    }),
  );
  const known = new Set(found.flat());
  return references.filter(({ noun, id }) => !known.has(keyOf(noun, id)));
}

/**
 * The same, when there is nothing else to check.
 * @throws not_found naming every reference that leads to no record of the customer's
 */
export async function requireReferences(sql: Transaction, customerId: string, references: Reference[]): Promise<void> {
  const missing = await lockReferences(sql, customerId, references);
  if (missing.length > 0) throw missingReferences(missing);
}

const keyOf = (noun: Reference['noun'], id: string): string => `${noun} ${id.toLowerCase()}`;

const lockRows = (sql: Transaction, customerId: string, noun: Reference['noun'], ids: string[]) =>
  sql<{ id: string }[]>`
    select id
    from ${sql(tables[noun])}
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])
      ${marksDeleted.has(noun) ? sql`and deleted_at is null` : sql``}
    order by id
    for key share`;
