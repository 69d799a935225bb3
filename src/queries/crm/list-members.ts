import type { LockedId, Transaction, Database, Queryable } from '../../database/db.ts';
import { conflict, missingReferences, validationFailed } from '../../errors.ts';
import { contactSource, fromOf, any, not, type Filter } from '../../filters/columns.ts';
import { liveLists, record, recorder, type Fragment, type FragmentMaker, run, commaList } from '../../filters/sql.ts';
import { rulesFilter } from '../../filters/rules.ts';
import { toSql } from '../../filters/to-sql.ts';
import { type Rule, ruleLimits } from '../../schemas/lists.ts';
import { lockContacts } from '../records/deferred-writes.ts';
import { countUpTo, valuesBy } from '../records/finders.ts';
import { requireReferences, type Reference } from '../records/references.ts';
import type { RecordQuery } from '../../filters/parse.ts';

/*
 * The table `list_members` has the contacts that were added to a list by hand. The rules of a list are evaluated on read.
 * All locks are taken in the order that deferred-writes.ts describes.
 */

const membersAtOnce = 10_000;

export const contactsAtOnce = (max: number, lists: number): number =>
  Math.min(max, Math.ceil(membersAtOnce / Math.max(1, lists)));

interface ManualMembers {
  list_id: string;
  contact_ids: readonly string[];
}

/**
 * Adds contacts to a list by hand. They are then members even if they do not match the list's rules.
 * @returns `ids`: contacts that were not in the list by hand; `added`: number of new members; `already_members`: number
 * of contacts that were members before
 * @throws DomainError `not_found` with the JSON pointer of every unknown id
 */
export async function addMembers(
  sql: Transaction,
  customerId: string,
  body: ManualMembers,
): Promise<{ ids: string[]; added: number; already_members: number }> {
  const { rules, contactIds } = await lockListAndContacts(sql, customerId, body);
  const matching = await findMatching(sql, customerId, rules, contactIds);
  const ids = await addToLists(sql, customerId, { list_ids: [body.list_id], contact_ids: contactIds });
  const members = ids.filter((id) => !matching.has(id)).length;
  return { ids, added: members, already_members: contactIds.length - members };
}

async function findMatching(
  sql: Transaction,
  customerId: string,
  rules: readonly Rule[],
  contactIds: readonly LockedId[],
): Promise<Set<string>> {
  if (rules.length === 0) return new Set();
  const { text, parameters } = record(recorder`
    select c.id
    from ${fromOf(recorder, contactSource, customerId)}
    where c.customer_id = ${customerId}::uuid
      and c.id = any(${contactIds as LockedId[]}::uuid[])
      and ${toSql(recorder, contactSource, customerId, rulesFilter(contactSource.fields, rules))}`);
  const rows = await sql.unsafe<{ id: string }[]>(text, parameters as string[]);
  return new Set(rows.map(({ id }) => id));
}

export async function addToLists(
  sql: Transaction,
  customerId: string,
  { list_ids, contact_ids }: { list_ids: readonly string[]; contact_ids: readonly LockedId[] },
): Promise<string[]> {
  // From the tables rather than from the arrays: Citus then sends one statement to the worker of the customer.
  const rows = await sql<{ contact_id: string }[]>`
    insert into list_members (customer_id, list_id, contact_id)
    select c.customer_id, listed.id, c.id
    from (
      select l.id
      from ${liveLists(sql, customerId)}
        and l.id = any(${list_ids as string[]}::uuid[])
    ) listed
    cross join contacts c
    where c.customer_id = ${customerId}
      and c.id = any(${contact_ids as LockedId[]}::uuid[])
    on conflict (customer_id, list_id, contact_id) do nothing
    returning contact_id`;
  return rows.map(({ contact_id }) => contact_id);
}

/**
 * Removes contacts from a list to which they were added by hand. Contacts that match the list's rules stay members.
 * @returns the ids of the contacts that had been added by hand
 * @throws DomainError `not_found` with the JSON pointer of every unknown id
 */
export async function removeMembers(
  sql: Transaction,
  customerId: string,
  body: ManualMembers,
): Promise<{ ids: string[] }> {
  const { contactIds } = await lockListAndContacts(sql, customerId, body);
  const rows = await sql<{ id: string }[]>`
    delete from list_members
    where customer_id = ${customerId}
      and list_id = ${body.list_id}
      and contact_id = any(${contactIds}::uuid[])
    returning contact_id as id`;
  return { ids: rows.map(({ id }) => id) };
}

