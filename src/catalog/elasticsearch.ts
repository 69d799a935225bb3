import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config.ts';
import type { Database } from '../db.ts';
import { serviceItself } from '../requester.ts';
import type { Prospect } from '../schemas/prospects.ts';
import type { Catalog, CatalogReads, CatalogStatus, Search, Slice } from './catalog.ts';
import { toDocument } from './document.ts';
import { SearchNodes, type Reader } from './elasticsearch-cluster.ts';
import { namesOf, newIndex, peopleIndex, refreshIntervals, type Names } from './elasticsearch-index.ts';
import { matching, searchAfter, sortBy } from './elasticsearch-query.ts';
import { fromSource, type PersonSource } from './elasticsearch-source.ts';
import { syncPatienceMs, syncUnlocks, type Writing } from './elasticsearch-unlocks.ts';
import { rebuildValues, suggest } from './elasticsearch-values.ts';
import { encode, erasePeople, writePeople } from './elasticsearch-writing.ts';
import { bestFirst, positionOf, type ProspectPosition } from './order.ts';

/** The catalog in an Elasticsearch cluster, for many millions of people. It connects when first asked. */
export function elasticsearchCatalog(config: Config, db: Database): Catalog {
  const nodes = new SearchNodes(config);
  const names = namesOf(config);
  const writing: Writing = { nodes, db, names };
  const refresh = (patienceMs?: number) =>
    nodes.work(
      (client, options) => client.indices.refresh({ index: names.everywhere, ignore_unavailable: true }, options),
      patienceMs,
    );
  return {
    engine: 'elasticsearch',
    ...reads(nodes.for({ customerId: serviceItself }), names),
    for: (requester) => reads(nodes.for(requester), names),

    syncUnlocks: (ids) => syncUnlocks(writing, ids),
    refresh: async () => void (await refresh(syncPatienceMs)),
    isUp: () => nodes.isUp(),

    prepare: async () => {
      await prepare(nodes, names, config);
      await refreshEvery(nodes, names.people, refreshIntervals.whileLoading);
    },
    encode,
    write: (people) => writePeople(writing, names.people, people),
    remove: (ids) => erasePeople(writing, ids),
    finish: async () => {
      await refresh();
      await refreshEvery(nodes, names.people, refreshIntervals.atRest);
      await rebuildValues(nodes, names, config);
    },
    reindex: (progress) => reindex(writing, config, progress),
    status: () => statusOf(nodes, names),
    close: () => nodes.close(),
  };
}

const reads = (reader: Reader, names: Names): CatalogReads => ({
  search: (search, slice) => searchPeople(reader, names.people, search, slice),
  count: (search) => countPeople(reader, names, search),
  find: (ids) => findPeople(reader, names, ids),
  suggest: (query) => suggest(reader, names, query),
});

const common = { ignore_unavailable: true, allow_partial_search_results: false } as const;

/** All of the source, though not all is read: to pick from it costs the cluster more than the rest of the search. */
async function searchPeople(
  reader: Reader,
  index: string,
  search: Search,
  { limit, skip = 0, after }: Slice,
): Promise<Prospect[]> {
  const { hits } = await reader.read((client, options, route) =>
    client.search<PersonSource>(
      {
        index,
        ...common,
        ...route,
        query: matching(search),
        sort: sortBy(search.order),
        size: limit,
        ...(after ? { search_after: searchAfter(search.order, after) } : { from: skip }),
        track_total_hits: false,
      },
      options,
    ),
  );
  return (hits?.hits ?? []).map(({ _id, _source }) => fromSource(_id!, _source!));
}

async function countPeople(
  reader: Reader,
  names: Names,
  search: Pick<Search, 'criteria' | 'netNewFor'>,
): Promise<number> {
  const { hits } = await reader.read((client, options, route) =>
    client.search(
      { index: names.people, ...common, ...route, query: matching(search), size: 0, track_total_hits: true },
      options,
    ),
  );
  return typeof hits.total === 'number' ? hits.total : (hits.total?.value ?? 0);
}

/** By search, not by mget: what one sees the other must see. */
async function findPeople(reader: Reader, names: Names, ids: string[]): Promise<Prospect[]> {
  if (ids.length === 0) return [];
  const { hits } = await reader.read((client, options, route) =>
    client.search<PersonSource>(
      { index: names.people, ...common, ...route, query: { ids: { values: ids } }, size: ids.length },
      options,
    ),
  );
  return hits.hits.map(({ _id, _source }) => fromSource(_id!, _source!));
}

