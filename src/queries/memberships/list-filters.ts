import type { Database, Queryable } from '../../database/db.ts';
import { validationFailed } from '../../errors.ts';
import { contactSource } from '../../filters/columns.ts';
import { liveLists } from '../../filters/live.ts';
import type { RecordQuery } from '../../filters/record-query.ts';
import { rulesFilter } from '../../filters/rules.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import { any, not, type Filter } from '../../filters/tree.ts';
import { ruleLimits, type Rule } from '../../schemas/lists.ts';

/** Maximum number of lists with rules whose members one filter selects. */
const maxListsWithRules = 10;

/** Maximum number of rules that one filter evaluates. Those of a list count for each condition that names the list. */
const maxRules = maxListsWithRules * ruleLimits.rules;

/** A list as a filter needs it. */
export interface ListedRules {
  id: string;
  rules: Rule[];
  /** Contacts were added to the list by hand. */
  has_members: boolean;
}

type ListTest = Extract<Filter, { kind: 'in' | 'empty' }>;

const isListTest = (filter: Filter): filter is ListTest =>
  (filter.kind === 'in' || filter.kind === 'empty') && filter.field === 'list_id';

/**
 * Replaces each condition on `list_id` in the filter of a query: a member of a list was added by hand, or matches the
 * list's rules.
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

type FoundList = ListedRules & {
  /** How many of the lists that were found have rules. */
  with_rules: number;
};

/** Returns these lists, and if not `areAllNamed` all with rules. They have no rules if they are too many for a filter. */
const findLists = (sql: Queryable, customerId: string, ids: string[], areAllNamed: boolean): Promise<FoundList[]> =>
  // The rules of all lists of a customer can be hundreds of MiB.
  sql<FoundList[]>`
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

/** SQL columns of a list `l` that `membersOf` needs. */
export const listedRules = (sql: FragmentMaker, customerId: string): Fragment => sql`
  l.id,
  l.rules,
  exists (select 1 from list_members m where m.customer_id = ${customerId}::uuid and m.list_id = l.id) as has_members`;

function listTestsIn(filter: Filter): ListTest[] {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.flatMap(listTestsIn);
  if (filter.kind === 'not') return listTestsIn(filter.of);
  return isListTest(filter) ? [filter] : [];
}

/** Returns the lists whose members a condition selects. */
const listsOf = (test: ListTest, lists: ReadonlyMap<string, ListedRules>): ListedRules[] =>
  test.kind === 'empty' ? [...lists.values()] : test.values.flatMap((id) => lists.get(String(id)) ?? []);

/** @param tested for each condition, its lists */
function requireFewRules(lists: readonly FoundList[], tested: readonly ListedRules[][]): void {
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

/** Returns the filter of the contacts that are members of at least one of these lists. */
export function membersOf(lists: readonly ListedRules[]): Filter {
  const byHand = lists.filter(({ has_members }) => has_members).map(({ id }) => id);
  return any([...(byHand.length > 0 ? [{ kind: 'member' as const, lists: byHand }] : []), ...rulesOf(lists)]);
}

const rulesOf = (lists: readonly Pick<ListedRules, 'rules'>[]): Filter[] =>
  lists.flatMap(({ rules }) => (rules.length > 0 ? [rulesFilter(contactSource.fields, rules)] : []));
