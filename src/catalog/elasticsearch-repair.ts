import { knownCatalog, noteIncarnation, type KnownCatalog } from '../queries/catalog-imports.ts';
import type { SearchNodes } from './elasticsearch-cluster.ts';
import { whole } from './elasticsearch-errors.ts';
import { isNamedFor, newIndex, peopleIndex, writeAlias, type Names } from './elasticsearch-index.ts';
import { findIndexes, lost, wasImported, type FoundIndex, type Indexes } from './elasticsearch-indexes.ts';

/** An index that is ready to be written to. */
export interface Target extends FoundIndex {
  /** Searches see it. One that replaces a lost catalog is seen from the end of its import. */
  isSearched: boolean;
}

/** What was done to the cluster on the way, for whoever started it. */
export type Say = (text: string) => unknown;

/**
 * Finds the index of the catalog and mends what keeps it from being searched and written to. Takes away what an interrupted
 * reindex left.
 * @returns undefined when there is no such index
 */
export async function repairPeople(indexes: Indexes, say: Say): Promise<Target | undefined> {
  const { nodes, names, db } = indexes;
  for (const alias of [names.people, names.everywhere, names.values]) await putAside(nodes, alias, say);
  const known = await db.lookup((sql) => knownCatalog(sql, names.people));
  const found = await findIndexes(nodes, names.people);
  const target = chooseIndex(found, names, known);
  await takeAliases(
    nodes,
    names,
    found.filter(({ name }) => name !== target?.name),
    say,
  );
  if (!target) return undefined;
  if (target.isSearched && !target.aliases.includes(names.people))
    say(`The index ${target.name} had lost the alias ${names.people}; it has it again`);
  await open(nodes, target, say);
  await giveAliases(indexes, target);
  if (target.isSearched) await deleteLeftovers(nodes, names, found, target);
  await noteTarget(indexes, target);
  return target;
}

/**
 * The index that Postgres knows, wherever the alias has gone; else the one that is searched; else the one that an interrupted
 * import writes in place of a lost one.
 */
function chooseIndex(found: FoundIndex[], names: Names, known: KnownCatalog | undefined): Target | undefined {
  const ours = found.filter(({ isOurs }) => isOurs);
  const before = ours.find(({ uuid }) => uuid === known?.incarnation);
  if (before && known!.is_searched) return { ...before, isSearched: true };
  const searched = ours.findLast(({ aliases }) => aliases.includes(names.people));
  if (searched) return { ...searched, isSearched: true };
  if (before) return { ...before, isSearched: false };
  // Of a catalog that no import of this release has written, Postgres does not know which index it is.
  const only = known?.incarnation === '' ? onlyOne(ours) : undefined;
  return only && { ...only, isSearched: true };
}

const onlyOne = <T>([first, ...others]: T[]): T | undefined => (others.length === 0 ? first : undefined);

/** Takes what is searched by from indexes that are not the catalog's. They keep what they hold. */
async function takeAliases(nodes: SearchNodes, names: Names, from: FoundIndex[], say: Say): Promise<void> {
  const bearers = from.filter(({ aliases }) => aliases.includes(names.people));
  const actions = bearers.flatMap(({ name: index, aliases }) =>
    [names.people, names.everywhere]
      .filter((alias) => aliases.includes(alias))
      .map((alias) => ({ remove: { index, alias } })),
  );
  if (actions.length === 0) return;
  await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
  for (const { name } of bearers)
    say(`The alias ${names.people} was taken from ${name}, which is not the catalog's index`);
}

/** Lifts blocks that were set on an index, but not the one of a full disk, which the cluster lifts itself; and opens it. */
async function open(nodes: SearchNodes, { name, blocks, isClosed }: FoundIndex, say: Say): Promise<void> {
  for (const block of blocks.filter((block) => block !== 'read_only_allow_delete')) {
    // One at a time, and before all else: under a block nothing but the block can be changed.
    const settings = { [`index.blocks.${block}`]: null };
    await nodes.work((client, options) => client.indices.putSettings({ index: name, settings }, options));
    say(`The block on ${name} was lifted: ${block}`);
  }
  if (!isClosed) return;
  await nodes.work((client, options) => client.indices.open({ index: name }, options));
  say(`The index ${name} was closed; it is open again`);
}

