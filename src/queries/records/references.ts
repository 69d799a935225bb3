import type { Transaction } from '../../database/db.ts';
import { missingReferences } from '../../errors.ts';

/**
 * The kinds of records that a request body can refer to, with their tables. To avoid deadlocks, every transaction locks
 * rows of these tables in this order, and only then the record that refers to them.
 */
const tables = {
  company: 'companies',
  contact: 'contacts',
  user: 'users',
  stage: 'stages',
  product: 'products',
} as const;

/** Kinds of records whose rows can stay in the table after a deletion, with a time in `deleted_at`. */
const marksDeleted: ReadonlySet<Reference['noun']> = new Set(['company', 'product'] as const);

export interface Reference {
  noun: keyof typeof tables;
  id: string;
  path: string;
}

/**
 * Locks the referenced records until the transaction ends, so that they cannot be deleted.
 * @returns the references whose ids do not belong to records of the customer
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
 * Locks the referenced records until the transaction ends, so that they cannot be deleted. All of them must exist.
 * @throws DomainError `not_found` with the JSON pointer of every reference that is not a record of the customer
 */
export async function requireReferences(sql: Transaction, customerId: string, references: Reference[]): Promise<void> {
  const missing = await lockReferences(sql, customerId, references);
  if (missing.length > 0) throw missingReferences(missing);
}

const keyOf = (noun: Reference['noun'], id: string): string => `${noun} ${id}`;

// Users are never deleted. In a distributed database, locking one would lock all of them, on every node.
const unlocked: ReadonlySet<Reference['noun']> = new Set(['user'] as const);

const lockRows = (sql: Transaction, customerId: string, noun: Reference['noun'], ids: string[]) =>
  sql<{ id: string }[]>`
    select id
    from ${sql(tables[noun])}
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])
      ${marksDeleted.has(noun) ? sql`and deleted_at is null` : sql``}
    order by id
    ${unlocked.has(noun) ? sql`` : sql`for key share`}`;
