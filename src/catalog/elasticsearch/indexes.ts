import { randomBytes } from 'node:crypto';
import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../../process/config.ts';
import { textFields, wordFields, type TextField, type WordField } from '../../schemas/prospects.ts';
import { fieldCodes, type FieldCode } from '../document.ts';
import type { Database } from '../../database/db.ts';
import { unavailable, type DomainError } from '../../errors.ts';
import { findCatalogState, saveIncarnation } from '../../queries/jobs/catalog-imports.ts';
import { type ClusterClient, type Reader, ClusterRefusal, count } from './cluster.ts';
import { unkeyedDetail, type CatalogStatus } from '../catalog.ts';

export interface Names {
  people: string;
  /** Alias of all indexes with people: the one for searches and, during a reindex, the new one. */
  everywhere: string;
  values: string;
}

/**
 * Version of the index format, which is part of all index names. Increase it when the fields, `fold` or `usualSpelling`
 * change.
 */
const layout = 1;

export const namesOf = ({ ELASTICSEARCH_INDEX }: Config): Names => {
  const people = `${ELASTICSEARCH_INDEX}-v${layout}`;
  return { people, everywhere: `${people}-everywhere`, values: `${people}-values` };
};

export const newIndex = (alias: string): string => `${alias}-${Date.now()}-${randomBytes(4).toString('hex')}`;

export const isNamedFor = (index: string, alias: string): boolean =>
  index.startsWith(`${alias}-`) && /^\d+(-[0-9a-f]{8})?$/.test(index.slice(alias.length + 1));

export const writeAlias = (index: string): string => `${index}-writes`;

type Properties = Record<string, estypes.MappingProperty>;

const keyword: estypes.MappingProperty = { type: 'keyword' };
const searchable: estypes.MappingProperty = { type: 'keyword', doc_values: false };
const sortable: estypes.MappingProperty = { type: 'keyword', index: false };
const half: estypes.MappingProperty = { type: 'long', index: false };
/** Type of a small number. Filters scan its values, because an index on it would slow down imports. */
const small: estypes.MappingProperty = { type: 'byte', index: false };

export const foldedField = <M extends TextField>(field: M): FieldCode<M> => fieldCodes[field];
export const wordsField = <M extends WordField>(field: M): `${FieldCode<M>}w` => `${fieldCodes[field]}w`;
export const spelledField = <M extends TextField>(field: M): `${FieldCode<M>}s` => `${fieldCodes[field]}s`;

const perMember = <M extends TextField>(
  members: readonly M[],
  name: (field: M) => string,
  property: estypes.MappingProperty,
): Properties => Object.fromEntries(members.map((field) => [name(field), property]));

const copies = (config: Config): estypes.IndicesIndexSettings => ({
  number_of_shards: config.ELASTICSEARCH_SHARDS,
  number_of_replicas: config.ELASTICSEARCH_REPLICAS,
});

type IndexFormat = Pick<estypes.IndicesCreateRequest, 'settings' | 'mappings'>;

const laterFields: Properties = { k: searchable };

/** How often new writes become visible to searches. A longer interval makes an import faster. */
export const refreshIntervals = { atRest: '5s', whileLoading: '30s' } as const;

/**
 * Returns the settings and fields of an index of people. It is sorted by score, so that a search in the default order
 * can stop after one page.
 */
export const peopleIndex = (config: Config): IndexFormat => ({
  settings: {
    ...copies(config),
    refresh_interval: refreshIntervals.whileLoading,
    sort: { field: ['score', 'id_high', 'id_low'], order: ['desc', 'asc', 'asc'] },
  },
  mappings: {
    dynamic: 'strict',
    // The source keeps all fields. If some were excluded, the cluster would store a second, full source to recover its
    // copies, and would sort and merge both.
    properties: {
      details: { type: 'object', enabled: false },
      id_high: half,
      id_low: half,
      ...perMember(textFields, foldedField, keyword),
      ...perMember(wordFields, wordsField, searchable),
      ...perMember(textFields, spelledField, sortable),
      verification_status: keyword,
      score: small,
      // Milliseconds since 1970.
      date_verified: { type: 'long' },
      has_email: small,
      has_phone: small,
      unlocked_by: searchable,
      ...laterFields,
    },
  },
});

/**
 * Returns the settings and fields of the index of suggested values. It is sorted by number of people, so that the most
 * frequent values come first.
 */
export const valuesIndex = (config: Config): IndexFormat => ({
  settings: {
    ...copies(config),
    number_of_shards: 1,
    refresh_interval: '-1',
    sort: { field: ['people', 'value', 'member'], order: ['desc', 'asc', 'asc'] },
  },
  mappings: {
    dynamic: 'strict',
    properties: { member: keyword, value: sortable, people: { type: 'long' }, words: searchable },
  },
});

export interface Indexes {
  nodes: ClusterClient;
  db: Database;
  unlocks: Database;
  names: Names;
  config: Config;
}