async function giveAliases({ nodes, names }: Indexes, { name, isSearched, aliases }: Target): Promise<void> {
  const wanted = [writeAlias(name), names.everywhere, ...(isSearched ? [names.people] : [])];
  const actions = wanted.filter((alias) => !aliases.includes(alias)).map((alias) => ({ add: { index: name, alias } }));
  if (actions.length > 0) await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
}

/** Of an interrupted reindex: copies of what is searched, which nobody completes. */
async function deleteLeftovers(nodes: SearchNodes, names: Names, found: FoundIndex[], target: Target): Promise<void> {
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

/** Deletes indexes by name, if there are any. */
export async function deleteIndexes(nodes: SearchNodes, index: string[]): Promise<void> {
  if (index.length === 0) return;
  await nodes.work((client, options) => client.indices.delete({ index, ignore_unavailable: true }, options));
}

/** Makes an index of people, which is searched at once unless it is to replace a catalog that was imported before. */
export async function createPeople(indexes: Indexes): Promise<Target> {
  const isSearched = !(await wasImported(indexes));
  const { everywhere, people } = indexes.names;
  const target = { ...(await createIndex(indexes, isSearched ? [everywhere, people] : [everywhere])), isSearched };
  await noteTarget(indexes, target);
  return target;
}

/** Makes an empty index of people. */
export async function createIndex({ nodes, config, names }: Indexes, aliases: string[]): Promise<FoundIndex> {
  const index = newIndex(names.people);
  const all = Object.fromEntries([...aliases, writeAlias(index)].map((alias) => [alias, {}]));
  // A repeated attempt may find what the one before has made.
  await nodes.work((client, options) =>
    client.indices.create({ index, ...peopleIndex(config), aliases: all }, { ...options, ignore: [400] }),
  );
  const made = (await findIndexes(nodes, names.people)).find(({ name }) => name === index);
  if (!made) throw lost();
  return made;
}

/** Notes that imports write to this index. */
export const noteTarget = ({ db, names }: Indexes, { uuid, isSearched }: Pick<Target, 'uuid' | 'isSearched'>) =>
  db.transaction((sql) => noteIncarnation(sql, names.people, { incarnation: uuid, is_searched: isSearched }));

/**
 * Makes room for an alias. An index of that very name is not of the service, which would be searched in the catalog's place:
 * it may be somebody's, so it is renamed and keeps all it holds. The cluster renames nothing: it is cloned, then deleted.
 */
async function putAside(nodes: SearchNodes, alias: string, say: Say): Promise<void> {
  const foreign = (await findIndexes(nodes, alias)).find(({ name }) => name === alias);
  if (!foreign) return;
  // Another attempt finds the clone that the one before has made.
  const aside = `${alias}-aside-${foreign.createdAt}`;
  const settings = { 'index.blocks.write': null };
  await open(nodes, foreign, say);
  await nodes.work((client, options) => client.indices.addBlock({ index: alias, block: 'write' }, options));
  await nodes.work((client, options) =>
    client.indices.clone({ index: alias, target: aside, settings }, { ...options, ignore: [400] }),
  );
  const count = (index: string): Promise<number> =>
    nodes.work(async (client, options) => whole(await client.count({ index }, options)).count);
  await nodes.work((client, options) => client.indices.refresh({ index: [alias, aside] }, options));
  if ((await count(aside)) !== (await count(alias)))
    throw new Error(`The index ${alias} stands in the catalog's place and could not be copied: rename or delete it`);
  await deleteIndexes(nodes, [alias]);
  say(`An index named ${alias} stood in the catalog's place; it is named ${aside} now`);
}
