import type { Database, Queryable, Transaction } from '../../database/db.ts';
import { isStatementTimeout } from '../../database/pools.ts';
import { contactSource, lookUp, all } from '../../filters/columns.ts';
import { liveLists, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import { parseRecordQuery, type RecordQuery } from '../../filters/parse.ts';
import { ruleLimits } from '../../schemas/lists.ts';
import type { Rule, List, ListCreate, ListedList, ListPatch, ListQuery } from '../../schemas/lists.ts';
import { countEach, countMatches, filtersAtOnce } from './record-pages.ts';
import { readTotals } from '../records/journal.ts';
import { findCustomersWith, type DeleteRecord, type UpdateRecord, type RecordPage } from '../records/finders.ts';
import { enqueueTurn } from '../records/turns.ts';
import { listedRules, membersOf, type ListedRules, copyMembers, lockListRow } from './list-members.ts';
import { conflict, notFound } from '../../errors.ts';
import { etagOf, requireMatch } from '../../text/ids.ts';
import { encodeCursor, readPosition, scopeOf } from '../../filters/cursor.ts';
import { completeRules } from '../../filters/rules.ts';
import { defaultLimit } from '../../schemas/wire.ts';
import { withDeferredWrites, type DeferredWrites } from '../records/deferred-writes.ts';

interface CountedList extends ListedRules {
  contacts_count: number;
  /** Time of the last count. Null: the list was not counted since its rules changed. */
  counted_at: string | null;
  is_fresh: boolean;
  read_at: string;
}

const countedColumns = (sql: FragmentMaker): Fragment => sql`
  l.contacts_count,
  l.counted_at,
  coalesce(l.counted_at > now() - interval '1 minute', false) as is_fresh,
  now()::timestamptz(3) as read_at`;

const maxContactsForExactCounts = 20_000;

const exactCountsTimeoutMs = 3_000;

/**
 * Maximum milliseconds that a read takes to count some lists again, if it cannot count all. A worker counts the others.
 */
const readMs = 250;

const allContacts = (customerId: string): RecordQuery => parseRecordQuery(contactSource, customerId, {});

const countMembers = (sql: Queryable, customerId: string, list: ListedRules, max?: number): Promise<number> =>
  countMatches(sql, { ...allContacts(customerId), filter: membersOf([list]) }, max);

async function countAll(sql: Queryable, customerId: string, lists: ListedRules[]): Promise<Map<string, number>> {
  const counted = await sql<{ id: string; members: number }[]>`
    select list_id as id, count(*) as members
    from list_members
    where customer_id = ${customerId}::uuid
      and list_id = any(${lists.filter(hasNoRules).map(({ id }) => id)}::uuid[])
    group by list_id`;
  const byHand = new Map(counted.map(({ id, members }) => [id, members]));
  const withRules = lists.filter((list) => !hasNoRules(list));
  const byRules = await countEach(
    sql,
    allContacts(customerId),
    withRules.map((list) => membersOf([list])),
  );
  return new Map([
    ...lists.map(({ id }) => [id, byHand.get(id) ?? 0] as const),
    ...withRules.map(({ id }, i) => [id, byRules[i]!] as const),
  ]);
}

const hasNoRules = ({ rules }: ListedRules): boolean => rules.length === 0;

/**
 * Returns lists with their numbers of members, and the times of the counts. Numbers are exact for lists without rules,
 * and for customers with few contacts. Other old numbers are counted again for up to `readMs`; workers count the rest.
 */
async function withCounts<L extends CountedList>(db: Database, customerId: string, lists: L[]): Promise<L[]> {
  if (lists.length === 0) return lists;
  const { contacts } = await db.lookup((sql) => readTotals(sql, customerId));
  const all =
    contacts <= maxContactsForExactCounts
      ? await within(exactCountsTimeoutMs / Math.ceil(lists.length / filtersAtOnce), db, (sql) =>
          countAll(sql, customerId, lists),
        )
      : undefined;
  const exact = all ?? (await db.search((sql) => countAll(sql, customerId, lists.filter(hasNoRules))));
  const counts = new Map<string, Count>(
    lists.flatMap(({ id, read_at }) => {
      const contacts_count = exact.get(id);
      return contacts_count === undefined ? [] : [[id, { contacts_count, counted_at: read_at }]];
    }),
  );
  const end = performance.now() + readMs;
  const due = lists.filter(({ id, is_fresh }) => !counts.has(id) && !is_fresh).toSorted(byAge);
  for (const list of due) {
    const counted = await within(end - performance.now(), db, (sql) => count(sql, customerId, list));
    if (counted) counts.set(list.id, counted);
  }
  if (due.length > 0) await saveCounts(db, customerId, due, counts);
  return lists.map((list) => ({ ...list, ...counts.get(list.id) }));
}

const byAge = (one: CountedList, other: CountedList): number =>
  Date.parse(one.counted_at ?? '1970-01-01') - Date.parse(other.counted_at ?? '1970-01-01');

type Count = Pick<CountedList, 'contacts_count' | 'counted_at'>;

const count = async (sql: Queryable, customerId: string, list: CountedList): Promise<Count> => ({
  contacts_count: await countMembers(sql, customerId, list),
  counted_at: list.read_at,
});

async function within<T>(ms: number, db: Database, work: (sql: Queryable) => Promise<T>): Promise<T | undefined> {
  if (ms <= 0) return undefined;
  try {
    return (await db.search((sql) =>
      sql.begin('read only', async (attempt) => {
        await attempt`select set_config('statement_timeout', ${String(Math.ceil(ms))}, true)`;
        return work(attempt);
      }),
    )) as T;
  } catch (error) {
    if (!isStatementTimeout(error)) throw error;
    return undefined;
  }
}

const saveCounts = (
  db: Database,
  customerId: string,
  lists: readonly ListedRules[],
  counts: ReadonlyMap<string, Count>,
): Promise<void> =>
  db.transaction(async (sql) => {
    const ids = lists.map(({ id }) => id);
    await sql`
      select l.id
      from ${liveLists(sql, customerId)}
        and l.id = any(${ids}::uuid[])
      order by l.id
      for no key update`;
    for (const list of lists) {
      const counted = counts.get(list.id);
      if (counted) await saveCount(sql, customerId, list, counted);
    }
    const left = ids.filter((id) => !counts.has(id));
    if (left.length === 0) return;
    await sql`
      update lists
      set is_count_due = true
      where customer_id = ${customerId}
        and id = any(${left}::uuid[])`;
    await enqueueTurn(sql, 'count-lists', customerId);
  });

const saveCount = (
  sql: Transaction,
  customerId: string,
  { id, rules }: { id: string; rules: Rule[] },
  { contacts_count, counted_at }: Count,
) => sql`
  update lists
  set contacts_count = ${contacts_count}, counted_at = ${counted_at}, is_count_due = false
  where customer_id = ${customerId}
    and id = ${id}
    and rules = ${sql.json(rules)}`;

/**
 * Counts the members of one list that a read has left to workers. If this takes too long, the list keeps its old
 * number.
 * @returns false if there is no such list
 */
export async function countNextList(sql: Transaction, customerId: string): Promise<boolean> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`list counts:${customerId}`}, 0))`;
  const [list] = await sql<CountedList[]>`
    select ${listedRules(sql, customerId)}, ${countedColumns(sql)}
    from ${liveLists(sql, customerId)}
      and l.is_count_due
    order by l.id
    limit 1`;
  if (!list) return false;
  try {
    const counted = await sql.savepoint((attempt) => count(attempt, customerId, list));
    await saveCount(sql, customerId, list, counted);
  } catch (error) {
    if (!isStatementTimeout(error)) throw error;
    await sql`
      update lists
      set is_count_due = false
      where customer_id = ${customerId}
        and id = ${list.id}`;
  }
  return true;
}

export const findCustomersToCount = findCustomersWith(
  (sql) => sql`from lists where is_count_due and deleted_at is null`,
);

type Row = Omit<List, 'contacts_count'> & CountedList;

const selectLists = (sql: Queryable, customerId: string, which: Fragment): Promise<Row[]> => sql`
  select
    ${listedRules(sql, customerId)},
    l.name,
    l.description,
    l.owner_id,
    u.name as owner_name,
    case when l.rules = '[]' then l.source else 'RULES' end as source,
    array[]::uuid[] as collaborators,
    l.created_at,
    l.updated_at,
    ${countedColumns(sql)}
  from (select l.* from ${liveLists(sql, customerId)} ${which}) l
  ${lookUp(sql, sql`select o.name from users o where o.customer_id = ${customerId} and o.id = l.owner_id`, 'u')}
  order by l.id desc`;

const shown = ({ id, name, description, owner_id, owner_name, source, collaborators, rules, ...row }: Row): List => ({
  id,
  name,
  description,
  owner_id,
  owner_name,
  source,
  collaborators,
  rules,
  contacts_count: row.contacts_count,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

export async function listLists(db: Database, customerId: string, query: ListQuery): Promise<RecordPage<ListedList>> {
  const { page = 1, limit = defaultLimit } = query;
  const scope = scopeOf('list-contact', customerId, all([]), []);
  const after = readPosition(scope, [], query, 'this list', '/cursor');
  const rows = await db.lookup((sql) =>
    selectLists(
      sql,
      customerId,
      sql`
        ${after === undefined ? sql`` : sql`and l.id < ${after.id}`}
        order by l.id desc
        limit ${limit}
        offset ${limit * (page - 1)}`,
    ),
  );
  const counted = await withCounts(db, customerId, rows);
  const isFull = rows.length === limit;
  return {
    rows: counted.map((row) => ({ ...shown(row), counted_at: row.counted_at })),
    nextCursor: isFull ? encodeCursor(scope, { id: rows.at(-1)!.id, values: [] }) : undefined,
  };
}

export interface ListName {
  id: string;
  name: string;
}

export const findListNames = (db: Database, customerId: string, ids: string[]): Promise<ListName[]> =>
  db.lookup(
    (sql) => sql<ListName[]>`
      select l.id, l.name
      from ${liveLists(sql, customerId)}
        and l.id = any(${ids}::uuid[])`,
  );

/** Returns a list of this name, in capital or small letters, other than the list `but`. */
export const findListNamed = async (
  db: Database,
  customerId: string,
  name: string,
  but?: string,
): Promise<ListName | undefined> => {
  const [found] = await db.lookup(
    (sql) => sql<ListName[]>`
      select l.id, l.name
      from ${liveLists(sql, customerId)}
        and lower(l.name) = lower(${name})
        and l.id is distinct from ${but ?? null}
      order by l.id
      limit 1`,
  );
  return found;
};

export const listNames = (db: Database, customerId: string, limit: number, also?: string): Promise<ListName[]> =>
  db.lookup(
    (sql) => sql<ListName[]>`
      with newest as (
        select l.id, l.name
        from ${liveLists(sql, customerId)}
        order by l.id desc
        limit ${limit}
      )
      select id, name
      from newest
      union all
      select l.id, l.name
      from ${liveLists(sql, customerId)}
        and l.id = ${also ?? null}
        and l.id not in (select id from newest)`,
  );

/** @param max the count of the members stops at `max` + 1 */
export async function findList(db: Database, customerId: string, id: string, max?: number): Promise<List | undefined> {
  const [list] = await findLists(db, customerId, [id], max);
  return list;
}

export const findLists = (db: Database, customerId: string, ids: string[], max?: number): Promise<List[]> =>
  db.search((sql) => readLists(sql, customerId, ids, max));

async function readLists(sql: Queryable, customerId: string, ids: string[], max?: number): Promise<List[]> {
  const lists: List[] = [];
  for (const row of await selectLists(sql, customerId, sql`and l.id = any(${ids}::uuid[])`))
    lists.push(shown({ ...row, contacts_count: await countMembers(sql, customerId, row, max) }));
  return lists;
}

/**
 * Creates a list.
 * @param source how the list was made
 * @throws DomainError `conflict` if the customer would then have too many lists with rules
 */
export const createList = (
  sql: Transaction,
  customerId: string,
  ownerId: string,
  { name, description = '', rules: given = [] }: ListCreate,
  source: 'MANUAL' | 'PROSPECT' = 'MANUAL',
): Promise<{ id: string; name: string }> =>
  withDeferredWrites(sql, customerId, async (deferred) => {
    const rules = completeRules(given);
    if (rules.length > 0) await requireRoomForRules(sql, customerId, '/rules');
    return insertList(sql, customerId, ownerId, { name, description, rules, source }, deferred);
  });

async function requireRoomForRules(sql: Transaction, customerId: string, path: string): Promise<void> {
  if (await hasRoomForRules(sql, customerId)) return;
  const message = `a customer can have at most ${ruleLimits.lists} lists with rules`;
  throw conflict(message[0]!.toUpperCase() + message.slice(1), [{ path, message }]);
}

/**
 * Returns true if the customer may have one more list with rules. Other transactions cannot add rules to a list until
 * this one ends.
 */
export async function hasRoomForRules(sql: Transaction, customerId: string): Promise<boolean> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`lists with rules:${customerId}`}, 0))`;
  const [row] = await sql<[{ lists: number }]>`
    select count(*) as lists
    from ${liveLists(sql, customerId)}
      and l.rule_count > 0`;
  return row.lists < ruleLimits.lists;
}

