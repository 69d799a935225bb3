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
 * How long calls are retried while unlocks are copied (ms). Short, because the job can run again later, and other jobs
 * need the worker.
 */
export const syncPatienceMs = 10_000;

/** Returns customer ids by person id. People without unlocks are missing. */
export const unlocksOf = ({ unlocks }: Indexes, ids: string[]): Promise<Map<string, string[]>> =>
  unlocks.search((sql) => findUnlockingCustomers(sql, ids));

const attempts = 20;
const batchSize = 500;

/**
 * `searched`: the index that searches use must exist, except before the first import has finished. `any`: it may be
 * missing, e.g. during an import that replaces a lost one.
 */
type Demand = 'searched' | 'any';

/**
 * Copies unlocks from PostgreSQL into every index of people, and marks them as indexed. A document is written only if
 * no other process has changed it since it was read, so older unlocks never replace newer ones.
 * @param ids of the people
 * @throws DomainError `unavailable` if some could not be written in time; these are not marked as indexed
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
 * Tries once. Returns the ids of people whose document could not be read, or was changed by another process meanwhile.
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
  const indexed = unindexed.filter(({ prospect_id }) => !left.has(prospect_id));
  await noteIndexed(catalog, indexed);
  return [...left];
}

/**
 * Returns the indexes to which unlocks must be written. Asks the cluster each time, because a reindex may have created
 * another.
 * @throws DomainError `unavailable` if the alias for searches belongs to several indexes or to a foreign one; or if
 * `demand` is `searched` and none has it, although an import has finished
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

interface PeopleRead {
  index: FoundIndex;
  /** Documents of those who are in the index. */
  found: estypes.GetGetResult<PersonSource>[];
  /** Ids whose read failed: they may be in the index or not. */
  unread: string[];
}

/** By id. One that cannot be read, e.g. because its shard is still starting, is in `unread`. */
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

/** Writes people back with their unlocks. Returns the ids for which this failed, so that the caller can retry. */
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
 * Handles a missing index as the result 409 (conflict) for every id, so that the caller retries all. Rethrows other
 * errors.
 */
const allLeft = (ids: string[]) => (error: unknown) => {
  if (error instanceof ClusterRefusal && error.meaning === 'missing')
    return new Map(ids.map((id) => [id, { status: 409 }]));
  throw error;
};

async function noteIndexed(catalog: Indexes, indexed: UnlockKey[]): Promise<void> {
  if (indexed.length > 0) await catalog.unlocks.transaction((sql) => markIndexed(sql, indexed));
}
