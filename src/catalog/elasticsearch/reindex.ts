import { setTimeout as sleep } from 'node:timers/promises';
import { toDocument } from '../document.ts';
import { SuppressedPeople } from '../rights/suppressed-people.ts';
import { changeAliases, changeSettings, refresh, countAll } from './index-calls.ts';
import { refreshIntervals } from './index-definitions.ts';
import { catalogLost, type Indexes } from './indexes.ts';
import { readPeople } from './read-batches.ts';
import { createIndex, deleteIndexes, saveTarget, type WriteTarget } from './write-target.ts';
import { rebuildValues } from './values.ts';
import { encode, writePeople } from './write.ts';

/**
 * Copies all people who are not suppressed into a new index, switches searches to it atomically, and deletes the old one.
 * @param progress awaited after each batch; if it throws, the reindex ends with this error
 * @returns the number of people, and the new index
 * @throws DomainError `unavailable` if the cluster does not respond in time, or if searches do not use `old`
 */
export async function reindex(
  indexes: Indexes,
  old: WriteTarget,
  progress: (done: number, total: number) => Promise<void> | void,
): Promise<{ people: number; index: WriteTarget }> {
  const { nodes, names, config } = indexes;
  if (!old.isSearched) throw catalogLost();
  await refresh(nodes, old.name);
  const total = await countAll(nodes, old.name);
  const index = await createIndex(indexes, [names.everywhere]);
  const copied = await copyPeople(indexes, old.name, index.name, (done) => progress(done, total));
  await refresh(nodes, index.name);
  const people = await countAll(nodes, index.name);
  if (people !== copied)
    throw new Error(
      `${copied} people were copied, but the new index holds ${people}. The old index stays in use. Run reindex again`,
    );
  await changeSettings(nodes, index.name, { refresh_interval: refreshIntervals.atRest });
  const actions = [
    { remove: { index: old.name, alias: names.people } },
    { remove: { index: old.name, alias: names.everywhere } },
    { add: { index: index.name, alias: names.people } },
  ];
  const next = { ...index, isSearched: true };
  // Both indexes are complete now, so after an interruption either one may be chosen.
  await saveTarget(indexes, next);
  await changeAliases(nodes, actions);
  await rebuildValues(nodes, names, config);
  // Waits for searches that still use the old index.
  await sleep(nodes.maxReadMs);
  await deleteIndexes(nodes, [old]);
  return { people, index: next };
}

/**
 * Copies all people who are not suppressed, with their unlocks from PostgreSQL. Returns their number.
 * @param progress awaited after each batch, with the number of people read so far
 */
async function copyPeople(
  indexes: Indexes,
  from: string,
  to: string,
  progress: (done: number) => Promise<void> | void,
): Promise<number> {
  const suppressed = await SuppressedPeople.open(indexes.db);
  let [done, copied] = [0, 0];
  let writes: Promise<void> = Promise.resolve();
  for await (const people of readPeople(indexes.nodes, from)) {
    await writes;
    await progress((done += people.length));
    const kept = people.filter((person) => !suppressed.has(person));
    copied += kept.length;
    writes = writePeople(
      indexes,
      to,
      kept.map((person) => ({ id: person._id, bytes: Buffer.from(encode(toDocument(person))) })),
    );
    writes.catch(() => undefined); // a failure is thrown where this promise is awaited
  }
  await writes;
  return copied;
}
