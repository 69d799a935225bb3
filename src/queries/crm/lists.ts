import type { Database, Queryable, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { etagOf, requireMatch } from '../../text/etag.ts';
import { encodeCursor, readPosition, scopeOf } from '../../filters/cursor.ts';
import { completeRules } from '../../filters/rules.ts';
import { all } from '../../filters/tree.ts';
import type { List, ListCreate, ListPatch, ListQuery, Rule } from '../../schemas/lists.ts';
import { defaultLimit } from '../../schemas/base/wire.ts';
import { storedMembers } from '../records/counters.ts';
import type { DeleteRecord, UpdateRecord } from '../records/finders.ts';
import { withLastWrites, type LastWrites } from '../records/last-writes.ts';
import { copyMembers, isLargeList, removeList, removeNextMembers } from '../memberships/large-lists.ts';
import { countStale } from '../memberships/list-counts.ts';
import { beginRemoval, beginFill, beginCopy } from '../memberships/list-fills.ts';
import { requireWithinRuleLimits } from '../memberships/list-rule-limits.ts';
import { lockRulesExclusive, bumpRuleVersion } from '../memberships/list-rules.ts';
import type { RecordPage } from '../records/paging.ts';
import { isStale, listState, snapshot, type ListState, type StaleList } from '../memberships/stale-lists.ts';

/** A selected row: a list as the API returns it, and columns that say whether its stored member count is exact. */
type Row = List & ListState;

const projection = (sql: Queryable, customerId: string) => sql`
  l.id,
  l.name,
  l.description,
  l.owner_id,
  u.name as owner_name,
  case when l.rules = '[]' then l.source else 'RULES' end as source,
  array[]::uuid[] as collaborators,
  l.rules,
  ${storedMembers(sql, customerId)} as contacts_count,
  l.created_at,
  l.updated_at,
  ${listState(sql, customerId)}`;

const source = (sql: Queryable) => sql`
  lists l
  join users u on u.customer_id = l.customer_id and u.id = l.owner_id`;

export async function listLists(db: Database, customerId: string, query: ListQuery): Promise<RecordPage<List>> {
  const { page = 1, limit = defaultLimit } = query;
  const scope = scopeOf('list-contact', customerId, all([]), []);
  const after = readPosition(scope, [], query, 'this list', '/cursor');
  const rows = await readLists(
    db,
    customerId,
    (sql) => sql<Row[]>`
    select ${projection(sql, customerId)}
    from ${source(sql)}
    where l.customer_id = ${customerId}
      and l.deleted_at is null
      ${after === undefined ? sql`` : sql`and l.id < ${after.id}`}
    order by l.id desc
    limit ${limit}
    offset ${limit * (page - 1)}`,
  );
  const isFull = rows.length === limit;
  return { rows, nextCursor: isFull ? encodeCursor(scope, { id: rows.at(-1)!.id, values: [] }) : undefined };
}

export async function findList(db: Database, customerId: string, id: string): Promise<List | undefined> {
  const [list] = await findLists(db, customerId, [id]);
  return list;
}

/** Returns the customer's lists with these ids, in any order. Leaves out unknown ids. */
export const findLists = (db: Database, customerId: string, ids: string[]): Promise<List[]> =>
  readLists(db, customerId, (sql) => selectLists(sql, customerId, ids));

const selectLists = (sql: Queryable, customerId: string, ids: string[]) => sql<Row[]>`
  select ${projection(sql, customerId)}
  from ${source(sql)}
  where l.customer_id = ${customerId}
    and l.id = any(${ids}::uuid[])
    and l.deleted_at is null`;

/**
 * Reads lists with exact member counts. If a stored count may be out of date, reads the lists again and counts the
 * members, all in one snapshot.
 */
async function readLists(db: Database, customerId: string, read: (sql: Queryable) => Promise<Row[]>): Promise<List[]> {
  const rows = await db.lookup(read);
  if (!rows.some(isStale)) return rows.map((row) => shown(row));
  return snapshot(db, async (sql) => evaluateCounts(sql, customerId, await read(sql)));
}

/**
 * Returns lists as the API shows them, with exact member counts. Counts the members of a list only if its stored count
 * is out of date.
 */
async function evaluateCounts(sql: Queryable, customerId: string, rows: Row[]): Promise<List[]> {
  const stale = rows.filter((row): row is Row & StaleList => isStale(row));
  const evaluated = await countStale(sql, customerId, stale);
  return rows.map((row) => shown(row, evaluated.get(row.id)));
}

/**
 * Returns a list as the API shows it. The member count is `evaluated`, or the stored count if `evaluated` is undefined.
 */
function shown(row: Row, evaluated?: number): List {
  const { stale, is_copying, ...list } = row;
  void [stale, is_copying];
  return { ...list, contacts_count: evaluated ?? list.contacts_count };
}

/**
 * Creates a list.
 * @param source how it was made
 * @throws DomainError `conflict` if the customer would then have too many rules, or too many lists with rules
 */
export const createList = (
  sql: Transaction,
  customerId: string,
  ownerId: string,
  body: ListCreate,
  source: 'MANUAL' | 'PROSPECT' = 'MANUAL',
): Promise<{ id: string; name: string }> =>
  withLastWrites(sql, customerId, async (last) => {
    const rules = completeRules(body.rules ?? []);
    const locked = rules.length > 0 ? await lockRulesExclusive(sql, customerId) : undefined;
    if (locked) await requireWithinRuleLimits(sql, locked, { before: [], after: rules }, '/rules');
    const { name, description = '' } = body;
    const list = await insertList(sql, customerId, ownerId, { name, description, rules, source }, last);
    if (locked) await beginFill(sql, locked, list.id, rules, last);
    return list;
  });

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
 * @throws DomainError `conflict` if the customer would then have too many rules, or too many lists with rules
 */
export const updateList: UpdateRecord<ListPatch> = (sql, customerId, id, patch, ifMatch) =>
  withLastWrites(sql, customerId, async (last) => {
    const locked = patch.rules && (await lockRulesExclusive(sql, customerId));
    const current = await lockList(sql, customerId, id, ifMatch);
    const rules = patch.rules ? completeRules(patch.rules) : current.rules;
    const name = patch.name?.trim() ?? current.name;
    if (Object.keys(patch).length === 0) return;
    if (locked) await requireWithinRuleLimits(sql, locked, { before: current.rules, after: rules }, '/rules');
    const columns = { name, description: patch.description ?? current.description, rules };
    await sql`
    update lists
    set
      name = ${columns.name},
      description = ${columns.description},
      rules = ${sql.json(rules)},
      updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
    last.updated('list', { id }, toldOf(current, current.source), toldOf(columns, current.source));
    if (locked && !isSame(rules, current.rules)) await beginFill(sql, locked, id, rules, last);
  });

const toldOf = ({ name, description, rules }: ListColumns, source: string) => ({
  name,
  description,
  rules: completeRules(rules),
  source: rules.length > 0 ? 'RULES' : source,
});

const isSame = (some: Rule[], others: Rule[]): boolean =>
  JSON.stringify(some) === JSON.stringify(completeRules(others));

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
 * Locks a list until the transaction ends and returns its columns. `source` is how it was made.
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the list's current ETag
 */
async function lockList(
  sql: Transaction,
  customerId: string,
  id: string,
  ifMatch?: string,
): Promise<ListColumns & { source: string }> {
  const [list] = await sql<(ListColumns & { source: string })[]>`
    select name, description, rules, source
    from lists
    where customer_id = ${customerId}
      and id = ${id}
      and deleted_at is null
    for no key update`;
  if (!list) throw notFound('list');
  if (ifMatch !== undefined && ifMatch !== listTag(list)) {
    const [shownNow] = await evaluateCounts(sql, customerId, await selectLists(sql, customerId, [id]));
    requireMatch(ifMatch, shownNow!);
  }
  return list;
}

/**
 * Deletes a list. The members of a large list are removed later by a worker.
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `precondition_failed` if `ifMatch` does not match the list's current ETag
 */
export const deleteList: DeleteRecord = (sql, customerId, id, ifMatch) =>
  withLastWrites(sql, customerId, async (last) => {
    const locked = await lockRulesExclusive(sql, customerId);
    const { rules } = await lockList(sql, customerId, id, ifMatch);
    last.deleted('list', { id });
    if (rules.length > 0) await bumpRuleVersion(sql, locked);
    if (await isLargeList(sql, customerId, id)) return beginRemoval(sql, locked, id, last);
    await removeNextMembers(sql, customerId, id);
    return removeList(sql, customerId, id);
  });

/**
 * Creates a copy of a list with its description, rules and manually added members. The members of a large list are
 * written later by a worker.
 * @returns the id of the copy
 * @throws DomainError `not_found` if the customer has no such list
 * @throws DomainError `conflict` if the customer would then have too many rules, or too many lists with rules
 */
export const duplicateList = (
  sql: Transaction,
  customerId: string,
  ownerId: string,
  { list_id, new_name }: { list_id: string; new_name: string },
): Promise<string> =>
  withLastWrites(sql, customerId, async (last) => {
    const isLarge = await isLargeList(sql, customerId, list_id);
    // A large list is copied without the exclusive lock, because every writer of contacts would wait for that lock.
    const locked = isLarge ? undefined : await lockRulesExclusive(sql, customerId);
    const list = await insertList(sql, customerId, ownerId, { name: new_name, description: '', rules: [] }, last);
    const ends = { from: list_id, to: list.id };
    if (isLarge) await copyMembers(sql, customerId, ends);
    else await copyFewMembers(sql, customerId, ends, last);
    // Read after the members: a list that is not deleted yet had all its members when they were copied.
    const original = await findOriginal(sql, customerId, list_id);
    const rules = completeRules(original.rules);
    const withRules = rules.length > 0 ? (locked ?? (await lockRulesExclusive(sql, customerId))) : undefined;
    if (withRules) await requireWithinRuleLimits(sql, withRules, { before: [], after: rules }, '/list_id');
    await sql`
    update lists
    set description = ${original.description}, rules = ${sql.json(rules)}, is_copying = ${isLarge}
    where customer_id = ${customerId}
      and id = ${list.id}`;
    if (withRules) await beginFill(sql, withRules, list.id, rules, last);
    else if (isLarge) await beginCopy(sql, customerId, list.id, last);
    return list.id;
  });

/**
 * Returns the fields of a list that are copied when the list is duplicated.
 * @throws DomainError `not_found` if the customer has no such list, or it is deleted
 */
async function findOriginal(
  sql: Transaction,
  customerId: string,
  id: string,
): Promise<{ description: string; rules: Rule[] }> {
  const [original] = await sql<{ description: string; rules: Rule[] }[]>`
    select description, rules
    from lists
    where customer_id = ${customerId}
      and id = ${id}
      and deleted_at is null`;
  if (!original) throw notFound('list', ['/list_id']);
  return original;
}

async function copyFewMembers(
  sql: Transaction,
  customerId: string,
  { from, to }: { from: string; to: string },
  last: LastWrites,
): Promise<void> {
  const { count } = await sql`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select customer_id, ${to}, contact_id, true, false
    from list_members
    where customer_id = ${customerId}
      and list_id = ${from}
      and by_hand`;
  last.count(to, count);
}
