import type { Sql, Transaction } from '../database/db.ts';
import { lowestId } from '../database/wire-types.ts';
import { exactContactSource } from '../filters/columns.ts';
import { rulesFilter } from '../filters/rules.ts';
import { constant, join } from '../filters/sql.ts';
import { toSql } from '../filters/to-sql.ts';
import { storedMembers } from './counters.ts';
import { memberOf, planForAnyCustomer, type UnsettledList } from './settled-reads.ts';

/** A list whose members are still being written to the database, contact by contact in the order of their ids. */
export interface FillingList extends UnsettledList {
  /** Id of the last contact whose membership is written. Null if none is written yet. */
  filled_to: string | null;
}

/**
 * Counts the members of a copied list while some of its members are not written yet. If the list has rules, evaluates
 * the rules for all contacts.
 */
async function countCopying(sql: Sql | Transaction, customerId: string, list: UnsettledList): Promise<number> {
  if (list.rules.length === 0) return countByHand(sql, customerId, list.id);
  const members = memberOf([list.id], { customerId, filling: [list], changing: [] });
  const [row] = await sql<{ members: number }[]>`
    select count(*) as members
    from ${constant(sql, exactContactSource.from)}
    where c.customer_id = ${customerId}
      and ${toSql(sql, exactContactSource, customerId, members)}`;
  return row!.members;
}

/**
 * Counts the manually added members of a list. Includes copied members that are not written yet (rows of
 * `copied_members`).
 */
async function countByHand(sql: Sql | Transaction, customerId: string, listId: string): Promise<number> {
  const [row] = await sql<{ members: number }[]>`
    select
      (
        select count(*)
        from list_members
        where customer_id = ${customerId}
          and list_id = ${listId}
          and by_hand
      ) + (
        select count(*)
        from contacts c
        where c.customer_id = ${customerId}
          and c.id in (
            select unnest(p.contact_ids)
            from copied_members p
            where p.customer_id = ${customerId}
              and p.list_id = ${listId}
          )
      ) as members`;
  return row!.members;
}

/**
 * Number of rules at which a group of lists is full, so that no further list is added to the group. One SQL statement
 * counts the members of one group. A statement can have at most 65,535 parameters, and many rules take long to plan.
 */
const rulesTogether = 500;

/**
 * Counts the members of lists whose members are still being written to the database. Evaluates the lists' rules for
 * contacts that are not processed yet. Call it in a transaction.
 * @returns a map from list id to number of members
 */
export async function countFilling(
  sql: Sql | Transaction,
  customerId: string,
  lists: readonly FillingList[],
): Promise<Map<string, number>> {
  const [copying, others] = [lists.filter((list) => list.is_copying), lists.filter((list) => !list.is_copying)];
  const counts = await countByChunk(sql, others, (some) => countSomeFilling(sql, customerId, some));
  if (copying.length > 0) await planForAnyCustomer(sql);
  for (const list of copying) counts.set(list.id, await countCopying(sql, customerId, list));
  return counts;
}

/**
 * Counts the members of some lists in one statement. Uses the stored counts, and evaluates the lists' rules for
 * contacts that are not processed yet.
 */
function countSomeFilling(sql: Sql | Transaction, customerId: string, lists: readonly FillingList[]) {
  const ids = lists.map(({ id }) => id);
  const filledTo = lists.map(({ filled_to }) => filled_to ?? lowestId);
  const isNewMember = lists.map(({ rules }, i) => {
    const filter = rulesFilter(exactContactSource.fields, rules);
    return sql`c.id > ${filledTo[i]!}::uuid and ${toSql(sql, exactContactSource, customerId, filter)}`;
  });
  const counted = isNewMember.map((condition) => sql`count(*) filter (where ${condition})`);
  const cases = isNewMember.map((condition, i) => sql`when ${ids[i]!}::uuid then ${condition}`);
  return sql<{ id: string; members: number }[]>`
    with matching as materialized (
      select array[${join(sql, counted, ',', '')}] as contacts
      from ${constant(sql, exactContactSource.from)}
      where c.customer_id = ${customerId}
        and c.id > ${filledTo.toSorted()[0]!}::uuid
    ),
    matching_by_hand as materialized (
      select m.list_id, count(*) as contacts
      from ${constant(sql, exactContactSource.from)}
      join list_members m on m.customer_id = c.customer_id and m.contact_id = c.id
      where m.customer_id = ${customerId}
        and m.list_id = any(${ids}::uuid[])
        and m.by_hand
        and case m.list_id ${cases} end
      group by m.list_id
    )
    select
      l.id,
      ${storedMembers(sql, customerId)} - (
        select count(*)
        from list_members m
        where m.customer_id = ${customerId}
          and m.list_id = l.id
          and m.contact_id > l.filled_to
          and not m.by_hand
      ) + l.matching - coalesce(h.contacts, 0) as members
    from unnest(${ids}::uuid[], ${filledTo}::uuid[], (select contacts from matching)) as l (id, filled_to, matching)
    left join matching_by_hand h on h.list_id = l.id`;
}

