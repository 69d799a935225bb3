import { setTimeout as sleep } from 'node:timers/promises';
import type { estypes } from '@elastic/elasticsearch';
import { unavailable } from '../../errors.ts';
import { findUnlockingCustomers, markIndexed, findUnindexedUnlocks } from '../../queries/jobs/unlocks.ts';
import { toDocument, type CatalogDocument } from '../document.ts';
import * as cluster from './cluster.ts';
import * as indexing from './indexes.ts';
import { fromSource, toSource, type PersonSource, readAllPeople, reads } from './search.ts';
import { readSuppressedPeople } from '../suppressed-people.ts';
import { rebuildValues } from './values.ts';
import type { Config } from '../../process/config.ts';
import type { SharedDatabase } from '../../database/db.ts';
import { allCustomers, serviceItself } from '../../access/credentials.ts';
import type { Catalog } from '../catalog.ts';

/** Milliseconds for which a call is retried while unlocks are copied. Short, because the job can run again later. */
const syncRetryTimeoutMs = 10_000;

const unlocksOf = ({ unlocks }: indexing.Indexes, ids: string[]): Promise<Map<string, string[]>> =>
  unlocks.search((sql) => findUnlockingCustomers(sql, ids));

const attempts = 20;
const batchSize = 500;

/**
 * Whether the index for searches must exist. `searched`: yes, once an import has finished. `any`: no, for example
 * during an import that replaces a lost index.
 */
type Demand = 'searched' | 'any';

async function syncUnlocks(catalog: indexing.Indexes, ids: string[], demand: Demand = 'searched'): Promise<void> {
  for (let from = 0; from < ids.length; from += batchSize)
    await syncBatch(catalog, ids.slice(from, from + batchSize), demand);
}

async function syncBatch(catalog: indexing.Indexes, ids: string[], demand: Demand): Promise<void> {
  let left = ids;
  for (let attempt = 0; left.length > 0; attempt += 1) {
    if (attempt === attempts) throw unavailable('Not all unlocks could be written to the catalog');
    if (attempt > 0) await sleep(Math.random() * 50 * attempt);
    left = await syncOnce(catalog, left, demand);
  }
}

async function syncOnce(catalog: indexing.Indexes, ids: string[], demand: Demand): Promise<string[]> {
  const indexes = await indexesOf(catalog, demand);
  if (indexes.length === 0) return [];
  const read = await Promise.all(indexes.map((index) => readPeople(catalog, index, ids)));
  // Read before the unlocks: every unlock that is unindexed now is among those read below.
  const unindexed = await catalog.unlocks.search((sql) => findUnindexedUnlocks(sql, ids));
  const customers = await unlocksOf(catalog, ids);
  const left = new Set((await Promise.all(read.map((people) => writeUnlocks(catalog, people, customers)))).flat());
  // Only after all indexes have the unlock: an unlock that is marked as indexed is not checked again.
  const indexed = unindexed.filter(({ prospect_id }) => !left.has(prospect_id));
  if (indexed.length > 0) await catalog.unlocks.transaction((sql) => markIndexed(sql, indexed));
  return [...left];
}

/**
 * Returns the indexes to which unlocks must be written. Asks the cluster each time, because a reindex may have created
 * another index.
 * @throws DomainError `unavailable` if the index for searches is lost, or is not one of ours
 */
async function indexesOf(catalog: indexing.Indexes, demand: Demand): Promise<indexing.FoundIndex[]> {
  const { nodes, names } = catalog;
  const found = await indexing.findIndexes(nodes.retrying(syncRetryTimeoutMs), names.people);
  const standing = indexing.standingOf(found, names.people);
  if (standing === 'foreign') throw indexing.catalogLost();
  if (standing === 'missing' && demand === 'searched' && (await indexing.wasImported(catalog)))
    throw indexing.catalogLost();
  return found.filter(
    ({ name, aliases }) =>
      name !== names.people && [names.people, names.everywhere].some((alias) => aliases.includes(alias)),
  );
}

interface PeopleRead {
  index: indexing.FoundIndex;
  found: estypes.GetGetResult<PersonSource>[];
  unread: string[];
}

async function readPeople({ nodes }: indexing.Indexes, index: indexing.FoundIndex, ids: string[]): Promise<PeopleRead> {
  const { docs } = await nodes.work(
    (client, options) => client.mget<PersonSource>({ index: index.name, ids }, options),
    syncRetryTimeoutMs,
  );
  return {
    index,
    found: docs.filter((doc) => 'found' in doc).filter(({ found }) => found),
    unread: docs.filter((doc) => 'error' in doc).map(({ _id }) => _id),
  };
}

