import type { Database, Queryable, Transaction } from '../../database/db.ts';
import { isStatementTimeout } from '../../database/lanes.ts';
import { contactSource } from '../../filters/columns.ts';
import { liveLists } from '../../filters/live.ts';
import { parseRecordQuery, type RecordQuery } from '../../filters/record-query.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import type { Rule } from '../../schemas/lists.ts';
import { countEach, countMatches, filtersAtOnce } from './record-pages.ts';
import { readTotals } from '../events/journal.ts';
import { findCustomersWith } from '../records/finders.ts';
import { enqueueTurn } from '../records/turns.ts';
import { listedRules, membersOf, type ListedRules } from '../memberships/list-filters.ts';

/** A list, and its number of members as it was counted last. */
export interface CountedList extends ListedRules {
  contacts_count: number;
  /** Null if the list was not counted since its rules changed. */
  counted_at: string | null;
  /** It was counted less than a minute ago. */
  is_fresh: boolean;
  /** The time of this read. */
  read_at: string;
}

/** SQL columns of a list `l` that `withCounts` needs, but for those of `listedRules`. */
export const countedColumns = (sql: FragmentMaker): Fragment => sql`
  l.contacts_count,
  l.counted_at,
  coalesce(l.counted_at > now() - interval '1 minute', false) as is_fresh,
  now()::timestamptz(3) as read_at`;

/** The members of lists are counted on each read for customers of up to this many contacts. */
const maxContacts = 20_000;

/** How long (ms) a read counts all members of lists for such a customer. */
const exactMs = 3_000;

/** How long (ms) a read counts otherwise. A worker counts the lists that are left. */
const readMs = 1_000;

const allContacts = (customerId: string): RecordQuery => parseRecordQuery(contactSource, customerId, {});

/** Returns the exact number of members of a list. */
export const countMembers = (sql: Queryable, customerId: string, list: ListedRules): Promise<number> =>
  countMatches(sql, { ...allContacts(customerId), filter: membersOf([list]) });

/** Returns the exact numbers of members of lists. It takes as long as to read all contacts if a list has rules. */
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
 * Returns lists with the numbers of their members, and the times of the counts. They are exact for a list without rules,
 * and for all lists of a customer with few contacts if that takes at most `exactMs`. Of other lists, counts those anew whose
 * number is old, as far as it comes within `readMs`. Workers count the rest.
 */
export async function withCounts<L extends CountedList>(db: Database, customerId: string, lists: L[]): Promise<L[]> {
  if (lists.length === 0) return lists;
  const { contacts } = await db.lookup((sql) => readTotals(sql, customerId));
  const all =
    contacts <= maxContacts
      ? await within(exactMs / Math.ceil(lists.length / filtersAtOnce), db, (sql) => countAll(sql, customerId, lists))
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

/** The list that was counted longest ago comes first. */
const byAge = (one: CountedList, other: CountedList): number =>
  Date.parse(one.counted_at ?? '1970-01-01') - Date.parse(other.counted_at ?? '1970-01-01');

type Count = Pick<CountedList, 'contacts_count' | 'counted_at'>;

const count = async (sql: Queryable, customerId: string, list: CountedList): Promise<Count> => ({
  contacts_count: await countMembers(sql, customerId, list),
  counted_at: list.read_at,
});

/**
 * Runs work that reads.
 * @param ms time after which a statement of it is given up
 * @returns undefined if it was given up
 */
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

/** Saves the counts of lists, and makes a worker count those that have none. */
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

/** Does nothing if the rules have changed meanwhile. */
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
 * Counts the members of a list that a read has left, if there is one. A list whose members take too long to count keeps
 * its number until the next read, so that others are counted. Waits while another worker counts for this customer.
 * @returns false if there is none
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

/** Finds customers with lists that a worker must count. */
export const findCustomersToCount = findCustomersWith(
  (sql) => sql`from lists where is_count_due and deleted_at is null`,
);
