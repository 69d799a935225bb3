import type { CatalogDocument } from '../document.ts';
import { requireAllDocuments } from './errors.ts';
import { bulk, operationText, toOperation, type Operation } from './bulk.ts';
import { writeAlias } from './index-definitions.ts';
import { whenIndexMissing, type Indexes } from './indexes.ts';
import { toSource } from './source.ts';
import { syncUnlocks, unlocksOf } from './unlocks.ts';

/**
 * Encodes a person as a bulk operation. The ids of the customers who have unlocked the person are missing;
 * `writePeople` adds them.
 */
export const encode = (document: CatalogDocument): string =>
  operationText({ index: { _id: document.id } }, toSource(document, []));

/**
 * Writes people into an index, together with the ids of the customers who have unlocked them (from Postgres). If the
 * unlocks of a person change during the write, writes the unlocks of this person again.
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
 * Returns the bulk operation for a person with the field `unlocked_by` added to its document.
 * @param customers the ids of the customers who have unlocked the person; undefined if there are none
 */
function withUnlocks(person: Operation, customers: string[] | undefined): Operation {
  if (!customers) return person;
  const { id, bytes } = person;
  const end = Buffer.from(`,"unlocked_by":${JSON.stringify(customers)}}\n`);
  return { id, bytes: Buffer.concat([bytes.subarray(0, -'}\n'.length), end]) };
}

/**
 * Returns those of these ids under which an index has a person. Sees people who are written but not yet searchable.
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
 * Deletes people from an index. Returns the number of people deleted.
 * @throws DomainError `unavailable` if the cluster does not respond in time, or the index no longer exists
 */
export async function erasePeople({ nodes }: Indexes, index: string, ids: string[]): Promise<number> {
  const operations = ids.map((id) => toOperation(id, { delete: { _id: id } }));
  const results = await bulk(nodes, writeAlias(index), operations).catch(whenIndexMissing);
  return [...results.values()].filter(({ result }) => result === 'deleted').length;
}
