import type { CatalogDocument } from '../document.ts';
import { requireAllDocuments } from './errors.ts';
import { bulk, operationText, toOperation, type Operation } from './bulk.ts';
import { writeAlias } from './index-definitions.ts';
import { whenIndexMissing, type Indexes } from './indexes.ts';
import { toSource } from './source.ts';
import { syncUnlocks, unlocksOf } from './unlocks.ts';

/** Without unlocks, which `writePeople` adds. */
export const encode = (document: CatalogDocument): string =>
  operationText({ index: { _id: document.id } }, toSource(document, []));

/**
 * Writes people with their unlocks from PostgreSQL, and again those whose unlocks change meanwhile.
 * @throws DomainError `unavailable` if the cluster does not respond in time, or the index no longer exists
 */
export async function writePeople(catalog: Indexes, index: string, people: Operation[]): Promise<void> {
  const ids = people.map(({ id }) => id);
  const before = await unlocksOf(catalog, ids);
  const operations = people.map((person) => withUnlocks(person, before.get(person.id)));
  await bulk(catalog.nodes, writeAlias(index), operations).catch(whenIndexMissing);
  const after = await unlocksOf(catalog, ids);
  const changed = ids.filter((id) => String(before.get(id) ?? []) !== String(after.get(id) ?? []));
  if (changed.length > 0) await syncUnlocks(catalog, changed, 'any');
}

/**
 * Adds the field `unlocked_by`.
 * @param customers who have unlocked the person; undefined if there are none
 */
function withUnlocks(person: Operation, customers: string[] | undefined): Operation {
  if (!customers) return person;
  const { id, bytes } = person;
  const end = Buffer.from(`,"unlocked_by":${JSON.stringify(customers)}}\n`);
  return { id, bytes: Buffer.concat([bytes.subarray(0, -'}\n'.length), end]) };
}

/**
 * Sees people who are written but not yet searchable.
 * @throws DomainError `unavailable` if the cluster does not respond in time, or the index no longer exists
 */
export async function findStored({ nodes }: Indexes, index: string, ids: string[]): Promise<string[]> {
  const docs = await nodes
    .work(async (client, options) =>
      requireAllDocuments((await client.mget({ index: writeAlias(index), ids, _source: false }, options)).docs),
    )
    .catch(whenIndexMissing);
  return docs.filter(({ found }) => found).map(({ _id }) => _id);
}

/**
 * Returns the number of people deleted.
 * @throws DomainError `unavailable` if the cluster does not respond in time, or the index no longer exists
 */
export async function erasePeople({ nodes }: Indexes, index: string, ids: string[]): Promise<number> {
  const operations = ids.map((id) => toOperation(id, { delete: { _id: id } }));
  const results = await bulk(nodes, writeAlias(index), operations).catch(whenIndexMissing);
  return [...results.values()].filter(({ result }) => result === 'deleted').length;
}