export interface FoundIndex {
  name: string;
  uuid: string;
  aliases: string[];
  isOurs: boolean;
  blocks: string[];
  isClosed: boolean;
  createdAt: string;
}

/**
 * The index of an alias. `missing`: no index has the alias. `foreign`: several indexes have it, or the service did not
 * create the index.
 */
type IndexState = FoundIndex | 'missing' | 'foreign';

export const catalogLost = (): DomainError =>
  unavailable('The prospect catalog is missing in its search cluster. Run an import to restore it', 5);

/**
 * Rethrows the error of a call. Use it as `promise.catch(whenIndexMissing)`.
 * @throws DomainError `unavailable` if an index is missing; otherwise the given error
 */
export function whenIndexMissing(error: unknown): never {
  throw error instanceof ClusterRefusal && error.meaning === 'missing' ? catalogLost() : error;
}

/**
 * Returns all indexes that have this alias, or a name that equals or begins with it. Includes closed and hidden ones,
 * and those of other programs (see `isOurs`).
 */
export async function findIndexes(reader: Reader, alias: string): Promise<FoundIndex[]> {
  const request = {
    index: [alias, `${alias}-*`],
    ignore_unavailable: true,
    expand_wildcards: ['open', 'closed', 'hidden'],
    filter_path: [
      '*.aliases',
      '*.mappings.dynamic',
      '*.settings.index.uuid',
      '*.settings.index.blocks',
      '*.settings.index.creation_date',
      '*.settings.index.verified_before_close',
    ],
  } satisfies estypes.IndicesGetRequest;
  const found = await reader.read((client, options) => client.indices.get(request, options));
  return Object.entries(found).map(([name, { aliases = {}, mappings, settings }]) => {
    const { uuid, creation_date, blocks = {}, ...more } = settings!.index!;
    return {
      name,
      uuid: uuid!,
      aliases: Object.keys(aliases),
      isOurs: isNamedFor(name, alias) && mappings?.dynamic === 'strict',
      blocks: Object.entries(blocks).flatMap(([block, isSet]) => (String(isSet) === 'true' ? [block] : [])),
      isClosed: String(more['verified_before_close']) === 'true',
      createdAt: String(creation_date),
    };
  });
}

export function standingOf(found: FoundIndex[], alias: string): IndexState {
  const [index, ...others] = found.filter(({ name, aliases }) => name === alias || aliases.includes(alias));
  if (!index) return 'missing';
  return index.isOurs && others.length === 0 ? index : 'foreign';
}

const findStanding = async (reader: Reader, alias: string): Promise<IndexState> =>
  standingOf(await findIndexes(reader, alias), alias);

export const wasImported = async ({ db, names }: Pick<Indexes, 'db' | 'names'>): Promise<boolean> =>
  Boolean((await db.lookup((sql) => findCatalogState(sql, names.people)))?.imported_at);

/**
 * Calls `read`. Returns `nothing` if the index is missing because no import has finished yet.
 * @param alias the alias that the read uses
 * @throws DomainError `unavailable` if the cluster cannot respond, or the index of an imported catalog is missing
 * @throws ClusterRefusal if the request itself is wrong
 */
export async function readCatalog<T>(indexes: Indexes, alias: string, read: () => Promise<T>, nothing: T): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ClusterRefusal)) throw error;
    const standing = await findStanding(indexes.nodes, alias);
    if (standing === 'foreign') throw catalogLost();
    // The index exists now. It was missing only for a moment, so the read is tried again.
    if (standing !== 'missing') return error.meaning === 'missing' ? read() : Promise.reject(error);
    if (await wasImported(indexes)) throw catalogLost();
    return nothing;
  }
}

export interface WriteTarget extends FoundIndex {
  isSearched: boolean;
}

/**
 * Finds the index for writes: the index that searches use, or that of an unfinished import which replaces a lost one.
 * Deletes the remains of an interrupted reindex.
 * @returns undefined if the catalog has no index
 * @throws DomainError `unavailable` if an operator must change something in the cluster first
 */
