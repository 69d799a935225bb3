import type { Transaction } from '../database/db.ts';
import { duplicateExternalId, type DomainError } from '../errors.ts';
import { constant } from '../filters/sql.ts';
import type { RecordTable } from './batch-matches.ts';
import { alive, fail, type Item } from './batches.ts';
import type { LockedValue } from './value-locks.ts';

/** The columns that this file uses. */
interface Row {
  external_id: string | null;
}

/**
 * Returns the external ids in a batch, in the form that `lockValues` takes. Locking them prevents other transactions
 * from writing the same external ids.
 */
export const externalIdsOf = (items: readonly Item<unknown>[]): LockedValue[] =>
  alive(items).flatMap(({ body: { external_id: value } }) =>
    typeof value === 'string' ? [{ kind: 'external_id' as const, value }] : [],
  );

/**
 * Assigns the external ids that the items of a batch contain. The result is the same as if the items were sent one by
 * one: an item fails if another record has its external id at that moment. Before an external id moves from one record
 * to another, it is removed from the first record, so that it stays unique.
 * @param faulty errors of items that are invalid for another reason. These items fail with this error, unless their
 *   external id is already used. Their external ids are not assigned.
 */
export async function assignExternalIds<T extends Row>(
  sql: Transaction,
  customerId: string,
  records: RecordTable,
  items: readonly Item<T>[],
  faulty: ReadonlyMap<Item<T>, DomainError> = new Map(),
): Promise<void> {
  const taken = await findTaken(sql, customerId, records, alive(items).flatMap(newExternalId));
  const givenUp = new Map<string, string>();
  const passedOn: string[] = [];
  for (const item of alive(items)) {
    const [wanted] = newExternalId(item);
    const isTaken = wanted !== undefined && taken.has(wanted);
    const error = isTaken ? duplicateExternalId(records.kind.noun) : faulty.get(item);
    if (error) {
      fail(item, error);
      continue;
    }
    const { stored, columns } = item;
    if (stored && stored.external_id !== null && stored.external_id !== columns!.external_id) {
      taken.delete(stored.external_id);
      givenUp.set(stored.external_id, stored.id);
    }
    if (wanted === undefined) continue;
    taken.add(wanted);
    passedOn.push(...(givenUp.has(wanted) ? [givenUp.get(wanted)!] : []));
  }
  await clear(sql, customerId, records, passedOn);
}

/**
 * Returns the external id of an item in an array. The array is empty if the item has no external id, or if the stored
 * record already has the same external id.
 */
const newExternalId = ({ stored, columns }: Item<Row>): string[] => {
  const wanted = columns?.external_id ?? null;
  return wanted === null || wanted === stored?.external_id ? [] : [wanted];
};

/** Returns those of the `wanted` external ids that the customer's records already use. */
async function findTaken(
  sql: Transaction,
  customerId: string,
  { table, visible }: RecordTable,
  wanted: readonly string[],
): Promise<Set<string>> {
  if (wanted.length === 0) return new Set();
  const rows = await sql<{ external_id: string }[]>`
    select r.external_id
    from ${constant(sql, table)} r
    where r.customer_id = ${customerId}
      and r.external_id = any(${wanted as string[]}::text[])
      and ${constant(sql, visible)}`;
  return new Set(rows.map(({ external_id }) => external_id));
}

async function clear(
  sql: Transaction,
  customerId: string,
  { table }: RecordTable,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    update ${constant(sql, table)}
    set external_id = null
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
}