async function insertList(
  sql: Transaction,
  customerId: string,
  ownerId: string,
  { name, description, rules, source = 'MANUAL' }: ListColumns & { source?: string },
  deferred: DeferredWrites,
): Promise<{ id: string; name: string }> {
  const [list] = await sql<{ id: string; name: string }[]>`
    insert into lists (customer_id, name, description, owner_id, rules, source)
    values (${customerId}, ${name.trim()}, ${description}, ${ownerId}, ${sql.json(rules)}, ${source})
    returning id, name`;
  deferred.created('list', { id: list!.id });
  return list!;
}

/**
 * @throws DomainError `not_found`; `precondition_failed` if `ifMatch` is not the current ETag; `conflict` if the
 *   customer would then have too many lists with rules
 */
export const updateList: UpdateRecord<ListPatch> = (sql, customerId, id, patch, ifMatch) =>
  withDeferredWrites(sql, customerId, async (deferred) => {
    const current = await lockList(sql, customerId, id, 'no key update', ifMatch);
    if (Object.keys(patch).length === 0) return;
    const rules = patch.rules ? completeRules(patch.rules) : current.rules;
    if (current.rules.length === 0 && rules.length > 0) await requireRoomForRules(sql, customerId, '/rules');
    const columns = {
      name: patch.name?.trim() ?? current.name,
      description: patch.description ?? current.description,
      rules,
    };
    const [before, after] = [current, columns].map((one) => eventColumnsOf(one, current.source));
    if (!deferred.updated('list', { id }, before!, after!)) return;
    await sql`
      update lists
      set
        name = ${columns.name},
        description = ${columns.description},
        rules = ${sql.json(rules)},
        counted_at = case when rules = ${sql.json(rules)} then counted_at end,
        updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}`;
  });

