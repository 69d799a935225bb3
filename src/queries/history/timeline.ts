import type { Database, Queryable } from '../../database/db.ts';
import { cursorFault } from '../../filters/cursor.ts';
import type { Activity } from '../../schemas/activities.ts';
import { eventNouns, recordTypes, type Change, type ChangeQuery, type EventNoun } from '../../schemas/events.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import { listActivities } from '../crm/activities.ts';
import { findListNames } from '../crm/lists.ts';
import { findRestored } from '../records/journal.ts';
import { findRecords, listChanges } from './history.ts';
import { findLaterMerges, findTakenBack, type TakenBack } from './undo-state.ts';

type Entry = Activity | Change;

const timeOf = (entry: Entry): number => Date.parse(entry.occurred_at);

const pageSize = 25;

/**
 * Returns a page of a record's changes and activities together, with the merges of other records into it, newest first.
 * Leaves out open tasks. Also returns the undos among the changes, and of them; the changes that wrote other
 * records, and the merges.
 * @param filters filters for the activities of the record
 * @param older end of the previous page: `<cursor of the activities>~<position in the changes>`. Each part can be empty
 */
export async function readTimeline(
  db: Database,
  customerId: string,
  { id, filters }: { id: string; filters: GivenFilters },
  older: string,
): Promise<{
  entries: Entry[];
  undos: TakenBack[];
  wider: ReadonlySet<string>;
  merges: ReadonlySet<string>;
  next: string | undefined;
}> {
  const [, cursor = '', position = ''] = /^([^~]*)~(\d{1,15})?$/.exec(older) ?? [];
  if (older !== '' && cursor === '' && position === '') throw cursorFault('is not a cursor of this list');
  const list = (limit: number) =>
    listActivities(db, customerId, {
      filters: { ...filters, _or: [{ type: { ne: 'task' } }, { is_done: true }] },
      order_by: { occurred_at: 'DESC' },
      paginate: { limit, ...(cursor === '' ? {} : { cursor }) },
    });
  const before = position === '' ? undefined : Number(position);
  const [activities, { changes }] = await Promise.all([
    list(pageSize),
    listChanges(db, customerId, eventNouns, { filters: { record_id: id }, withMerged: true, before, limit: pageSize }),
  ]);
  const all = [...activities.rows, ...changes].toSorted((a, b) => timeOf(b) - timeOf(a));
  const entries: Entry[] = all.slice(0, pageSize);
  const isMore = all.length > pageSize || activities.nextCursor !== undefined || changes.length === pageSize;
  const told = entries.filter((entry): entry is Change => 'position' in entry);
  const changed = new Map<string, string | null>();
  for (const { change_id, merged_into } of told)
    if (change_id !== null) changed.set(change_id, merged_into ?? changed.get(change_id) ?? null);
  const [undos, others] =
    changed.size === 0
      ? [[], []]
      : await db.lookup((sql) =>
          Promise.all([
            findTakenBack(sql, customerId, [...changed.keys()], id),
            findWider(sql, customerId, id, changed),
          ]),
        );
  const wider = new Set(others.map((one) => one.id));
  const merges = new Set([...changed].flatMap(([change, merged_into]) => (merged_into === null ? [] : [change])));
  const page = { entries, undos, wider, merges };
  if (!isMore) return { ...page, next: undefined };
  const used = entries.length - told.length;
  const after = used === 0 ? cursor : used === pageSize ? activities.nextCursor : (await list(used)).nextCursor;
  return { ...page, next: `${after ?? ''}~${told.at(-1)?.position ?? position}` };
}

/**
 * Returns the ids of those changes of a record that wrote other records, too. The records that a merge put together
 * with this one do not count as others. The order is that of an index: without one, the planner first collects all
 * records of the change, which can be a million.
 * @param changes by id of the change: the record into which it merged others; null if it merged none
 */
const findWider = (sql: Queryable, customerId: string, recordId: string, changes: ReadonlyMap<string, string | null>) =>
  sql<{ id: string }[]>`
    select given.id
    from unnest(${[...changes.keys()]}::uuid[], ${[...changes.values()]}::text[]) as given (id, merged_into)
    cross join lateral (
      select 1
      from journal j
      where j.customer_id = ${customerId}::uuid
        and j.change_id = given.id
        and j.type = any(${recordTypes}::text[])
        and j.record_id <> ${recordId}::uuid
        and (given.merged_into is null or j.data ->> 'merged_into' <> given.merged_into)
      order by j.position
      limit 1
    ) other`;

/** Maximum number of pages of the journal that are searched for changes by others. */
const maxPages = 10;

export async function listChangesByOthers(
  db: Database,
  customerId: string,
  userId: string,
  limit: number,
): Promise<Change[]> {
  const found: Change[] = [];
  let before: number | undefined;
  for (let pages = 0; pages < maxPages && found.length < limit; pages += 1) {
    const page = await listChanges(db, customerId, eventNouns, { notBy: userId, before, limit });
    found.push(...page.changes);
    before = page.next;
    if (before === undefined) break;
  }
  return found.slice(0, limit);
}

export interface NamedRecord {
  noun: EventNoun;
  record: { id: string };
}

export async function findNamedRecords(
  db: Database,
  customerId: string,
  wanted: readonly (readonly [noun: EventNoun, id: string])[],
): Promise<ReadonlyMap<string, NamedRecord>> {
  const found = await Promise.all(
    eventNouns.map(async (noun) => {
      const ids = [...new Set(wanted.flatMap(([of, id]) => (of === noun ? [id] : [])))];
      if (ids.length === 0) return [];
      const records =
        noun === 'list' ? await findListNames(db, customerId, ids) : await findRecords(db, customerId, noun, ids);
      return records.map((record): [string, NamedRecord] => [record.id, { noun, record }]);
    }),
  );
  return new Map(found.flat());
}

interface Deletion extends Change {
  state: 'restored' | 'merged_since' | 'open';
}

export async function listDeletions(
  db: Database,
  customerId: string,
  { filters, before, limit }: { filters: ChangeQuery['filters']; before: number | undefined; limit: number },
): Promise<{ deletions: Deletion[]; next: number | undefined }> {
  const { changes, next } = await listChanges(db, customerId, eventNouns, { filters, verb: 'deleted', before, limit });
  const positions = changes.map(({ position }) => position);
  const stayed = changes.flatMap(({ merged_into }) => merged_into ?? []);
  const [restored, later] = await db.lookup((sql) =>
    Promise.all([findRestored(sql, customerId, positions), findLaterMerges(sql, customerId, stayed)]),
  );
  const merged = new Set<string | undefined>(later.map(({ id }) => id));
  const deletions = changes.map((one): Deletion => {
    if (restored.has(one.position)) return { ...one, state: 'restored' };
    return { ...one, state: merged.has(one.merged_into) ? 'merged_since' : 'open' };
  });
  return { deletions, next };
}
