import { findCatalogState, saveIncarnation, type CatalogState } from '../../queries/catalog/catalog-imports.ts';
import type { SearchNodes } from './cluster.ts';
import { requireAllShards } from './errors.ts';
import { isNamedFor, newIndex, peopleIndex, writeAlias, type Names } from './index-definitions.ts';
import { findIndexes, catalogLost, wasImported, type FoundIndex, type Indexes } from './indexes.ts';

/** The index to which people are written. It is open and not blocked, and it has an alias for writes. */
export interface WriteTarget extends FoundIndex {
  /**
   * True if searches use this index. If the index replaces a lost index, searches use it only after the import into it
   * has ended.
   */
  isSearched: boolean;
}

/** A function that receives a message for the operator about each repair of the catalog. */
export type Notify = (text: string) => unknown;

/**
 * Finds the catalog's index of people and repairs what prevents searches and writes: missing aliases, blocks, a closed
 * index. Deletes the indexes that an interrupted reindex left.
 * @param notify receives a message for each repair
 * @returns the index, or undefined if the catalog has none
 */
export async function repairPeople(indexes: Indexes, notify: Notify): Promise<WriteTarget | undefined> {
  const { nodes, names, db } = indexes;
  for (const alias of [names.people, names.everywhere, names.values]) await renameAside(nodes, alias, notify);
  const known = await db.lookup((sql) => findCatalogState(sql, names.people));
  const found = await findIndexes(nodes, names.people);
  const target = chooseIndex(found, names, known);
  await takeAliases(
    nodes,
    names,
    found.filter(({ name }) => name !== target?.name),
    notify,
  );
  if (!target) return undefined;
  if (target.isSearched && !target.aliases.includes(names.people))
    notify(`The index ${target.name} had lost the alias ${names.people}; it has it again`);
  await open(nodes, target, notify);
  await startShards(nodes, target, notify);
  await giveAliases(indexes, target);
  if (target.isSearched) await deleteLeftovers(nodes, names, found, target);
  await saveTarget(indexes, target);
  return target;
}

/**
 * Returns the catalog's index of people, or undefined if there is none. Chooses the first of these that is in `found`:
 * the index that Postgres has saved for searches; the index with the alias for searches; the index of an unfinished
 * import; the only index, if an earlier release of the service imported it and saved no id.
 */
function chooseIndex(found: FoundIndex[], names: Names, known: CatalogState | undefined): WriteTarget | undefined {
  const ours = found.filter(({ isOurs }) => isOurs);
  const before = ours.find(({ uuid }) => uuid === known?.incarnation);
  if (before && known!.is_searched) return { ...before, isSearched: true };
  const searched = ours.findLast(({ aliases }) => aliases.includes(names.people));
  if (searched) return { ...searched, isSearched: true };
  if (before) return { ...before, isSearched: false };
  // A catalog that was imported by an earlier release has no recorded incarnation. It is found if it is the only index.
  const only = known?.incarnation === '' ? onlyOne(ours) : undefined;
  return only && { ...only, isSearched: true };
}

const onlyOne = <T>([first, ...others]: T[]): T | undefined => (others.length === 0 ? first : undefined);

/**
 * Removes the catalog's aliases from the indexes in `from`, which do not belong to the catalog. Does not delete these
 * indexes.
 */
async function takeAliases(nodes: SearchNodes, names: Names, from: FoundIndex[], notify: Notify): Promise<void> {
  const bearers = from.filter(({ aliases }) => aliases.includes(names.people));
  const actions = bearers.flatMap(({ name: index, aliases }) =>
    [names.people, names.everywhere]
      .filter((alias) => aliases.includes(alias))
      .map((alias) => ({ remove: { index, alias } })),
  );
  if (actions.length === 0) return;
  await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
  for (const { name } of bearers)
    notify(`The alias ${names.people} was taken from ${name}, which is not the catalog's index`);
}

/**
 * Opens an index if it is closed, and removes its blocks. One block stays: the block of a nearly full disk, which the
 * cluster removes itself.
 */
async function open(nodes: SearchNodes, { name, blocks, isClosed }: FoundIndex, notify: Notify): Promise<void> {
  for (const block of blocks.filter((block) => block !== 'read_only_allow_delete')) {
    // One block at a time, and before anything else: a blocked index accepts no other change than to its blocks.
    const settings = { [`index.blocks.${block}`]: null };
    await nodes.work((client, options) => client.indices.putSettings({ index: name, settings }, options));
    notify(`The block on ${name} was lifted: ${block}`);
  }
  if (!isClosed) return;
  await nodes.work((client, options) => client.indices.open({ index: name }, options));
  notify(`The index ${name} was closed; it is open again`);
}