const eventColumnsOf = ({ name, description, rules }: ListColumns, source: string) => ({
  name,
  description,
  rules: completeRules(rules),
  source: rules.length > 0 ? 'RULES' : source,
});

interface ListColumns {
  name: string;
  description: string;
  rules: Rule[];
}

/**
 * Returns a tag that changes when people change the list. It replaces the ETag, which also changes with the members.
 */
export const listTag = ({ name, description, rules }: ListColumns): string =>
  etagOf({ name, description, rules: completeRules(rules) });

async function lockList(
  sql: Transaction,
  customerId: string,
  id: string,
  strength: 'update' | 'no key update',
  ifMatch?: string,
): Promise<ListColumns & { source: string }> {
  const list = await lockListRow(sql, customerId, id, strength);
  if (!list) throw notFound('list');
  if (ifMatch !== undefined && ifMatch !== listTag(list))
    requireMatch(ifMatch, (await readLists(sql, customerId, [id]))[0]!);
  return list;
}

export const deleteList: DeleteRecord = (sql, customerId, id, ifMatch) =>
  withDeferredWrites(sql, customerId, async (deferred) => {
    const { name, description, rules, source } = await lockList(sql, customerId, id, 'update', ifMatch);
    await sql`
      update lists
      set deleted_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}`;
    deferred.deleted('list', { id }, eventColumnsOf({ name, description, rules }, source));
  });

/**
 * Creates a copy of a list with its description, its rules and the members that were added by hand.
 * @returns the id of the copy
 * @throws DomainError `not_found`; `conflict` if the list has too many members, or the customer would then have too
 *   many lists with rules
 */
export const duplicateList = (
  sql: Transaction,
  customerId: string,
  ownerId: string,
  { list_id, new_name }: { list_id: string; new_name: string },
): Promise<string> =>
  withDeferredWrites(sql, customerId, async (deferred) => {
    const original = await lockListRow(sql, customerId, list_id, 'key share');
    if (!original) throw notFound('list', ['/list_id']);
    const { description } = original;
    const rules = completeRules(original.rules);
    if (rules.length > 0) await requireRoomForRules(sql, customerId, '/list_id');
    const copy = await insertList(sql, customerId, ownerId, { name: new_name, description, rules }, deferred);
    await copyMembers(sql, customerId, { from: list_id, to: copy.id });
    return copy.id;
  });
