import type { Sql, Transaction } from '../db.ts';
import { exactContactSource } from '../filters/columns.ts';
import { rulesFilter } from '../filters/rules.ts';
import { constant, join } from '../filters/sql.ts';
import { toSql } from '../filters/to-sql.ts';
import { memberOf, planForAnyCustomer, type UnsettledList } from './list-filters.ts';

/** How many members a list has whose rules are not written down: all of the customer's contacts are looked through. */
export async function countFilling(sql: Sql | Transaction, customerId: string, list: UnsettledList): Promise<number> {
  const members = memberOf([list.id], { customerId, filling: [list], changing: [] });
  const [row] = await sql<{ members: number }[]>`
    select count(*) as members
    from ${constant(sql, exactContactSource.from)}
    where c.customer_id = ${customerId}
      and ${toSql(sql, exactContactSource, members)}`;
  return row!.members;
}

/** Rules that one statement evaluates, at least: it may have 65,535 parameters, and takes long to plan. */
const rulesTogether = 500;

/**
 * How many members lists have whose memberships by rule are not to be believed for contacts that are settling: the kept
 * count, and what it differs by for these contacts. No others are looked at. Call it in a transaction.
 * @returns counts by list
 */
export async function countChanging(
  sql: Sql | Transaction,
  customerId: string,
  lists: readonly UnsettledList[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  if (lists.length > 0) await planForAnyCustomer(sql);
  for (const some of chunks(lists))
    for (const { id, members } of await countSome(sql, customerId, some)) counts.set(id, members);
  return counts;
}

function chunks(lists: readonly UnsettledList[]): UnsettledList[][] {
  const all: UnsettledList[][] = [];
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

function countSome(sql: Sql | Transaction, customerId: string, lists: readonly UnsettledList[]) {
  const ids = lists.map(({ id }) => id);
  const matching = lists.map(({ id, rules }) => {
    const filter = rulesFilter(exactContactSource.fields, rules);
    return sql`case when ${toSql(sql, exactContactSource, filter)} then ${id}::uuid end`;
  });
  return sql<{ id: string; members: number }[]>`
    with settling as materialized (
      select c.id, array_remove(array[${join(sql, matching, ',', '')}], null) as lists
      from ${constant(sql, exactContactSource.from)}
      where c.customer_id = ${customerId}
        and ${toSql(sql, exactContactSource, { kind: 'settling', customerId })}
    ),
    differences as (
      select changed.list_id, sum(changed.by) as members
      from settling s
      cross join lateral (
        -- Aggregated, the members are looked up contact by contact. Joined, all members of the lists could be read.
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
      coalesce(d.members, 0) + (
        select coalesce(sum(k.records), 0)
        from counters k
        where k.customer_id = ${customerId}
          and k.counted = l.id::text
      ) as members
    from unnest(${ids}::uuid[]) as l (id)
    left join differences d on d.list_id = l.id`;
}