/**
 * Asks the cluster to start the failed shards of an index again. (The cluster itself stops trying after five attempts.)
 * If this request fails, sends a message to the operator, but does not throw.
 */
async function startShards(nodes: SearchNodes, { name }: FoundIndex, notify: Notify): Promise<void> {
  const failed = await countFailed(nodes, name).catch(() => 0);
  if (failed === 0) return;
  await nodes
    .ask((client, options) => client.cluster.reroute({ retry_failed: true, metric: 'none' }, options))
    .then(
      () => notify(`The cluster had given up ${failed} of the shards of ${name}; it was asked to start them again`),
      () =>
        notify(`The cluster has given up ${failed} of the shards of ${name}: POST /_cluster/reroute?retry_failed=true`),
    );
}

/** Returns the number of shards of an index that failed to start. */
async function countFailed(nodes: SearchNodes, index: string): Promise<number> {
  const h = ['state', 'unassigned.reason'];
  const shards = await nodes.ask((client, options) => client.cat.shards({ index, h, format: 'json' }, options));
  return shards.filter((shard) => shard.state === 'UNASSIGNED' && shard['unassigned.reason'] === 'ALLOCATION_FAILED')
    .length;
}

async function giveAliases({ nodes, names }: Indexes, { name, isSearched, aliases }: WriteTarget): Promise<void> {
  const wanted = [writeAlias(name), names.everywhere, ...(isSearched ? [names.people] : [])];
  const actions = wanted.filter((alias) => !aliases.includes(alias)).map((alias) => ({ add: { index: name, alias } }));
  if (actions.length > 0) await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
}

/** Deletes the incomplete copies of an index that an interrupted reindex has left. */
async function deleteLeftovers(
  nodes: SearchNodes,
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
  await deleteIndexes(
    nodes,
    left.map(({ name }) => name),
  );
}

/** Deletes the indexes with these names. Skips indexes that do not exist. */
export async function deleteIndexes(nodes: SearchNodes, index: string[]): Promise<void> {
  if (index.length === 0) return;
  await nodes.work((client, options) => client.indices.delete({ index, ignore_unavailable: true }, options));
}

/**
 * Creates an empty index of people, and makes all later writes go to it. For a first import, searches use the new index
 * at once. For an import that replaces a lost catalog, searches use it only after the import has ended.
 */
export async function createPeople(indexes: Indexes): Promise<WriteTarget> {
  const isSearched = !(await wasImported(indexes));
  const { everywhere, people } = indexes.names;
  const target = { ...(await createIndex(indexes, isSearched ? [everywhere, people] : [everywhere])), isSearched };
  await saveTarget(indexes, target);
  return target;
}

/**
 * Creates an empty index of people. The index gets the given aliases and one more alias, which no other index has. The
 * service writes to the index through this alias.
 */
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

/** Saves in Postgres the id of the index to which people are written, and whether searches use it. */
export const saveTarget = ({ db, names }: Indexes, { uuid, isSearched }: Pick<WriteTarget, 'uuid' | 'isSearched'>) =>
  db.transaction((sql) => saveIncarnation(sql, names.people, { incarnation: uuid, is_searched: isSearched }));

// Elasticsearch cannot rename an index: it is cloned under a new name, then deleted.
/**
 * Renames an index that the service did not create, but that has the same name as one of the catalog's aliases. The
 * documents of the index are kept under the new name.
 */
async function renameAside(nodes: SearchNodes, alias: string, notify: Notify): Promise<void> {
  const foreign = (await findIndexes(nodes, alias)).find(({ name }) => name === alias);
  if (!foreign) return;
  // The name is the same in every attempt, so that a retry finds the clone that an earlier attempt created.
  const aside = `${alias}-aside-${foreign.createdAt}`;
  const settings = { 'index.blocks.write': null };
  await open(nodes, foreign, notify);
  await nodes.work((client, options) => client.indices.addBlock({ index: alias, block: 'write' }, options));
  await nodes.work((client, options) =>
    client.indices.clone({ index: alias, target: aside, settings }, { ...options, ignore: [400] }),
  );
  const count = (index: string): Promise<number> =>
    nodes.work(async (client, options) => requireAllShards(await client.count({ index }, options)).count);
  await nodes.work((client, options) => client.indices.refresh({ index: [alias, aside] }, options));
  if ((await count(aside)) !== (await count(alias)))
    throw new Error(`The index ${alias} has the name of the catalog and could not be renamed. Rename or delete it`);
  await deleteIndexes(nodes, [alias]);
  notify(`An index named ${alias} had the name of the catalog. It was renamed to ${aside}`);
}
