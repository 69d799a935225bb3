import type { Queryable } from '../../database/db.ts';
import { contactSource, fromOf } from '../../filters/columns.ts';
import { rulesFilter } from '../../filters/rules.ts';
import { join } from '../../filters/sql.ts';
import { toSql } from '../../filters/to-sql.ts';
import { storedMembers } from '../records/counters.ts';
import { memberOf, planForAnyCustomer, type StaleList } from './stale-lists.ts';

/**
 * Number of rules at which a group of lists is full, so that no further list is added to the group. One SQL statement
 * counts the members of one group. A statement can have at most 65,535 parameters, and many rules take long to plan.
 */
const rulesTogether = 500;

/**
 * Counts the members of stale lists. Evaluates the lists' rules for the contacts whose stored memberships may be wrong,
 * and counts the contacts of a copied list that are not written yet.
 * Call it in a transaction.
 * @returns a map from list id to number of members
 */
export async function countStale(
  sql: Queryable,
  customerId: string,
  lists: readonly StaleList[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  if (lists.length > 0) await planForAnyCustomer(sql);
  const [copying, others] = [lists.filter((list) => list.is_copying), lists.filter((list) => !list.is_copying)];
  for (const [stale, count] of [
    ['all', countByRules],
    ['companies', countWithChangedCompanies],
  ] as const)
    for (const group of groups(others.filter((list) => list.stale === stale)))
      for (const { id, members } of await count(sql, customerId, group)) counts.set(id, members);
  for (const list of copying) counts.set(list.id, await countCopying(sql, customerId, list));
  return counts;
}

interface Count {
  id: string;
  members: number;
}

function groups(lists: readonly StaleList[]): StaleList[][] {
  const all: StaleList[][] = [];
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

function countByRules(sql: Queryable, customerId: string, lists: readonly StaleList[]) {
  const matches = lists.map(({ rules }) =>
    toSql(sql, contactSource, customerId, rulesFilter(contactSource.fields, rules)),
  );
  const counted = matches.map((condition) => sql`count(*) filter (where ${condition})`);
  const cases = matches.map((condition, i) => sql`when ${lists[i]!.id}::uuid then ${condition}`);
  return sql<Count[]>`
    with matching as materialized (
      select array[${join(sql, counted, ',', '')}] as contacts
      from ${fromOf(sql, contactSource, customerId)}
      where c.customer_id = ${customerId}
    ),
    others as materialized (
      select m.list_id, count(*) as contacts
      from ${fromOf(sql, contactSource, customerId)}
      join list_members m on m.customer_id = c.customer_id and m.contact_id = c.id
      where m.customer_id = ${customerId}
        and m.list_id = any(${lists.map(({ id }) => id)}::uuid[])
        and m.by_hand
        and (case m.list_id ${cases} end) is not true
      group by m.list_id
    )
    select l.id, l.matching + coalesce(o.contacts, 0) as members
    from unnest(${lists.map(({ id }) => id)}::uuid[], (select contacts from matching)) as l (id, matching)
    left join others o on o.list_id = l.id`;
}

/**
 * Counts the members of some lists in one statement: takes the stored numbers, and evaluates the rules only for the
 * contacts of companies that have changed.
 */
function countWithChangedCompanies(sql: Queryable, customerId: string, lists: readonly StaleList[]) {
  const ids = lists.map(({ id }) => id);
  const matching = lists.map(({ id, rules }) => {
    const isMatch = toSql(sql, contactSource, customerId, rulesFilter(contactSource.fields, rules));
    return sql`case when ${isMatch} then ${id}::uuid end`;
  });
  // The aggregate makes the planner look up the members contact by contact: a join could read all members of the lists.
  return sql<Count[]>`
    with concerned as materialized (
      select c.id, array_remove(array[${join(sql, matching, ',', '')}], null) as lists
      from ${fromOf(sql, contactSource, customerId)}
      where c.customer_id = ${customerId}
        and ${toSql(sql, contactSource, customerId, { kind: 'settling', customerId })}
    ),
    differences as (
      select changed.list_id, sum(changed.by) as members
      from concerned
      cross join lateral (
        select
          coalesce(array_agg(m.list_id), '{}') as lists,
          coalesce(array_agg(m.list_id) filter (where not m.by_hand), '{}') as lists_by_rule
        from list_members m
        where m.customer_id = ${customerId}
          and m.contact_id = concerned.id
          and m.list_id = any(${ids}::uuid[])
      ) kept
      cross join lateral (
        select list_id, 1 as by from unnest(concerned.lists) list_id where list_id <> all(kept.lists)
        union all
        select list_id, -1 from unnest(kept.lists_by_rule) list_id where list_id <> all(concerned.lists)
      ) changed
      group by changed.list_id
    )
    select l.id, coalesce(d.members, 0) + ${storedMembers(sql, customerId)} as members
    from unnest(${ids}::uuid[]) as l (id)
    left join differences d on d.list_id = l.id`;
}

async function countCopying(sql: Queryable, customerId: string, list: StaleList): Promise<number> {
  const [row] = await sql<{ members: number }[]>`
    select count(*) as members
    from ${fromOf(sql, contactSource, customerId)}
    where c.customer_id = ${customerId}
      and ${toSql(sql, contactSource, customerId, memberOf([list.id], { customerId, lists: [list] }))}`;
  return row!.members;
}
