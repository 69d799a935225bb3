import { unavailable } from '../../errors.ts';
import { findCatalogState, saveIncarnation } from '../../queries/catalog/catalog-imports.ts';
import type { ClusterClient } from './cluster.ts';
import { isNamedFor, laterFields, newIndex, peopleIndex, writeAlias, type Names } from './index-definitions.ts';
import { findIndexes, catalogLost, standingOf, wasImported, type FoundIndex, type Indexes } from './indexes.ts';

/** The index to which people are written, through an alias for writes. */
export interface WriteTarget extends FoundIndex {
  /** Searches use it. One that replaces a lost index is used only after the import into it has ended. */
  isSearched: boolean;
}

/**
 * Finds the index to which people are written: the one that searches use, or that of an unfinished import which
 * replaces a lost one. Deletes what an interrupted reindex left.
 * @returns undefined if the catalog has no index
 * @throws DomainError `unavailable` if an operator must change something in the cluster first
 */
export async function findTarget(indexes: Indexes): Promise<WriteTarget | undefined> {
  const { nodes, names, db } = indexes;
  const known = await db.lookup((sql) => findCatalogState(sql, names.people));
  const found = await findIndexes(nodes, names.people);
  const standing = standingOf(found, names.people);
  if (standing === 'foreign') throw mustAct(`The alias ${names.people} has another index than the catalog's`);
  const saved = found.find(({ isOurs, uuid }) => isOurs && uuid === known?.incarnation);
  if (standing === 'missing' && saved && known!.is_searched)
    throw mustAct(`The index ${saved.name} has lost its alias ${names.people}`);
  if (standing === 'missing' && !saved) return undefined;
  const target = standing === 'missing' ? { ...saved!, isSearched: false } : { ...standing, isSearched: true };
  requireOpen(target);
  await addFields(nodes, target);
  if (target.isSearched) await deleteLeftovers(nodes, names, found, target);
  await saveTarget(indexes, target);
  return target;
}

const mustAct = (fault: string) => unavailable(`${fault}. Mend this in the search cluster: docs/catalog.md, "Repair"`);

/** The block of a nearly full disk is lifted by the cluster itself, so writes wait for it. */
function requireOpen({ name, blocks, isClosed }: FoundIndex): void {
  if (isClosed) throw mustAct(`The index ${name} is closed`);
  const block = blocks.find((one) => one !== 'read_only_allow_delete');
  if (block !== undefined) throw mustAct(`The index ${name} has the block ${block}`);
}

/** Adds the fields that an index of an earlier release lacks. Its people get their values when they are written again. */
async function addFields(nodes: ClusterClient, { name: index }: FoundIndex): Promise<void> {
  const fields = Object.keys(laterFields);
  const known = await nodes.work((client, options) => client.indices.getFieldMapping({ index, fields }, options));
  if (fields.every((field) => known[index]?.mappings[field])) return;
  await nodes.work((client, options) => client.indices.putMapping({ index, properties: laterFields }, options));
}

async function deleteLeftovers(
  nodes: ClusterClient,
  names: Names,
  found: FoundIndex[],
  target: WriteTarget,
): Promise<void> {
  const left = found.filter(
    ({ name, aliases }) =>
      name !== target.name &&
      isNamedFor(name, names.people) &&
      aliases.includes(names.everywhere) &&
      !aliases.includes(names.people),
  );
  await deleteIndexes(nodes, left);
}

export async function deleteIndexes(nodes: ClusterClient, indexes: readonly { name: string }[]): Promise<void> {
  if (indexes.length === 0) return;
  const index = indexes.map(({ name }) => name);
  await nodes.work((client, options) => client.indices.delete({ index, ignore_unavailable: true }, options));
}

/**
 * Creates an empty index to which all later writes go. Searches use it at once if it is the first, but only after the
 * import if it replaces a lost catalog.
 */
export async function createPeople(indexes: Indexes): Promise<WriteTarget> {
  const isSearched = !(await wasImported(indexes));
  const { everywhere, people } = indexes.names;
  const target = { ...(await createIndex(indexes, isSearched ? [everywhere, people] : [everywhere])), isSearched };
  await saveTarget(indexes, target);
  return target;
}

/** Adds the alias through which the service writes to it. */
export async function createIndex({ nodes, config, names }: Indexes, aliases: string[]): Promise<FoundIndex> {
  const index = newIndex(names.people);
  const all = Object.fromEntries([...aliases, writeAlias(index)].map((alias) => [alias, {}]));
  // 400 means that the index exists: an earlier attempt of this call may have created it.
  await nodes.work((client, options) =>
    client.indices.create({ index, ...peopleIndex(config), aliases: all }, { ...options, ignore: [400] }),
  );
  const made = (await findIndexes(nodes, names.people)).find(({ name }) => name === index);
  if (!made) throw catalogLost();
  return made;
}

export const saveTarget = ({ db, names }: Indexes, { uuid, isSearched }: Pick<WriteTarget, 'uuid' | 'isSearched'>) =>
  db.transaction((sql) => saveIncarnation(sql, names.people, { incarnation: uuid, is_searched: isSearched }));
