import { setTimeout as sleep } from 'node:timers/promises';
import type { estypes } from '@elastic/elasticsearch';
import { unavailable } from '../../errors.ts';
import {
  findUnlockingCustomers,
  markIndexed,
  findUnindexedUnlocks,
  type UnlockKey,
} from '../../queries/catalog/unlocks.ts';
import { toDocument } from '../document.ts';
import { bulk, toOperation } from './bulk.ts';
import { ClusterRefusal } from './errors.ts';
import { writeAlias } from './index-definitions.ts';
import { findIndexes, catalogLost, standingOf, wasImported, type FoundIndex, type Indexes } from './indexes.ts';
import { fromSource, toSource, type PersonSource } from './source.ts';

/**
 * How long calls to the cluster are retried while unlocks are copied to the cluster (ms). This time is short, because
 * the background job can run again later, and other jobs need the worker.
 */
export const syncPatienceMs = 10_000;

/**
 * Reads from Postgres which customers have unlocked (paid to see) these people. Returns a map from person id to
 * customer ids. People without unlocks are missing in the map.
 */
export const unlocksOf = ({ unlocks }: Indexes, ids: string[]): Promise<Map<string, string[]>> =>
  unlocks.search((sql) => findUnlockingCustomers(sql, ids));

const attempts = 20;
const batchSize = 500;

/**
 * What copying unlocks (which customers have bought which prospects) to the search cluster demands. `searched`: the
 * index that searches use must exist; only before the first import has finished may it be missing. `any`: it may be
 * missing, for example during an import that replaces a lost index.
 */
type Demand = 'searched' | 'any';

// A document is written only if no other process has changed it since it was read; otherwise it is read and written
// again.
/**
 * Copies unlocks from Postgres into every index of people, and marks the unlocks as indexed. An unlock means that a
 * customer has paid to see a person. If two calls run at the same time, older unlocks never replace newer ones.
 * @param ids ids of the people whose unlocks are copied
 * @param demand `any` if the index that searches use may be missing, as during an import that replaces a lost index
 * @throws DomainError `unavailable` if some unlocks could not be written in time; these unlocks are not marked as
 *   indexed
 */
export async function syncUnlocks(catalog: Indexes, ids: string[], demand: Demand = 'searched'): Promise<void> {
  for (let from = 0; from < ids.length; from += batchSize)
    await syncBatch(catalog, ids.slice(from, from + batchSize), demand);
}

async function syncBatch(catalog: Indexes, ids: string[], demand: Demand): Promise<void> {
  let left = ids;
  for (let attempt = 0; left.length > 0; attempt += 1) {
    if (attempt === attempts) throw unavailable('Not all unlocks could be written to the catalog');
    if (attempt > 0) await sleep(Math.random() * 50 * attempt);
    left = await syncOnce(catalog, left, demand);
  }
}

/**
 * Tries once to copy the unlocks of people from Postgres into the indexes. Returns the ids of the people whose document
 * could not be read, or was changed by another process at the same time.
 */
async function syncOnce(catalog: Indexes, ids: string[], demand: Demand): Promise<string[]> {
  const indexes = await indexesOf(catalog, demand);
  if (indexes.length === 0) return [];
  const read = await Promise.all(indexes.map((index) => readPeople(catalog, index, ids)));
  // Read before the unlocks: every unlock that is unindexed now is among those read below.
  const unindexed = await catalog.unlocks.search((sql) => findUnindexedUnlocks(sql, ids));
  const customers = await unlocksOf(catalog, ids);
  const left = new Set((await Promise.all(read.map((people) => writeUnlocks(catalog, people, customers)))).flat());
  // Only after all indexes have the unlock: an unlock that is marked as indexed is not checked again.
  await noteIndexed(
    catalog,
    unindexed.filter(({ prospect_id }) => !left.has(prospect_id)),
  );
  return [...left];
}

/**
 * Returns the indexes to which unlocks must be written. Asks the cluster in each call, because a reindex may have
 * created another index.
 * @throws DomainError `unavailable` if the alias for searches belongs to several indexes, or to an index that the
 *   service did not create
 * @throws DomainError `unavailable` if `demand` is `searched` and no index has this alias, although an import has
 *   finished
 */
async function indexesOf(catalog: Indexes, demand: Demand): Promise<FoundIndex[]> {
  const { nodes, names } = catalog;
  const found = await findIndexes(nodes, names.people, syncPatienceMs);
  const standing = standingOf(found, names.people);
  if (standing === 'foreign') throw catalogLost();
  if (standing === 'missing' && demand === 'searched' && (await wasImported(catalog))) throw catalogLost();
  return found.filter(
    ({ name, aliases }) =>
      name !== names.people && [names.people, names.everywhere].some((alias) => aliases.includes(alias)),
  );
}

/** The result of reading people from one index. */
interface PeopleRead {
  index: FoundIndex;
  /** The documents of those people who are in the index. */
  found: estypes.GetGetResult<PersonSource>[];
  /** The ids whose read failed. The index may contain these people or not. */
  unread: string[];
}

/**
 * Reads the documents of people from one index, by id. If a document cannot be read, for example because its shard is
 * still starting, the id is returned in `unread`.
 */
async function readPeople({ nodes }: Indexes, index: FoundIndex, ids: string[]): Promise<PeopleRead> {
  const { docs } = await nodes.work(
    (client, options) => client.mget<PersonSource>({ index: index.name, ids }, options),
    syncPatienceMs,
  );
  return {
    index,
    found: docs.filter((doc) => 'found' in doc).filter(({ found }) => found),
    unread: docs.filter((doc) => 'error' in doc).map(({ _id }) => _id),
  };
}

/**
 * Writes people back to the index from which they were read. Adds the ids of the customers who have unlocked them.
 * Returns the ids of the people for whom this failed, so that the caller can retry.
 */
async function writeUnlocks(
  { nodes, names }: Indexes,
  { index, found, unread }: PeopleRead,
  customers: Map<string, string[]>,
): Promise<string[]> {
  const operations = found.map(({ _id, _source, _seq_no, _primary_term }) => {
    const document = toDocument(fromSource(_id, _source!));
    const action = { index: { _id, if_seq_no: _seq_no, if_primary_term: _primary_term } };
    return toOperation(_id, action, toSource(document, customers.get(_id) ?? []));
  });
  // An index that an earlier release created has no write alias. It is written through the alias for searches.
  const own = writeAlias(index.name);
  const alias = index.aliases.includes(own) ? own : names.people;
  const results = await bulk(nodes, alias, operations, syncPatienceMs).catch(allLeft(operations.map(({ id }) => id)));
  const conflicts = [...results].filter(([, { status }]) => status === 409).map(([id]) => id);
  return [...unread, ...conflicts];
}

/**
 * Returns a handler for errors of a bulk write. If the index is missing, the handler returns the result 409 (conflict)
 * for every id, so that the caller retries all of them. The handler rethrows all other errors.
 * @param ids ids of the written people
 */
const allLeft = (ids: string[]) => (error: unknown) => {
  if (error instanceof ClusterRefusal && error.meaning === 'missing')
    return new Map(ids.map((id) => [id, { status: 409 }]));
  throw error;
};

async function noteIndexed(catalog: Indexes, indexed: UnlockKey[]): Promise<void> {
  if (indexed.length > 0) await catalog.unlocks.transaction((sql) => markIndexed(sql, indexed));
}
