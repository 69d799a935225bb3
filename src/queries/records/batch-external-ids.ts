import type { Transaction } from '../../database/db.ts';
import { duplicateExternalId } from '../../errors.ts';
import { constant } from '../../filters/sql.ts';
import type { RecordTable } from './batch-matches.ts';
import { alive, fail, type Batch, type Item } from './batches.ts';

interface Row {
  external_id: string | null;
}

/**
 * Checks the external ids of the items in a batch. An item fails if another record has the same external id. The result
 * is the same as if the items were sent one by one, so an item can take an external id that an earlier item has removed
 * from its record, unless the batch is a trial. The stored external id of that earlier record is cleared first, so that
 * external ids stay unique.
 */
export async function assignExternalIds<T extends Row>(
  sql: Transaction,
  customerId: string,
  records: RecordTable,
  { isTrial = false }: Pick<Batch, 'isTrial'>,
  items: readonly Item<T>[],
): Promise<void> {
  const taken = await findTaken(sql, customerId, records, alive(items).flatMap(newExternalId));
  const givenUp = new Map<string, string>();
  const passedOn: string[] = [];
  for (const item of alive(items)) {
    const [wanted] = newExternalId(item);
    if (wanted !== undefined && taken.has(wanted)) {
      fail(item, duplicateExternalId(records.kind.noun));
      continue;
    }
    const { stored, columns } = item;
    if (isTrial) continue;
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
 * Returns an array with the external id that an item sets. The array is empty if the item sets no external id, or if
 * the stored record already has the same external id.
 */
const newExternalId = ({ stored, columns }: Item<Row>): string[] => {
  const wanted = columns?.external_id ?? null;
  return wanted === null || wanted === stored?.external_id ? [] : [wanted];
};

export const isExternalIdTaken = async (
  sql: Transaction,
  customerId: string,
  records: RecordTable,
  externalId: string | null,
): Promise<boolean> => externalId !== null && (await findTaken(sql, customerId, records, [externalId])).size > 0;

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