/** Makes the index if there is none, and takes away what an interrupted reindex left. */
async function prepare(nodes: SearchNodes, names: Names, config: Config): Promise<void> {
  const all = await nodes.work((client, options) => client.indices.get({ index: `${names.people}-*` }, options));
  const left = Object.keys(all).filter(
    (name) => all[name]!.aliases?.[names.everywhere] && !all[name]!.aliases?.[names.people],
  );
  if (left.length > 0)
    await nodes.work((client, options) => client.indices.delete({ index: left, ignore_unavailable: true }, options));
  if (Object.values(all).some(({ aliases }) => aliases?.[names.people])) return;
  await createPeopleIndex(nodes, config, [names.people, names.everywhere]);
}

async function createPeopleIndex(nodes: SearchNodes, config: Config, aliases: string[]): Promise<string> {
  const index = newIndex(namesOf(config).people);
  const given = { index, ...peopleIndex(config), aliases: Object.fromEntries(aliases.map((alias) => [alias, {}])) };
  // A repeated attempt may find what the one before has made.
  await nodes.work((client, options) => client.indices.create(given, { ...options, ignore: [400] }));
  await nodes.work((client, options) => client.indices.get({ index }, options));
  return index;
}

const refreshEvery = (nodes: SearchNodes, index: string, refresh_interval: string): Promise<unknown> =>
  nodes.work((client, options) =>
    client.indices.putSettings({ index, ignore_unavailable: true, settings: { refresh_interval } }, options),
  );

const batchSize = 1_000;

/** Reads the people of the index that is searched into a new one, which then takes its place at a stroke. */
async function reindex(
  writing: Writing,
  config: Config,
  progress: (done: number, total: number) => void,
): Promise<number> {
  const { nodes, names } = writing;
  await prepare(nodes, names, config);
  const aliases = await nodes.work((client, options) => client.indices.getAlias({ name: names.people }, options));
  const [old] = Object.keys(aliases);
  await nodes.work((client, options) => client.indices.refresh({ index: old! }, options));
  const { count: total } = await nodes.work((client, options) => client.count({ index: old! }, options));
  const index = await createPeopleIndex(nodes, config, [names.everywhere]);
  const done = await copyPeople(writing, old!, index, (done) => progress(done, total));
  await nodes.work((client, options) => client.indices.refresh({ index }, options));
  await refreshEvery(nodes, index, refreshIntervals.atRest);
  const actions = [
    { remove: { index: old!, alias: names.people } },
    { remove: { index: old!, alias: names.everywhere } },
    { add: { index, alias: names.people } },
  ];
  await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
  await rebuildValues(nodes, names, config);
  // Searches that found the old index before may still be at it.
  await sleep(nodes.longestReadMs);
  await nodes.work((client, options) => client.indices.delete({ index: old!, ignore_unavailable: true }, options));
  return done;
}

async function copyPeople(
  writing: Writing,
  from: string,
  to: string,
  progress: (done: number) => void,
): Promise<number> {
  let done = 0;
  let writes: Promise<void> = Promise.resolve();
  for (let after: ProspectPosition | undefined; ;) {
    const people = await writing.nodes.work((client, options) => readBatch(client, options, from, after));
    await writes;
    progress((done += people.length));
    if (people.length === 0) return done;
    writes = writePeople(
      writing,
      to,
      people.map((person) => ({ id: person._id, bytes: Buffer.from(encode(toDocument(person))) })),
    );
    writes.catch(() => undefined); // awaited with the next batch
    after = positionOf(people.at(-1)!, bestFirst);
  }
}

type WorkArguments = Parameters<Parameters<SearchNodes['work']>[0]>;

async function readBatch(
  client: WorkArguments[0],
  options: WorkArguments[1],
  index: string,
  after: ProspectPosition | undefined,
): Promise<Prospect[]> {
  const { hits } = await client.search<PersonSource>(
    {
      index,
      allow_partial_search_results: false,
      sort: sortBy(bestFirst),
      size: batchSize,
      track_total_hits: false,
      ...(after ? { search_after: searchAfter(bestFirst, after) } : {}),
    },
    options,
  );
  return hits.hits.map(({ _id, _source }) => fromSource(_id!, _source!));
}

async function statusOf(nodes: SearchNodes, names: Names): Promise<CatalogStatus> {
  return nodes.for({ customerId: serviceItself }).read(async (client, options) => {
    const count = async (index: string) => (await client.count({ index, ignore_unavailable: true }, options)).count;
    const health = await client.cluster.health({}, options);
    const { indices = {} } = await client.indices.stats(
      { index: names.people, metric: ['store', 'docs'] },
      { ...options, ignore: [404] },
    );
    const [[index, stats] = ['none', undefined]] = Object.entries(indices);
    return {
      engine: 'elasticsearch',
      people: await count(names.people),
      suggestions: await count(names.values),
      details: {
        index,
        bytes: stats?.total?.store?.size_in_bytes ?? 0,
        cluster: health.status,
        nodes: health.number_of_nodes,
      },
    };
  });
}