async function writeUnlocks(
  { nodes, names }: indexing.Indexes,
  { index, found, unread }: PeopleRead,
  customers: Map<string, string[]>,
): Promise<string[]> {
  const operations = found.map(({ _id, _source, _seq_no, _primary_term }) => {
    const document = toDocument(fromSource(_id, _source!));
    const action = { index: { _id, if_seq_no: _seq_no, if_primary_term: _primary_term } };
    return cluster.toOperation(_id, action, toSource(document, customers.get(_id) ?? []));
  });
  // An index that an earlier release created has no write alias. It is written through the alias for searches.
  const own = indexing.writeAlias(index.name);
  const alias = index.aliases.includes(own) ? own : names.people;
  const results = await cluster
    .bulk(nodes, alias, operations, syncRetryTimeoutMs)
    .catch(allLeft(operations.map(({ id }) => id)));
  const conflicts = [...results].filter(([, { status }]) => status === 409).map(([id]) => id);
  return [...unread, ...conflicts];
}

const allLeft = (ids: string[]) => (error: unknown) => {
  if (error instanceof cluster.ClusterRefusal && error.meaning === 'missing')
    return new Map(ids.map((id) => [id, { status: 409 }]));
  throw error;
};

const encode = (document: CatalogDocument): string =>
  cluster.operationText({ index: { _id: document.id } }, toSource(document, []));

async function writePeople(catalog: indexing.Indexes, index: string, people: cluster.Operation[]): Promise<void> {
  const ids = people.map(({ id }) => id);
  const before = await unlocksOf(catalog, ids);
  const operations = people.map((person) => withUnlocks(person, before.get(person.id)));
  await cluster.bulk(catalog.nodes, indexing.writeAlias(index), operations).catch(indexing.whenIndexMissing);
  const after = await unlocksOf(catalog, ids);
  const changed = ids.filter((id) => String(before.get(id) ?? []) !== String(after.get(id) ?? []));
  if (changed.length > 0) await syncUnlocks(catalog, changed, 'any');
}

function withUnlocks(person: cluster.Operation, customers: string[] | undefined): cluster.Operation {
  if (!customers) return person;
  const { id, bytes } = person;
  const end = Buffer.from(`,"unlocked_by":${JSON.stringify(customers)}}\n`);
  return { id, bytes: Buffer.concat([bytes.subarray(0, -'}\n'.length), end]) };
}

async function findStored({ nodes }: indexing.Indexes, index: string, ids: string[]): Promise<string[]> {
  const docs = await nodes
    .work(async (client, options) =>
      cluster.requireAllDocuments(
        (await client.mget({ index: indexing.writeAlias(index), ids, _source: false }, options)).docs,
      ),
    )
    .catch(indexing.whenIndexMissing);
  return docs.filter(({ found }) => found).map(({ _id }) => _id);
}

async function erasePeople({ nodes }: indexing.Indexes, index: string, ids: string[]): Promise<number> {
  const operations = ids.map((id) => cluster.toOperation(id, { delete: { _id: id } }));
  const results = await cluster.bulk(nodes, indexing.writeAlias(index), operations).catch(indexing.whenIndexMissing);
  return [...results.values()].filter(({ result }) => result === 'deleted').length;
}

async function reindex(
  indexes: indexing.Indexes,
  old: indexing.WriteTarget,
  progress: (done: number, total: number) => Promise<void> | void,
): Promise<{ people: number; index: indexing.WriteTarget }> {
  const { nodes, names, config } = indexes;
  if (!old.isSearched) throw indexing.catalogLost();
  await cluster.refresh(nodes, old.name);
  const total = await cluster.count(nodes.retrying(), { index: old.name });
  const index = await indexing.createIndex(indexes, [names.everywhere]);
  const copied = await copyPeople(indexes, old.name, index.name, (done) => progress(done, total));
  await cluster.refresh(nodes, index.name);
  const people = await cluster.count(nodes.retrying(), { index: index.name });
  if (people !== copied)
    throw new Error(
      `${copied} people were copied, but the new index holds ${people}. The old index stays in use. Run reindex again`,
    );
  await cluster.changeSettings(nodes, index.name, { refresh_interval: indexing.refreshIntervals.atRest });
  const actions = [
    { remove: { index: old.name, alias: names.people } },
    { remove: { index: old.name, alias: names.everywhere } },
    { add: { index: index.name, alias: names.people } },
  ];
  const next = { ...index, isSearched: true };
  // Both indexes are complete now, so after an interruption either one may be chosen.
  await indexing.saveTarget(indexes, next);
  await cluster.changeAliases(nodes, actions);
  await rebuildValues(nodes, names, config);
  // Waits for searches that still use the old index.
  await sleep(nodes.maxReadMs);
  await indexing.deleteIndexes(nodes, [old]);
  return { people, index: next };
}