async function lockListAndContacts(
  sql: Transaction,
  customerId: string,
  { list_id, contact_ids }: ManualMembers,
): Promise<{ rules: Rule[]; contactIds: LockedId[] }> {
  const list = await lockListRow(sql, customerId, list_id, 'key share');
  const contactIds = await lockContacts(sql, customerId, [...new Set(contact_ids)]);
  const missing = [...(list ? [] : [{ noun: 'list', path: '/list_id' }]), ...missingOf(contact_ids, contactIds)];
  if (!list || missing.length > 0) throw missingReferences(missing);
  return { rules: list.rules, contactIds };
}

function missingOf(given: readonly string[], found: readonly string[]): { noun: string; path: string }[] {
  const known = new Set(found);
  return given.flatMap((id, i) => (known.has(id) ? [] : [{ noun: 'contact', path: `/contact_ids/${i}` }]));
}

interface LockedList {
  name: string;
  description: string;
  rules: Rule[];
  source: string;
}

/**
 * Locks a list. `key share` prevents its deletion. `no key update` also prevents changes. `update` also prevents that
 * contacts are added.
 */
export async function lockListRow(
  sql: Transaction,
  customerId: string,
  id: string,
  strength: 'update' | 'no key update' | 'key share',
): Promise<LockedList | undefined> {
  const [list] = await sql<LockedList[]>`
    select l.name, l.description, l.rules, l.source
    from ${liveLists(sql, customerId)}
      and l.id = ${id}
    for ${sql.unsafe(strength)}`;
  return list;
}

export const listReferences = (ids: readonly string[] = []): Reference[] =>
  ids.map((id, i) => ({ noun: 'list', id, path: `/list_ids/${i}` }));

/**
 * Locks the lists of a request against deletion, and returns their ids without duplicates.
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
export async function requireLists(
  sql: Transaction,
  customerId: string,
  ids: readonly string[] = [],
): Promise<string[]> {
  await requireReferences(sql, customerId, listReferences(ids));
  return [...new Set(ids)];
}

/**
 * Adds each contact to the given lists by hand, and removes it from all others. The caller has locked the lists.
 * @param wanted list ids (in lower case) by contact id
 */
export async function setManualLists(
  sql: Transaction,
  customerId: string,
  wanted: ReadonlyMap<LockedId, readonly string[]>,
): Promise<void> {
  const contacts = [...wanted.keys()];
  if (contacts.length === 0) return;
  const pairs = [...wanted].flatMap(([contact, lists]) => [...new Set(lists)].map((list) => ({ list, contact })));
  const [lists, members] = [pairs.map(({ list }) => list), pairs.map(({ contact }) => contact)];
  await sql`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = any(${contacts}::uuid[])
      and (list_id, contact_id) not in (select * from unnest(${lists}::uuid[], ${members}::uuid[]))
      and list_id = any(array(select l.id from ${liveLists(sql, customerId)}))`;
  if (pairs.length === 0) return;
  await sql`
    insert into list_members (customer_id, list_id, contact_id)
    select ${customerId}, given.list_id, given.contact_id
    from unnest(${lists}::uuid[], ${members}::uuid[]) as given (list_id, contact_id)
    on conflict (customer_id, list_id, contact_id) do nothing`;
}

export async function findManualLists(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
): Promise<Map<string, string[]>> {
  if (contactIds.length === 0) return new Map();
  const members = await sql<{ contact_id: string; list_ids: string[] }[]>`
    select m.contact_id, array_agg(m.list_id) as list_ids
    from list_members m
    where m.customer_id = ${customerId}
      and m.contact_id = any(${contactIds as LockedId[]}::uuid[])
      and m.list_id = any(array(select l.id from ${liveLists(sql, customerId)}))
    group by m.contact_id`;
  return new Map(members.map(({ contact_id, list_ids }) => [contact_id, list_ids]));
}

/**
 * Removes contacts from all lists before they are deleted. Returns the ids of these lists by contact, including deleted
 * lists.
 */
export async function removeFromAllLists(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
): Promise<Map<string, string[]>> {
  const removed = await sql<{ contact_id: string; list_id: string }[]>`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = any(${contactIds as LockedId[]}::uuid[])
    returning contact_id, list_id`;
  return valuesBy(removed, 'contact_id', ({ list_id }) => list_id);
}