export async function findTarget(indexes: Indexes): Promise<WriteTarget | undefined> {
  const { nodes, names, db } = indexes;
  const known = await db.lookup((sql) => findCatalogState(sql, names.people));
  const found = await findIndexes(nodes.retrying(), names.people);
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

/**
 * Checks that an index accepts writes. Ignores the block of a nearly full disk, which the cluster removes by itself.
 */
function requireOpen({ name, blocks, isClosed }: FoundIndex): void {
  if (isClosed) throw mustAct(`The index ${name} is closed`);
  const block = blocks.find((one) => one !== 'read_only_allow_delete');
  if (block !== undefined) throw mustAct(`The index ${name} has the block ${block}`);
}

async function addFields(nodes: ClusterClient, { name: index }: FoundIndex): Promise<void> {
  const fields = Object.keys(laterFields);
  const known = await nodes.work((client, options) => client.indices.getFieldMapping({ index, fields }, options));
  if (fields.every((field) => known[index]?.mappings[field])) return;
  await nodes.work((client, options) => client.indices.putMapping({ index, properties: laterFields }, options));
}

async function deleteLeftovers(nodes: ClusterClient, names: Names, found: FoundIndex[], target: WriteTarget) {
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
 * Creates an empty index for all later writes. Searches use it at once if it is the catalog's first. If it replaces a
 * lost one, searches use it after the import.
 */
export async function createPeople(indexes: Indexes): Promise<WriteTarget> {
  const isSearched = !(await wasImported(indexes));
  const { everywhere, people } = indexes.names;
  const target = { ...(await createIndex(indexes, isSearched ? [everywhere, people] : [everywhere])), isSearched };
  await saveTarget(indexes, target);
  return target;
}

export async function createIndex({ nodes, config, names }: Indexes, aliases: string[]): Promise<FoundIndex> {
  const index = newIndex(names.people);
  const all = Object.fromEntries([...aliases, writeAlias(index)].map((alias) => [alias, {}]));
  // 400 means that the index exists: an earlier attempt of this call may have created it.
  await nodes.work((client, options) =>
    client.indices.create({ index, ...peopleIndex(config), aliases: all }, { ...options, ignore: [400] }),
  );
  const made = (await findIndexes(nodes.retrying(), names.people)).find(({ name }) => name === index);
  if (!made) throw catalogLost();
  return made;
}

export const saveTarget = ({ db, names }: Indexes, { uuid, isSearched }: Pick<WriteTarget, 'uuid' | 'isSearched'>) =>
  db.transaction((sql) => saveIncarnation(sql, names.people, { incarnation: uuid, is_searched: isSearched }));

export const isUp = (indexes: Indexes): Promise<boolean> =>
  Promise.all([isWhole(indexes, indexes.names.people), isWhole(indexes, indexes.names.values)]).then(
    (all) => all.every(Boolean),
    () => false,
  );

/**
 * Returns true if the index of the alias is ours and not blocked, and all its primary shards are available. Also
 * returns true before the first import.
 */
async function isWhole(indexes: Indexes, alias: string): Promise<boolean> {
  const { nodes } = indexes;
  const standing = await findStanding({ read: (call) => nodes.ask(call) }, alias);
  if (standing === 'missing') return !(await wasImported(indexes));
  if (standing === 'foreign') return false;
  const index = standing.name;
  const [health, state] = await Promise.all([
    nodes.ask((client, options) => client.cluster.health({ index }, options)),
    nodes.ask((client, options) => client.cluster.state({ index, metric: 'blocks', filter_path: 'blocks' }, options)),
  ]);
  const { global = {}, indices = {} } = (state['blocks'] ?? {}) as Blocks;
  // A closed index is listed as blocked too. The list may also contain other indexes.
  return health.status !== 'red' && Object.keys(global).length === 0 && !(index in indices);
}

interface Blocks {
  global?: object;
  indices?: Record<string, object>;
}

export async function statusOf(indexes: Indexes): Promise<CatalogStatus> {
  const { nodes, names } = indexes;
  const [people, values] = await Promise.all([countIn(nodes, names.people), countIn(nodes, names.values)]);
  const health = await nodes.read((client, options) => client.cluster.health({}, options));
  return {
    engine: 'elasticsearch',
    people: people.count,
    suggestions: values.count,
    details: {
      index: people.index,
      state: stateOf(people.standing, await wasImported(indexes)),
      bytes: people.bytes,
      cluster: health.status,
      nodes: health.number_of_nodes,
      ...unkeyedDetail(await countUnkeyed(nodes, people)),
    },
  };
}

interface Counted {
  standing: IndexState;
  index: string;
  count: number;
  bytes: number;
}

async function countUnkeyed(nodes: ClusterClient, { index, count: people }: Counted): Promise<number> {
  return people === 0 ? 0 : count(nodes, { index, query: { bool: { must_not: { exists: { field: 'k' } } } } });
}

async function countIn(nodes: ClusterClient, alias: string): Promise<Counted> {
  const standing = await findStanding(nodes, alias);
  if (typeof standing === 'string') return { standing, index: 'none', count: 0, bytes: 0 };
  const { name: index } = standing;
  const { indices = {} } = await nodes.read((client, options) =>
    client.indices.stats({ index, metric: ['store'] }, options),
  );
  return {
    standing,
    index,
    count: await count(nodes, { index }),
    bytes: indices[index]?.total?.store?.size_in_bytes ?? 0,
  };
}

function stateOf(standing: IndexState, wasImported: boolean): string {
  if (standing === 'foreign') return 'another index has its alias';
  if (standing === 'missing')
    return wasImported ? 'lost; give its alias back, or run an import to restore it' : 'not imported yet';
  if (standing.isClosed) return 'closed';
  if (standing.blocks.length > 0) return `blocked: ${standing.blocks.join(', ')}`;
  return 'found';
}