/**
 * Counts the members of lists while some contacts wait for an update after a change of their company. Uses the stored
 * counts, and evaluates the lists' rules only for these contacts. Call it in a transaction.
 * @returns a map from list id to number of members
 */
export const countChanging = (
  sql: Sql | Transaction,
  customerId: string,
  lists: readonly ListWithRules[],
): Promise<Map<string, number>> => countByChunk(sql, lists, (some) => countSome(sql, customerId, some));

/**
 * Counts the members of lists. Splits the lists into groups and runs one statement for each group. Returns a map from
 * list id to number of members.
 */
async function countByChunk<L extends ListWithRules>(
  sql: Sql | Transaction,
  lists: readonly L[],
  count: (chunk: readonly L[]) => Promise<readonly { id: string; members: number }[]>,
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  if (lists.length > 0) await planForAnyCustomer(sql);
  for (const chunk of chunks(lists)) for (const { id, members } of await count(chunk)) counts.set(id, members);
  return counts;
}

type ListWithRules = Pick<UnsettledList, 'id' | 'rules'>;

/**
 * Splits lists into groups, one for each SQL statement. A group is full when its lists have `rulesTogether` rules or
 * more.
 */
function chunks<L extends ListWithRules>(lists: readonly L[]): L[][] {
  const all: L[][] = [];
  let rules = rulesTogether;
  for (const list of lists) {
    if (rules >= rulesTogether) {
      all.push([]);
      rules = 0;
    }
    all.at(-1)!.push(list);
    rules += list.rules.length;
  }
  return all;
}

/**
 * Counts the members of some lists in one statement. Uses the stored counts, and evaluates the lists' rules for
 * contacts that wait for an update after a change of their company.
 */
function countSome(sql: Sql | Transaction, customerId: string, lists: readonly ListWithRules[]) {
  const ids = lists.map(({ id }) => id);
  const matching = lists.map(({ id, rules }) => {
    const filter = rulesFilter(exactContactSource.fields, rules);
    return sql`case when ${toSql(sql, exactContactSource, customerId, filter)} then ${id}::uuid end`;
  });
  return sql<{ id: string; members: number }[]>`
    with settling as materialized (
      select c.id, array_remove(array[${join(sql, matching, ',', '')}], null) as lists
      from ${constant(sql, exactContactSource.from)}
      where c.customer_id = ${customerId}
        and ${toSql(sql, exactContactSource, customerId, { kind: 'settling', customerId })}
    ),
    differences as (
      select changed.list_id, sum(changed.by) as members
      from settling s
      cross join lateral (
        -- The aggregate makes the planner look up the members contact by contact. A join could read all members of the lists.
        select
          coalesce(array_agg(m.list_id), '{}') as lists,
          coalesce(array_agg(m.list_id) filter (where not m.by_hand), '{}') as lists_by_rule
        from list_members m
        where m.customer_id = ${customerId}
          and m.contact_id = s.id
          and m.list_id = any(${ids}::uuid[])
      ) kept
      cross join lateral (
        select list_id, 1 as by from unnest(s.lists) list_id where list_id <> all(kept.lists)
        union all
        select list_id, -1 from unnest(kept.lists_by_rule) list_id where list_id <> all(s.lists)
      ) changed
      group by changed.list_id
    )
    select
      l.id,
      coalesce(d.members, 0) + ${storedMembers(sql, customerId)} as members
    from unnest(${ids}::uuid[]) as l (id)
    left join differences d on d.list_id = l.id`;
}
