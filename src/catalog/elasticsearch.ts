import { setTimeout as sleep } from 'node:timers/promises';
import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../config.ts';
import type { Database } from '../db.ts';
import { unavailable } from '../errors.ts';
import { serviceItself } from '../requester.ts';
import type { Prospect } from '../schemas/prospects.ts';
import type { Catalog, CatalogReads, Search, Slice } from './catalog.ts';
import { toDocument } from './document.ts';
import { SearchNodes, type Reader } from './elasticsearch-cluster.ts';
import { refreshed, whole } from './elasticsearch-errors.ts';
import { namesOf, refreshIntervals, writeAlias } from './elasticsearch-index.ts';
import {
  findIndexes,
  lost,
  readCatalog,
  standingOf,
  wasImported,
  whenGone,
  type Indexes,
} from './elasticsearch-indexes.ts';
import { matching, searchAfter, sortBy } from './elasticsearch-query.ts';
import {
  createIndex,
  createPeople,
  deleteIndexes,
  noteTarget,
  repairPeople,
  type Say,
  type Target,
} from './elasticsearch-repair.ts';
import { fromSource, type PersonSource } from './elasticsearch-source.ts';
import { isUp, statusOf } from './elasticsearch-status.ts';
import { syncPatienceMs, syncUnlocks } from './elasticsearch-unlocks.ts';
import { rebuildValues, suggest } from './elasticsearch-values.ts';
import { encode, erasePeople, writePeople } from './elasticsearch-writing.ts';
import { bestFirst, positionOf, type ProspectPosition } from './order.ts';

/** Opens the catalog in an Elasticsearch cluster, for many millions of people. Connects at the first call. */
export function elasticsearchCatalog(config: Config, db: Database): Catalog {
  const nodes = new SearchNodes(config);
  const names = namesOf(config);
  const indexes: Indexes = { nodes, db, names, config };
  /**
   * The index that writes go to, from `prepare` on. It does not change until the next `prepare` or `reindex`: if the
   * index is lost, later writes must fail instead of going to another index.
   */
  let target: Target | undefined;
  const mended = async (): Promise<Target | undefined> => (target ??= await repairPeople(indexes, silent));
  const demanded = async (): Promise<Target> => {
    const found = await mended();
    if (!found) throw lost();
    return found;
  };
  return {
    engine: 'elasticsearch',
    name: names.people,
    gates: [nodes.gate],
    get isRefusing() {
      return nodes.isRefusing;
    },
    ...reads(indexes, nodes.for({ customerId: serviceItself })),
    for: (requester) => reads(indexes, nodes.for(requester)),

    syncUnlocks: (ids) => syncUnlocks(indexes, ids),
    refresh: () => refresh(nodes, [names.everywhere, names.people], syncPatienceMs),
    isUp: () => isUp(indexes),

    prepare: async (say = silent) => {
      target = (await repairPeople(indexes, say)) ?? (await createPeople(indexes));
      return target.uuid;
    },
    encode,
    write: async (people) => writePeople(indexes, (await demanded()).name, people),
    remove: async (ids) => {
      if (!(await mended()) && !(await wasImported(indexes))) return 0;
      const { name, isSearched } = await demanded();
      // The catalog was lost. An import that replaces it is running or was interrupted.
      if (!isSearched) throw lost();
      return erasePeople(indexes, name, ids);
    },
    finish: async () => {
      if (!(await mended()) && !(await wasImported(indexes))) return 0;
      const people = await finish(indexes, await demanded()).catch(whenGone);
      target = { ...target!, isSearched: true };
      return people;
    },
    reindex: async (progress) => {
      const old = (await repairPeople(indexes, silent)) ?? (await createPeople(indexes));
      const { people, index } = await reindex(indexes, old, progress).catch(whenGone);
      target = index;
      return people;
    },
    status: () => statusOf(indexes),
    close: () => nodes.close(),
  };
}

