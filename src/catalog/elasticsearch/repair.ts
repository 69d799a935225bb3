import { findCatalogState, saveIncarnation, type CatalogState } from '../../queries/catalog/catalog-imports.ts';
import type { SearchNodes } from './cluster.ts';
import { changeAliases, changeSettings, countAll, refresh } from './index-calls.ts';
import { isNamedFor, laterFields, newIndex, peopleIndex, writeAlias, type Names } from './index-definitions.ts';
import { findIndexes, catalogLost, wasImported, type FoundIndex, type Indexes } from './indexes.ts';

/** The index to which people are written: open, not blocked, with an alias for writes. */
export interface WriteTarget extends FoundIndex {
  /** Searches use it. One that replaces a lost index is used only after the import into it has ended. */
  isSearched: boolean;
}

/** Tells the operator about a repair. */
export type Notify = (text: string) => unknown;

/**
 * Finds the index of people and repairs what prevents searches and writes: missing aliases, blocks, a closed index.
 * Deletes what an interrupted reindex left.
 * @returns undefined if the catalog has no index
 */
export async function repairPeople(indexes: Indexes, notify: Notify): Promise<WriteTarget | undefined> {
  const { nodes, names, db } = indexes;
  for (const alias of [names.people, names.everywhere, names.values]) await renameAside(nodes, alias, notify);
  const known = await db.lookup((sql) => findCatalogState(sql, names.people));
  const found = await findIndexes(nodes, names.people);
  const target = chooseIndex(found, names, known);
  const others = found.filter(({ name }) => name !== target?.name);
  await takeAliases(nodes, names, others, notify);
  if (!target) return undefined;
  if (target.isSearched && !target.aliases.includes(names.people))
    notify(`The index ${target.name} had lost the alias ${names.people}; it has it again`);
  await open(nodes, target, notify);
  await startShards(nodes, target, notify);
  await giveAliases(indexes, target);
  await addFields(nodes, target);
  if (target.isSearched) await deleteLeftovers(nodes, names, found, target);
  await saveTarget(indexes, target);
  return target;
}

/**
 * Chooses the first of these in `found`: the index that PostgreSQL has saved for searches; that with the alias for
 * searches; that of an unfinished import; the only one, if an earlier release imported it and saved no id.
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

/** Removes the catalog's aliases from indexes that do not belong to it, without deleting them. */
async function takeAliases(nodes: SearchNodes, names: Names, from: FoundIndex[], notify: Notify): Promise<void> {
  const bearers = from.filter(({ aliases }) => aliases.includes(names.people));
  const actions = bearers.flatMap(({ name: index, aliases }) =>
    [names.people, names.everywhere]
      .filter((alias) => aliases.includes(alias))
      .map((alias) => ({ remove: { index, alias } })),
  );
  await changeAliases(nodes, actions);
  for (const { name } of bearers)
    notify(`The alias ${names.people} was taken from ${name}, which is not the catalog's index`);
}

/** Opens a closed index and removes blocks, except that of a nearly full disk, which the cluster removes itself. */
async function open(nodes: SearchNodes, { name, blocks, isClosed }: FoundIndex, notify: Notify): Promise<void> {
  for (const block of blocks.filter((block) => block !== 'read_only_allow_delete')) {
    // One block at a time, and before anything else: a blocked index accepts no other change than to its blocks.
    await changeSettings(nodes, name, { [`index.blocks.${block}`]: null });
    notify(`The block on ${name} was lifted: ${block}`);
  }
  if (!isClosed) return;
  await nodes.work((client, options) => client.indices.open({ index: name }, options));
  notify(`The index ${name} was closed; it is open again`);
}

/**
 * Starts failed shards again; the cluster itself stops trying after five attempts. If that fails, tells the operator,
 * but does not throw.
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

async function countFailed(nodes: SearchNodes, index: string): Promise<number> {
  const h = ['state', 'unassigned.reason'];
  const shards = await nodes.ask((client, options) => client.cat.shards({ index, h, format: 'json' }, options));
  return shards.filter((shard) => shard.state === 'UNASSIGNED' && shard['unassigned.reason'] === 'ALLOCATION_FAILED')
    .length;
}

async function giveAliases({ nodes, names }: Indexes, { name, isSearched, aliases }: WriteTarget): Promise<void> {
  const wanted = [writeAlias(name), names.everywhere, ...(isSearched ? [names.people] : [])];
  const actions = wanted.filter((alias) => !aliases.includes(alias)).map((alias) => ({ add: { index: name, alias } }));
  await changeAliases(nodes, actions);
}

/** Adds the fields that an index of an earlier release lacks. Its people get their values when they are written again. */
async function addFields(nodes: SearchNodes, { name: index }: FoundIndex): Promise<void> {
  const fields = Object.keys(laterFields);
  const known = await nodes.work((client, options) => client.indices.getFieldMapping({ index, fields }, options));
  if (fields.every((field) => known[index]?.mappings[field])) return;
  await nodes.work((client, options) => client.indices.putMapping({ index, properties: laterFields }, options));
}

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
  await deleteIndexes(nodes, left);
}

export async function deleteIndexes(nodes: SearchNodes, indexes: readonly { name: string }[]): Promise<void> {
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

/**
 * Renames an index that the service did not create, but whose name is one of the catalog's aliases. Elasticsearch
 * cannot rename: it is cloned under a new name, then deleted.
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
  await refresh(nodes, [alias, aside]);
  if ((await countAll(nodes, aside)) !== (await countAll(nodes, alias)))
    throw new Error(`The index ${alias} has the name of the catalog and could not be renamed. Rename or delete it`);
  await deleteIndexes(nodes, [foreign]);
  notify(`An index named ${alias} had the name of the catalog. It was renamed to ${aside}`);
}
