import type { CatalogDocument } from './document.ts';
import { bulk, operationText, toOperation, type Operation } from './elasticsearch-bulk.ts';
import { toSource } from './elasticsearch-source.ts';
import { writeAlias } from './elasticsearch-index.ts';
import { whenGone, type Indexes } from './elasticsearch-indexes.ts';
import { syncUnlocks, unlocksOf } from './elasticsearch-unlocks.ts';

/** A person to be written into an index, whom nobody has unlocked as far as is known. */
export const encode = (document: CatalogDocument): string =>
  operationText({ index: { _id: document.id } }, toSource(document, []));

/**
 * Writes people into an index, with who has unlocked them. Whoever unlocks one of them meanwhile is not forgotten: what
 * Postgres says afterwards is compared with what was written.
 * @throws DomainError `unavailable` also when the index is no longer there
 */
export async function writePeople(catalog: Indexes, index: string, people: Operation[]): Promise<void> {
  const ids = people.map(({ id }) => id);
  const before = await unlocksOf(catalog, ids);
  const operations = people.map((person) => withUnlocks(person, before.get(person.id)));
  await bulk(catalog.nodes, writeAlias(index), operations).catch(whenGone);
  const after = await unlocksOf(catalog, ids);
  const changed = ids.filter((id) => String(before.get(id) ?? []) !== String(after.get(id) ?? []));
  if (changed.length > 0) await syncUnlocks(catalog, changed, 'any');
}

/** Puts the customers at the end of the source. */
function withUnlocks(person: Operation, customers: string[] | undefined): Operation {
  if (!customers) return person;
  const { id, bytes } = person;
  const end = Buffer.from(`,"unlocked_by":${JSON.stringify(customers)}}\n`);
  return { id, bytes: Buffer.concat([bytes.subarray(0, -'}\n'.length), end]) };
}

/** Takes people out; returns how many there were. */
export async function erasePeople({ nodes }: Indexes, index: string, ids: string[]): Promise<number> {
  const operations = ids.map((id) => toOperation(id, { delete: { _id: id } }));
  const results = await bulk(nodes, writeAlias(index), operations).catch(whenGone);
  return [...results.values()].filter(({ result }) => result === 'deleted').length;
}