/** Builds the catalog's read methods on a reader. They throw `unavailable` if an imported catalog is missing. */
function reads(indexes: Indexes, reader: Reader): CatalogReads {
  const { names } = indexes;
  const read = <T>(ask: () => Promise<T>, nothing: T): Promise<T> => readCatalog(indexes, names.people, ask, nothing);
  return {
    search: (search, slice) => read(() => searchPeople(reader, names.people, search, slice), []),
    count: (search) => read(() => countPeople(reader, names.people, search), 0),
    find: (ids) => read(() => findPeople(reader, names.people, ids), []),
    suggest: (query) => readCatalog(indexes, names.values, () => suggest(reader, names, query), []),
  };
}

const silent: Say = () => undefined;

/**
 * Returns one page of matching people. Fetches the whole source, though not all of it is needed: source filtering costs
 * the cluster more than the rest of the search.
 */
async function searchPeople(
  reader: Reader,
  index: string,
  search: Search,
  { limit, skip = 0, after }: Slice,
): Promise<Prospect[]> {
  return readPeople(reader, {
    index,
    query: matching(search),
    sort: sortBy(search.order),
    size: limit,
    ...(after ? { search_after: searchAfter(search.order, after) } : { from: skip }),
  });
}

/** Returns the people with these ids. Uses a search, not mget, so that it sees the same state as lists do. */
const findPeople = async (reader: Reader, index: string, ids: string[]): Promise<Prospect[]> =>
  ids.length === 0
    ? []
    : readPeople(reader, { index, query: { ids: { values: ids } }, sort: ourOrder, size: ids.length });

async function readPeople(reader: Reader, request: estypes.SearchRequest): Promise<Prospect[]> {
  const { hits } = await reader.read(async (client, options, route) =>
    whole(
      await client.search<PersonSource>(
        { allow_partial_search_results: false, track_total_hits: false, ...request, ...route },
        options,
      ),
    ),
  );
  return (hits?.hits ?? []).map(({ _id, _source }) => fromSource(_id!, _source!));
}

/**
 * A sort by the id's numeric fields, which only the service's indexes have. Every read uses it as a guard: the cluster
 * rejects the read on a foreign index, where it would otherwise find nothing or count wrong documents. A count requests
 * no hits, so the sort costs nothing there.
 */
const ourOrder = sortBy([]);

async function countPeople(
  reader: Reader,
  index: string,
  search: Pick<Search, 'criteria' | 'netNewFor'>,
): Promise<number> {
  const request = { index, allow_partial_search_results: false, query: matching(search), sort: ourOrder, size: 0 };
  const { hits } = await reader.read(async (client, options, route) =>
    whole(await client.search({ ...request, ...route, track_total_hits: true }, options)),
  );
  return typeof hits.total === 'number' ? hits.total : (hits.total?.value ?? 0);
}

/** Makes all earlier writes to these indexes visible to searches. Skips indexes that do not exist. */
async function refresh(nodes: SearchNodes, index: string | string[], patienceMs?: number): Promise<void> {
  const ask = { index, ignore_unavailable: true };
  await nodes.work(async (client, options) => refreshed(await client.indices.refresh(ask, options)), patienceMs);
}

/** Sets how often an index is refreshed by itself, e.g. `5s`. */
const refreshEvery = (nodes: SearchNodes, index: string, refresh_interval: string): Promise<unknown> =>
  nodes.work((client, options) => client.indices.putSettings({ index, settings: { refresh_interval } }, options));

/**
 * Ends an import: makes all writes visible and counts the suggestions. If the index replaces a lost catalog, searches
 * use it from now on. Returns the number of people.
 * @throws DomainError `unavailable` if searches use another index at the end
 */
