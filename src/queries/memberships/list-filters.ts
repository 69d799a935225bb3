import type { Database } from '../../database/db.ts';
import { validationFailed } from '../../errors.ts';
import { contactSource } from '../../filters/columns.ts';
import { liveLists } from '../../filters/live.ts';
import type { RecordQuery } from '../../filters/record-query.ts';
import { rulesFilter } from '../../filters/rules.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import { any, not, type Filter } from '../../filters/tree.ts';
import type { Rule } from '../../schemas/lists.ts';

/** Maximum number of lists with rules whose members one filter selects. */
const maxListsWithRules = 10;

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
 * @throws DomainError `validation_failed` if the filter names more than `maxListsWithRules` lists with rules
 */
export async function resolveLists(db: Pick<Database, 'lookup'>, query: RecordQuery): Promise<RecordQuery> {
  const { customerId, filter } = query;
  const tests = listTestsIn(filter);
  if (tests.length === 0) return query;
  const ids = new Set(tests.flatMap((test) => (test.kind === 'in' ? test.values.map(String) : [])));
  // A contact is in no list if it matches the rules of none, whichever lists there are.
  const areAllNamed = tests.every(({ kind }) => kind === 'in');
  const lists = await db.lookup(
    (sql) => sql<ListedRules[]>`
      select ${listedRules(sql, customerId)}
      from ${liveLists(sql, customerId)}
        and (l.id = any(${[...ids]}::uuid[]) or (l.rule_count > 0 and not ${areAllNamed}::boolean))
      limit ${ids.size + maxListsWithRules + 1}`,
  );
  requireFewRules(lists);
  return { ...query, filter: replaceIn(filter, new Map(lists.map((list) => [list.id, list]))) };
}

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

function requireFewRules(lists: readonly ListedRules[]): void {
  if (lists.filter(({ rules }) => rules.length > 0).length <= maxListsWithRules) return;
  const message = `can select by at most ${maxListsWithRules} lists with rules; \`null\` selects by all lists`;
  throw validationFailed([{ path: '/filters', message }]);
}

function replaceIn(filter: Filter, lists: ReadonlyMap<string, ListedRules>): Filter {
  const replace = (one: Filter): Filter => replaceIn(one, lists);
  if (filter.kind === 'all' || filter.kind === 'any') return { ...filter, of: filter.of.map(replace) };
  if (filter.kind === 'not') return not(replace(filter.of));
  if (!isListTest(filter)) return filter;
  if (filter.kind === 'empty') return not(any([{ kind: 'member', lists: 'any' }, ...rulesOf([...lists.values()])]));
  return membersOf(filter.values.flatMap((id) => lists.get(String(id)) ?? []));
}

/** Returns the filter of the contacts that are members of at least one of these lists. */
export function membersOf(lists: readonly ListedRules[]): Filter {
  const byHand = lists.filter(({ has_members }) => has_members).map(({ id }) => id);
  return any([...(byHand.length > 0 ? [{ kind: 'member' as const, lists: byHand }] : []), ...rulesOf(lists)]);
}

const rulesOf = (lists: readonly Pick<ListedRules, 'rules'>[]): Filter[] =>
  lists.flatMap(({ rules }) => (rules.length > 0 ? [rulesFilter(contactSource.fields, rules)] : []));
