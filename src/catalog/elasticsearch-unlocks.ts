import { setTimeout as sleep } from 'node:timers/promises';
import type { estypes } from '@elastic/elasticsearch';
import type { Database } from '../db.ts';
import { unavailable } from '../errors.ts';
import { customersOf, markTold } from '../queries/unlocks.ts';
import { toDocument } from './document.ts';
import { bulk, toOperation } from './elasticsearch-bulk.ts';
import type { SearchNodes } from './elasticsearch-cluster.ts';
import type { Names } from './elasticsearch-index.ts';
import { fromSource, toSource, type PersonSource } from './elasticsearch-source.ts';

/** What writing needs. */
export interface Writing {
  nodes: SearchNodes;
  db: Database;
  names: Names;
}

/** How long what a job waits for may take (ms): it can be tried again, and others wait for its worker. */
export const syncPatienceMs = 10_000;

/** Who has unlocked these people, as Postgres has it; those whom nobody has are not among the keys. */
export const unlocksOf = ({ db }: Writing, ids: string[]): Promise<Map<string, string[]>> =>
  db.search((sql) => customersOf(sql, ids));

const attempts = 20;
const batchSize = 500;

/**
 * Writes, in every index, who has unlocked these people, as Postgres tells it after the documents' versions were read; a
 * document that was written meanwhile is read again. So of two who write the same one, the later tells what both know.
 * @throws DomainError `unavailable` when some could not be written in time; they count as not told
 */
export async function syncUnlocks(writing: Writing, ids: string[]): Promise<void> {
  for (let from = 0; from < ids.length; from += batchSize) await syncBatch(writing, ids.slice(from, from + batchSize));
}

async function syncBatch(writing: Writing, ids: string[]): Promise<void> {
  let left = ids;
  for (let attempt = 0; left.length > 0; attempt += 1) {
    if (attempt === attempts) throw unavailable('Not all unlocks could be written to the catalog');
    if (attempt > 0) await sleep(Math.random() * 50 * attempt);
    left = await syncOnce(writing, left);
  }
}

/** Answers the ids that are left to do: their document could not be read, or was written by somebody else meanwhile. */
async function syncOnce(writing: Writing, ids: string[]): Promise<string[]> {
  const indexes = await indexesOf(writing);
  if (indexes.length === 0) return [];
  const read = await Promise.all(indexes.map((index) => readPeople(writing, index, ids)));
  const customers = await unlocksOf(writing, ids);
  const left = new Set((await Promise.all(read.map((people) => writeUnlocks(writing, people, customers)))).flat());
  // Once all indexes have it: what is noted is not looked at again.
  await noteTold(
    writing,
    customers,
    ids.filter((id) => !left.has(id)),
  );
  return [...left];
}

/** Looked up each time: an index that is being built must be found. */
async function indexesOf({ nodes, names }: Writing): Promise<string[]> {
  const found = await nodes.work(
    (client, options) => client.indices.getAlias({ name: names.everywhere }, { ...options, ignore: [404] }),
    syncPatienceMs,
  );
  return 'error' in found ? [] : Object.keys(found);
}

/** What an index says of people: those that it has, and those of whom it cannot say whether it has them. */
interface PeopleRead {
  index: string;
  found: estypes.GetGetResult<PersonSource>[];
  unread: string[];
}

/** A shard that is still starting is an answer of 200, with an error in the place of each of its documents. */
async function readPeople({ nodes }: Writing, index: string, ids: string[]): Promise<PeopleRead> {
  const { docs } = await nodes.work(
    (client, options) => client.mget<PersonSource>({ index, ids }, options),
    syncPatienceMs,
  );
  return {
    index,
    found: docs.filter((doc) => 'found' in doc).filter(({ found }) => found),
    unread: docs.filter((doc) => 'error' in doc).map(({ _id }) => _id),
  };
}

/** Answers the ids that are left to do. */
async function writeUnlocks(
  { nodes }: Writing,
  { index, found, unread }: PeopleRead,
  customers: Map<string, string[]>,
): Promise<string[]> {
  const operations = found.map(({ _id, _source, _seq_no, _primary_term }) => {
    const document = toDocument(fromSource(_id, _source!));
    const action = { index: { _id, if_seq_no: _seq_no, if_primary_term: _primary_term } };
    return toOperation(_id, action, toSource(document, customers.get(_id) ?? []));
  });
  const results = await bulk(nodes, index, operations, syncPatienceMs);
  const conflicts = [...results].filter(([, { status }]) => status === 409).map(([id]) => id);
  return [...unread, ...conflicts];
}

/** Also of people who are not in the catalog: there is nothing to be told. */
async function noteTold({ db }: Writing, customers: Map<string, string[]>, ids: string[]): Promise<void> {
  const unlocks = ids.flatMap((prospectId) =>
    (customers.get(prospectId) ?? []).map((customerId) => ({ customerId, prospectId })),
  );
  if (unlocks.length > 0) await db.transaction((sql) => markTold(sql, unlocks));
}
