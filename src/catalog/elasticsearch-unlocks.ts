import { setTimeout as sleep } from 'node:timers/promises';
import type { estypes } from '@elastic/elasticsearch';
import { unavailable } from '../errors.ts';
import { customersOf, markTold, untoldUnlocks, type UnlockKey } from '../queries/unlocks.ts';
import { toDocument } from './document.ts';
import { bulk, toOperation } from './elasticsearch-bulk.ts';
import { Refusal } from './elasticsearch-errors.ts';
import { writeAlias } from './elasticsearch-index.ts';
import { findIndexes, lost, standingOf, wasImported, type FoundIndex, type Indexes } from './elasticsearch-indexes.ts';
import { fromSource, toSource, type PersonSource } from './elasticsearch-source.ts';

/** How long what a job waits for may take (ms): it can be tried again, and others wait for its worker. */
export const syncPatienceMs = 10_000;

/** Who has unlocked these people, as Postgres has it; those whom nobody has are not among the keys. */
export const unlocksOf = ({ db }: Indexes, ids: string[]): Promise<Map<string, string[]>> =>
  db.search((sql) => customersOf(sql, ids));

const attempts = 20;
const batchSize = 500;

/** What must be there for unlocks to count as told: the index that is searched, or just those that there are. */
type Demand = 'searched' | 'any';

/**
 * Writes, in every index, who has unlocked these people, as Postgres tells it after the documents' versions were read; a
 * document that was written meanwhile is read again. So of two who write the same one, the later tells what both know.
 * @param demand a load that replaces a lost catalog writes while nothing is searched
 * @throws DomainError `unavailable` when some could not be written in time; they count as not told
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

/** Returns the ids that are left to do: their document could not be read, or was written by somebody else meanwhile. */
async function syncOnce(catalog: Indexes, ids: string[], demand: Demand): Promise<string[]> {
  const indexes = await indexesOf(catalog, demand);
  if (indexes.length === 0) return [];
  const read = await Promise.all(indexes.map((index) => readPeople(catalog, index, ids)));
  // Of those that are untold now, the unlocks read below tell.
  const untold = await catalog.db.search((sql) => untoldUnlocks(sql, ids));
  const customers = await unlocksOf(catalog, ids);
  const left = new Set((await Promise.all(read.map((people) => writeUnlocks(catalog, people, customers)))).flat());
  // Once all indexes have it: what is noted is not looked at again.
  await noteTold(
    catalog,
    untold.filter(({ prospect_id }) => !left.has(prospect_id)),
  );
  return [...left];
}

/**
 * Returns the indexes that must learn of unlocks. Looked up each time: an index that is being built must be found.
 * @throws DomainError `unavailable` when the one that is searched is demanded and is not there, though it was
 */
async function indexesOf(catalog: Indexes, demand: Demand): Promise<FoundIndex[]> {
  const { nodes, names } = catalog;
  const found = await findIndexes(nodes, names.people, syncPatienceMs);
  const standing = standingOf(found, names.people);
  if (standing === 'foreign') throw lost();
  if (standing === 'missing' && demand === 'searched' && (await wasImported(catalog))) throw lost();
  return found.filter(
    ({ name, aliases }) =>
      name !== names.people && [names.people, names.everywhere].some((alias) => aliases.includes(alias)),
  );
}

/** What an index says of people: those that it has, and those of whom it cannot say whether it has them. */
interface PeopleRead {
  index: FoundIndex;
  found: estypes.GetGetResult<PersonSource>[];
  unread: string[];
}

/** A shard that is still starting is an answer of 200, with an error in the place of each of its documents. */
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

/** Returns the ids that are left to do. */
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
  // An index that an earlier release made has no alias to be written through but the one that it is searched by.
  const own = writeAlias(index.name);
  const alias = index.aliases.includes(own) ? own : names.people;
  const results = await bulk(nodes, alias, operations, syncPatienceMs).catch(allLeft(operations.map(({ id }) => id)));
  const conflicts = [...results].filter(([, { status }]) => status === 409).map(([id]) => id);
  return [...unread, ...conflicts];
}

/** An index that went away is looked for again. */
const allLeft = (ids: string[]) => (error: unknown) => {
  if (error instanceof Refusal && error.meaning === 'missing') return new Map(ids.map((id) => [id, { status: 409 }]));
  throw error;
};

async function noteTold({ db }: Indexes, unlocks: UnlockKey[]): Promise<void> {
  if (unlocks.length > 0) await db.transaction((sql) => markTold(sql, unlocks));
}
