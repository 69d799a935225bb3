import type { Database, Queryable, Transaction } from '../../database/db.ts';
import { conflict, notFound } from '../../errors.ts';
import { etagOf, requireMatch } from '../../text/etag.ts';
import { encodeCursor, readPosition, scopeOf } from '../../filters/cursor.ts';
import { lookUp } from '../../filters/look-up.ts';
import { liveLists } from '../../filters/live.ts';
import { completeRules } from '../../filters/rules.ts';
import type { Fragment } from '../../filters/sql.ts';
import { all } from '../../filters/tree.ts';
import {
  ruleLimits,
  type List,
  type ListCreate,
  type ListedList,
  type ListPatch,
  type ListQuery,
  type Rule,
} from '../../schemas/lists.ts';
import { defaultLimit } from '../../schemas/base/wire.ts';
import type { DeleteRecord, UpdateRecord } from '../records/finders.ts';
import { withLastWrites, type LastWrites } from '../records/last-writes.ts';
import { countedColumns, countMembers, withCounts, type CountedList } from './list-counts.ts';
import { listedRules } from '../memberships/list-filters.ts';
import { copyMembers, lockLists } from '../memberships/list-members.ts';
import type { RecordPage } from '../records/paging.ts';

/** A list without the number of its members. */
type Row = Omit<List, 'contacts_count'> & CountedList;

/** @param which SQL that continues the clause `where`, and may add others */
const selectLists = (sql: Queryable, customerId: string, which: Fragment): Promise<Row[]> => sql<Row[]>`
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

/** Returns a list as the API shows it. */
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

/** Returns a page of lists, newest first. `withCounts` says how exact the numbers of their members are. */
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

/** Returns lists without the numbers of their members, which can take long to count. */
export const findListNames = (db: Database, customerId: string, ids: string[]): Promise<ListName[]> =>
  db.lookup(
    (sql) => sql<ListName[]>`
      select l.id, l.name
      from ${liveLists(sql, customerId)}
        and l.id = any(${ids}::uuid[])`,
  );

/**
 * Returns the customer's newest lists, up to `limit`, without the numbers of their members.
 * @param also id of a list to return beside them
 */
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

export async function findList(db: Database, customerId: string, id: string): Promise<List | undefined> {
  const [list] = await findLists(db, customerId, [id]);
  return list;
}

/** Returns the customer's lists with these ids, with the exact numbers of their members. Leaves out unknown ids. */
export const findLists = (db: Database, customerId: string, ids: string[]): Promise<List[]> =>
  db.search((sql) => readLists(sql, customerId, ids));

async function readLists(sql: Queryable, customerId: string, ids: string[]): Promise<List[]> {
  const lists: List[] = [];
  for (const row of await selectLists(sql, customerId, sql`and l.id = any(${ids}::uuid[])`))
    lists.push(shown({ ...row, contacts_count: await countMembers(sql, customerId, row) }));
  return lists;
}

/**
 * Creates a list.
 * @param source how it was made
 * @throws DomainError `conflict` if the customer would then have too many lists with rules
 */
export const createList = (
  sql: Transaction,
  customerId: string,
  ownerId: string,
  { name, description = '', rules: given = [] }: ListCreate,
  source: 'MANUAL' | 'PROSPECT' = 'MANUAL',
): Promise<{ id: string; name: string }> =>
  withLastWrites(sql, customerId, async (last) => {
    const rules = completeRules(given);
    if (rules.length > 0) await requireRoomForRules(sql, customerId, '/rules');
    return insertList(sql, customerId, ownerId, { name, description, rules, source }, last);
  });

/**
 * @param path JSON pointer to the rules in the request, for the error
 * @throws DomainError `conflict` if the customer has no room for one more list with rules
 */
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
  last: LastWrites,
): Promise<{ id: string; name: string }> {
  const [list] = await sql<{ id: string; name: string }[]>`
    insert into lists (customer_id, name, description, owner_id, rules, source)
    values (${customerId}, ${name.trim()}, ${description}, ${ownerId}, ${sql.json(rules)}, ${source})
    returning id, name`;
  last.created('list', { id: list!.id });
  return list!;
}

/**
 * Updates the fields of a list that `patch` contains.
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the list's current ETag
 * @throws DomainError `conflict` if the customer would then have too many lists with rules
 */
export const updateList: UpdateRecord<ListPatch> = (sql, customerId, id, patch, ifMatch) =>
  withLastWrites(sql, customerId, async (last) => {
    const current = await lockList(sql, customerId, id, 'no key update', ifMatch);
    if (Object.keys(patch).length === 0) return;
    const rules = patch.rules ? completeRules(patch.rules) : current.rules;
    if (current.rules.length === 0 && rules.length > 0) await requireRoomForRules(sql, customerId, '/rules');
    const columns = {
      name: patch.name?.trim() ?? current.name,
      description: patch.description ?? current.description,
      rules,
    };
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
    last.updated('list', { id }, toldOf(current, current.source), toldOf(columns, current.source));
  });

const toldOf = ({ name, description, rules }: ListColumns, source: string) => ({
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
 * Returns a tag of what people change in a list. It may stand in place of the ETag, which changes with the members too:
 * in a list with rules that is all the time.
 */
export const listTag = ({ name, description, rules }: ListColumns): string =>
  etagOf({ name, description, rules: completeRules(rules) });

/**
 * Locks a list until the transaction ends and returns its columns. `source` is how it was made. With `strength = 'update'`,
 * other transactions also cannot add contacts to the list.
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the list's current ETag
 */
async function lockList(
  sql: Transaction,
  customerId: string,
  id: string,
  strength: 'update' | 'no key update',
  ifMatch?: string,
): Promise<ListColumns & { source: string }> {
  const [list] = await sql<(ListColumns & { source: string })[]>`
    select l.name, l.description, l.rules, l.source
    from ${liveLists(sql, customerId)}
      and l.id = ${id}
    for ${sql.unsafe(strength)}`;
  if (!list) throw notFound('list');
  if (ifMatch !== undefined && ifMatch !== listTag(list))
    requireMatch(ifMatch, (await readLists(sql, customerId, [id]))[0]!);
  return list;
}

/**
 * Deletes a list: no read finds it any more. Its row and its members stay for `HISTORY_DAYS`.
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the list's current ETag
 */
export const deleteList: DeleteRecord = (sql, customerId, id, ifMatch) =>
  withLastWrites(sql, customerId, async (last) => {
    const { name, description, rules, source } = await lockList(sql, customerId, id, 'update', ifMatch);
    await sql`
      update lists
      set deleted_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}`;
    last.deleted('list', { id }, toldOf({ name, description, rules }, source));
  });

/**
 * Creates a copy of a list with its description, rules and the members that were added by hand.
 * @returns the id of the copy
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `conflict` if the list has too many members, or the customer would then have too many lists with
 *   rules
 */
export const duplicateList = (
  sql: Transaction,
  customerId: string,
  ownerId: string,
  { list_id, new_name }: { list_id: string; new_name: string },
): Promise<string> =>
  withLastWrites(sql, customerId, async (last) => {
    const [original] = await lockLists(sql, customerId, [list_id]);
    if (!original) throw notFound('list', ['/list_id']);
    const { description } = original;
    const rules = completeRules(original.rules);
    if (rules.length > 0) await requireRoomForRules(sql, customerId, '/list_id');
    const copy = await insertList(sql, customerId, ownerId, { name: new_name, description, rules }, last);
    await copyMembers(sql, customerId, { from: list_id, to: copy.id });
    return copy.id;
  });