/** Maximum number of members added by hand in a list that can be duplicated. Copying so many takes about a second. */
const maxCopied = 100_000;

export async function copyMembers(sql: Transaction, customerId: string, { from, to }: { from: string; to: string }) {
  const members = () => sql`from list_members m where m.customer_id = ${customerId} and m.list_id = ${from}`;
  const [row] = await sql<[{ members: number }]>`select ${countUpTo(sql, members(), maxCopied)} as members`;
  if (row.members > maxCopied) {
    const message = `has more than ${maxCopied} members that were added by hand`;
    throw conflict(`The list ${message}: it cannot be duplicated`, [{ path: '/list_id', message }]);
  }
  // The contacts are locked, because the foreign key would refuse one that is deleted meanwhile.
  await sql`
    insert into list_members (customer_id, list_id, contact_id)
    select ${customerId}, ${to}, present.id
    from (
      select c.id
      from contacts c
      where c.customer_id = ${customerId}
        and c.id = any(array(select m.contact_id ${members()}))
      order by c.id
      for key share
    ) present`;
}

const maxListsWithRules = 10;

/** Maximum number of rules that one filter evaluates. If several conditions name a list, its rules count each time. */
const maxRules = maxListsWithRules * ruleLimits.rules;

export interface ListedRules {
  id: string;
  rules: Rule[];
  has_members: boolean;
}

type ListTest = Extract<Filter, { kind: 'in' | 'empty' }>;

const isListTest = (filter: Filter): filter is ListTest =>
  (filter.kind === 'in' || filter.kind === 'empty') && filter.field === 'list_id';

/**
 * Replaces the conditions on `list_id` in a query's filter by conditions that select the members of these lists.
 * @throws DomainError `validation_failed` if the filter names more than `maxListsWithRules` lists with rules, or would
 *   evaluate more than `maxRules` rules
 */
export async function resolveLists(db: Pick<Database, 'lookup'>, query: RecordQuery): Promise<RecordQuery> {
  const { customerId, filter } = query;
  const tests = listTestsIn(filter);
  if (tests.length === 0) return query;
  const ids = new Set(tests.flatMap((test) => (test.kind === 'in' ? test.values.map(String) : [])));
  // A contact is in no list if it matches the rules of none, whichever lists there are.
  const areAllNamed = tests.every(({ kind }) => kind === 'in');
  const lists = await db.lookup((sql) => findLists(sql, customerId, [...ids], areAllNamed));
  const byId = new Map(lists.map((list) => [list.id, list]));
  requireFewRules(
    lists,
    tests.map((test) => listsOf(test, byId)),
  );
  return { ...query, filter: replaceIn(filter, byId) };
}

type NamedList = ListedRules & {
  with_rules: number;
};

/**
 * Returns the lists with these ids. Unless `areAllNamed`, also returns all lists with rules. Omits the rules if there
 * are too many for one filter.
 */
const findLists = (sql: Queryable, customerId: string, ids: string[], areAllNamed: boolean): Promise<NamedList[]> =>
  // The rules of all lists of a customer can be hundreds of MiB.
  sql<NamedList[]>`
    select
      found.id,
      case when found.with_rules <= ${maxListsWithRules} then found.rules else '[]' end as rules,
      found.has_members,
      found.with_rules
    from (
      select ${listedRules(sql, customerId)}, count(*) filter (where l.rule_count > 0) over () as with_rules
      from ${liveLists(sql, customerId)}
        and (l.id = any(${ids}::uuid[]) or (l.rule_count > 0 and not ${areAllNamed}::boolean))
    ) found`;

export const listedRules = (sql: FragmentMaker, customerId: string): Fragment => sql`
  l.id,
  l.rules,
  exists (select 1 from list_members m where m.customer_id = ${customerId}::uuid and m.list_id = l.id) as has_members`;

function listTestsIn(filter: Filter): ListTest[] {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.flatMap(listTestsIn);
  if (filter.kind === 'not') return listTestsIn(filter.of);
  return isListTest(filter) ? [filter] : [];
}

const listsOf = (test: ListTest, lists: ReadonlyMap<string, ListedRules>): ListedRules[] =>
  test.kind === 'empty' ? [...lists.values()] : test.values.flatMap((id) => lists.get(String(id)) ?? []);

