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

/** Returns the external ids that items want to write, as values to lock, so that nobody else writes them meanwhile. */
export const externalIdsOf = (items: readonly Item<unknown>[]): LockedValue[] =>
  alive(items).flatMap(({ body: { external_id: value } }) =>
    typeof value === 'string' ? [{ kind: 'external_id' as const, value }] : [],
  );

/**
 * Decides which items get the external id that they want, as if the items were sent one by one: an item fails if another
 * record has the external id at that moment. Clears the external ids that go from one record to another, because the
 * database checks that they are unique row by row.
 * @param faulty errors of items that fail for a reason which a call for one record finds after the external id. These
 *   items fail here, and take no external id
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

/** Returns the external id that an item adds to its record; nothing if the record has it already. */
const newExternalId = ({ stored, columns }: Item<Row>): string[] => {
  const wanted = columns?.external_id ?? null;
  return wanted === null || wanted === stored?.external_id ? [] : [wanted];
};

/** Returns which of these external ids records of the customer have. */
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