async function copyPeople(
  indexes: indexing.Indexes,
  from: string,
  to: string,
  progress: (done: number) => Promise<void> | void,
): Promise<number> {
  const suppressed = await readSuppressedPeople(indexes.db);
  let [done, copied] = [0, 0];
  let writes: Promise<void> = Promise.resolve();
  for await (const people of readAllPeople(indexes.nodes, from)) {
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

async function purge({ nodes, names }: indexing.Indexes): Promise<void> {
  // Waits for searches that still use the old suggestions.
  await sleep(nodes.maxReadMs);
  const values = await indexing.findIndexes(nodes.retrying(), names.values);
  const unused = values.filter(
    ({ name, aliases }) => !aliases.includes(names.values) && indexing.isNamedFor(name, names.values),
  );
  await indexing.deleteIndexes(nodes, unused);
  const people = (await indexing.findIndexes(nodes.retrying(), names.people)).filter(
    ({ name, isOurs, isClosed }) => isOurs && !isClosed && indexing.isNamedFor(name, names.people),
  );
  for (const { name: index } of people) await mergeDeletions({ nodes }, index);
}

/**
 * Removes all deleted documents from the files of an index. Elasticsearch does so when it merges files, but by default
 * leaves a file alone in which at most a tenth of the documents are deleted.
 */
async function mergeDeletions({ nodes }: Pick<indexing.Indexes, 'nodes'>, index: string): Promise<void> {
  const allow = (allowed: number | null) => ({ 'index.merge.policy.expunge_deletes_allowed': allowed });
  await cluster.changeSettings(nodes, index, allow(0));
  await nodes.work((client, options) =>
    client.indices.forcemerge({ index, only_expunge_deletes: true }, { ...options, requestTimeout: mergeMs }),
  );
  await cluster.changeSettings(nodes, index, allow(null));
}

const mergeMs = 3_600_000;

/** Opens the catalog in Elasticsearch, for many millions of people. Connects at the first read or write. */
export function elasticsearchCatalog(config: Config, db: SharedDatabase): Catalog {
  const nodes = new cluster.ClusterClient(config);
  const names = indexing.namesOf(config);
  const indexes: indexing.Indexes = { nodes, db, unlocks: db.for({ customerId: allCustomers }, null), names, config };
  /**
   * Index for writes, until the next `prepare` or `reindex`. If it is lost, later writes fail; they do not go to
   * another index.
   */
  let target: indexing.WriteTarget | undefined;
  const known = async (): Promise<indexing.WriteTarget | undefined> => (target ??= await indexing.findTarget(indexes));
  const requireTarget = async (): Promise<indexing.WriteTarget> => {
    const found = await known();
    if (!found) throw indexing.catalogLost();
    return found;
  };
  return {
    engine: 'elasticsearch',
    name: names.people,
    limiters: [nodes.limiter],
    ...reads(indexes, nodes.for({ customerId: serviceItself })),
    for: (requester) => reads(indexes, nodes.for(requester)),

    syncUnlocks: (ids) => syncUnlocks(indexes, ids),
    refresh: () => cluster.refresh(nodes, [names.everywhere, names.people], syncRetryTimeoutMs),
    isUp: () => indexing.isUp(indexes),

    prepare: async () => {
      target = (await indexing.findTarget(indexes)) ?? (await indexing.createPeople(indexes));
      return target.uuid;
    },
    encode,
    write: async (people) => writePeople(indexes, (await requireTarget()).name, people),
    findStored: async (ids) => findStored(indexes, (await requireTarget()).name, ids),
    people: async function* () {
      if (!(await known()) && !(await indexing.wasImported(indexes))) return;
      const { name } = await requireTarget();
      await cluster.refresh(nodes, name);
      yield* readAllPeople(nodes, name);
    },
    remove: async (ids) => {
      if (!(await known()) && !(await indexing.wasImported(indexes))) return 0;
      const { name, isSearched } = await requireTarget();
      // The catalog was lost. An import that replaces it is running or was interrupted.
      if (!isSearched) throw indexing.catalogLost();
      return erasePeople(indexes, name, ids);
    },
    finish: async () => {
      if (!(await known()) && !(await indexing.wasImported(indexes))) return 0;
      const people = await finish(indexes, await requireTarget()).catch(indexing.whenIndexMissing);
      target = { ...target!, isSearched: true };
      return people;
    },
    purge: () => purge(indexes),
    reindex: async (progress) => {
      const old = (await indexing.findTarget(indexes)) ?? (await indexing.createPeople(indexes));
      const { people, index } = await reindex(indexes, old, progress).catch(indexing.whenIndexMissing);
      target = index;
      return people;
    },
    status: () => indexing.statusOf(indexes),
    close: () => nodes.close(),
  };
}

async function finish(indexes: indexing.Indexes, { name, uuid, isSearched }: indexing.WriteTarget): Promise<number> {
  const { nodes, names, config } = indexes;
  await cluster.refresh(nodes, indexing.writeAlias(name));
  await cluster.changeSettings(nodes, name, { refresh_interval: indexing.refreshIntervals.atRest });
  await rebuildValues(nodes, names, config, undefined, name);
  if (!isSearched) await cluster.changeAliases(nodes, [{ add: { index: name, alias: names.people } }]);
  const standing = indexing.standingOf(await indexing.findIndexes(nodes.retrying(), names.people), names.people);
  if (typeof standing === 'string' || standing.uuid !== uuid) throw replaced();
  return cluster.count(nodes.retrying(), { index: name });
}

const replaced = () =>
  unavailable(
    'The index that people were written to was replaced meanwhile, so searches use another one. Import again',
  );