function requireFewRules(lists: readonly NamedList[], tested: readonly ListedRules[][]): void {
  if ((lists[0]?.with_rules ?? 0) > maxListsWithRules) {
    const message = `can select by at most ${maxListsWithRules} lists with rules; \`null\` selects by all lists`;
    throw validationFailed([{ path: '/filters', message }]);
  }
  const rules = tested.flat().reduce((sum, list) => sum + list.rules.length, 0);
  if (rules <= maxRules) return;
  const message = `can select by at most ${maxRules} rules of lists, has ${rules}: those of a list count in each condition`;
  throw validationFailed([{ path: '/filters', message }]);
}

function replaceIn(filter: Filter, lists: ReadonlyMap<string, ListedRules>): Filter {
  const replace = (one: Filter): Filter => replaceIn(one, lists);
  if (filter.kind === 'all' || filter.kind === 'any') return { ...filter, of: filter.of.map(replace) };
  if (filter.kind === 'not') return not(replace(filter.of));
  if (!isListTest(filter)) return filter;
  const tested = listsOf(filter, lists);
  return filter.kind === 'empty' ? not(any([{ kind: 'member', lists: 'any' }, ...rulesOf(tested)])) : membersOf(tested);
}

export function membersOf(lists: readonly ListedRules[]): Filter {
  const byHand = lists.filter(({ has_members }) => has_members).map(({ id }) => id);
  return any([...(byHand.length > 0 ? [{ kind: 'member' as const, lists: byHand }] : []), ...rulesOf(lists)]);
}

const rulesOf = (lists: readonly Pick<ListedRules, 'rules'>[]): Filter[] =>
  lists.flatMap(({ rules }) => (rules.length > 0 ? [rulesFilter(contactSource.fields, rules)] : []));

interface ListOfContact {
  id: string;
  name: string;
  by_hand: boolean;
}

interface ContactListRow {
  id: string;
  name: string;
  rule_count: number;
}

export const findListsOfContact = (
  db: Database,
  customerId: string,
  contactId: string,
  manual: readonly string[],
): Promise<ListOfContact[]> =>
  db.search(async (sql) => {
    const lists = await sql<ContactListRow[]>`
      select l.id, l.name, l.rule_count
      from ${liveLists(sql, customerId)}
        and (l.rule_count > 0 or l.id = any(${manual as string[]}::uuid[]))
      order by l.name, l.id`;
    const byHand = new Set(manual);
    const others = lists.filter(({ id }) => !byHand.has(id));
    const matching = new Set<string>();
    for (const group of groupsOf(others))
      for (const id of await findMatchingLists(sql, customerId, contactId, group)) matching.add(id);
    return lists.flatMap(({ id, name }) =>
      byHand.has(id) || matching.has(id) ? [{ id, name, by_hand: byHand.has(id) }] : [],
    );
  });

/**
 * Number of rules after which a further list goes into another statement. Many rules in one statement take long to
 * plan.
 */
const rulesTogether = 500;

function groupsOf(lists: readonly ContactListRow[]): string[][] {
  const groups: string[][] = [];
  let rules = rulesTogether;
  for (const list of lists) {
    if (rules >= rulesTogether) {
      groups.push([]);
      rules = 0;
    }
    groups.at(-1)!.push(list.id);
    rules += list.rule_count;
  }
  return groups;
}

async function findMatchingLists(sql: Queryable, customerId: string, contactId: string, ids: readonly string[]) {
  const lists = await sql<{ id: string; rules: Rule[] }[]>`
    select l.id, l.rules
    from ${liveLists(sql, customerId)}
      and l.id = any(${ids as string[]}::uuid[])`;
  const tests = lists.map(({ id, rules }) => {
    const matches = toSql(recorder, contactSource, customerId, rulesFilter(contactSource.fields, rules));
    return recorder`case when ${matches} then ${id}::uuid end`;
  });
  const [row] = await run<{ lists: string[] }>(
    sql,
    recorder`
    select array_remove(array[${commaList(recorder, tests)}], null) as lists
    from ${fromOf(recorder, contactSource, customerId)}
    where c.customer_id = ${customerId}::uuid
      and c.id = ${contactId}::uuid`,
  );
  return row?.lists ?? [];
}