async function finish(indexes: Indexes, { name, uuid, isSearched }: Target): Promise<number> {
  const { nodes, names, config } = indexes;
  await refresh(nodes, writeAlias(name));
  await refreshEvery(nodes, name, refreshIntervals.atRest);
  await rebuildValues(nodes, names, config, undefined, name);
  if (!isSearched) {
    const actions = [{ add: { index: name, alias: names.people } }];
    await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
  }
  const standing = standingOf(await findIndexes(nodes, names.people), names.people);
  if (typeof standing === 'string' || standing.uuid !== uuid) throw replaced();
  return countAll(nodes, name);
}

const replaced = () =>
  unavailable(
    'The index that people were written to was replaced meanwhile, so searches use another one. Import again',
  );

const batchSize = 1_000;

/**
 * Copies the people into a new index, then switches the aliases to it in one atomic step and deletes the old index.
 * @returns the number of people in the new index, and the index
 * @throws DomainError `unavailable`, also if the old index is not the one that searches use
 */
async function reindex(
  indexes: Indexes,
  old: Target,
  progress: (done: number, total: number) => Promise<void> | void,
): Promise<{ people: number; index: Target }> {
  const { nodes, names, config } = indexes;
  if (!old.isSearched) throw lost();
  await refresh(nodes, old.name);
  const total = await countAll(nodes, old.name);
  const index = await createIndex(indexes, [names.everywhere]);
  const done = await copyPeople(indexes, old.name, index.name, (done) => progress(done, total));
  await refresh(nodes, index.name);
  const people = await countAll(nodes, index.name);
  if (people !== done)
    throw new Error(
      `${done} people were copied, but the new index holds ${people}. The old index stays in use. Run reindex again`,
    );
  await refreshEvery(nodes, index.name, refreshIntervals.atRest);
  const actions = [
    { remove: { index: old.name, alias: names.people } },
    { remove: { index: old.name, alias: names.everywhere } },
    { add: { index: index.name, alias: names.people } },
  ];
  const next = { ...index, isSearched: true };
  // Both indexes are complete now, so after an interruption either one may be chosen.
  await noteTarget(indexes, next);
  await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
  await rebuildValues(nodes, names, config);
  // Waits for searches that still use the old index.
  await sleep(nodes.longestReadMs);
  await deleteIndexes(nodes, [old.name]);
  return { people, index: next };
}

/** Returns the number of documents in an index. */
const countAll = (nodes: SearchNodes, index: string): Promise<number> =>
  nodes.work(async (client, options) => whole(await client.count({ index }, options)).count);

/**
 * Copies all people from one index to another, with their current unlocks from Postgres. Returns their number. Reads a
 * batch while the previous one is written.
 */
async function copyPeople(
  indexes: Indexes,
  from: string,
  to: string,
  progress: (done: number) => Promise<void> | void,
): Promise<number> {
  let done = 0;
  let writes: Promise<void> = Promise.resolve();
  for (let after: ProspectPosition | undefined; ;) {
    const people = await readBatch(indexes.nodes, from, after);
    await writes;
    await progress((done += people.length));
    if (people.length === 0) return done;
    writes = writePeople(
      indexes,
      to,
      people.map((person) => ({ id: person._id, bytes: Buffer.from(encode(toDocument(person))) })),
    );
    writes.catch(() => undefined); // a failure is thrown where the next batch awaits this promise
    after = positionOf(people.at(-1)!, bestFirst);
  }
}

/** Reads the next batch of people in the default order, after a position. Returns an empty array at the end. */
async function readBatch(nodes: SearchNodes, index: string, after: ProspectPosition | undefined): Promise<Prospect[]> {
  const request = {
    index,
    allow_partial_search_results: false,
    sort: sortBy(bestFirst),
    size: batchSize,
    track_total_hits: false,
    ...(after ? { search_after: searchAfter(bestFirst, after) } : {}),
  };
  const { hits } = await nodes.work(async (client, options) =>
    whole(await client.search<PersonSource>(request, options)),
  );
  return hits.hits.map(({ _id, _source }) => fromSource(_id!, _source!));
}
