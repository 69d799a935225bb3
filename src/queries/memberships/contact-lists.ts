import type { Database, Queryable } from '../../database/db.ts';
import { contactSource, fromOf } from '../../filters/columns.ts';
import { liveLists } from '../../filters/live.ts';
import { rulesFilter } from '../../filters/rules.ts';
import { recorder, run } from '../../filters/sql-recorder.ts';
import { join } from '../../filters/sql.ts';
import { toSql } from '../../filters/to-sql.ts';
import type { Rule } from '../../schemas/lists.ts';

export interface ListOfContact {
  id: string;
  name: string;
  /** False if it is in the list only because of the list's rules. */
  by_hand: boolean;
}

interface FoundList {
  id: string;
  name: string;
  rule_count: number;
}

/**
 * Returns the lists that a contact is in, by name.
 * @param manual ids of the lists to which the contact was added by hand
 */
export const findListsOfContact = (
  db: Database,
  customerId: string,
  contactId: string,
  manual: readonly string[],
): Promise<ListOfContact[]> =>
  db.search(async (sql) => {
    const lists = await sql<FoundList[]>`
      select l.id, l.name, l.rule_count
      from ${liveLists(sql, customerId)}
        and (l.rule_count > 0 or l.id = any(${manual as string[]}::uuid[]))
      order by l.name, l.id`;
    const byHand = new Set(manual);
    const others = lists.filter(({ id }) => !byHand.has(id));
    const matching = new Set<string>();
    for (const group of groupsOf(others))
      for (const id of await findMatching(sql, customerId, contactId, group)) matching.add(id);
    return lists.flatMap(({ id, name }) =>
      byHand.has(id) || matching.has(id) ? [{ id, name, by_hand: byHand.has(id) }] : [],
    );
  });

/**
 * Number of rules from which on one statement evaluates no further list: many rules take long to plan, and those of all
 * lists can be hundreds of MiB.
 */
const rulesTogether = 500;

/** Divides lists into groups whose rules one statement can evaluate together. Returns the ids of the lists of each group. */
function groupsOf(lists: readonly FoundList[]): string[][] {
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

/** Returns the lists whose rules the contact matches. Evaluates all of them on its row. */
async function findMatching(
  sql: Queryable,
  customerId: string,
  contactId: string,
  ids: readonly string[],
): Promise<string[]> {
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
    select array_remove(array[${join(recorder, tests, ',', '')}], null) as lists
    from ${fromOf(recorder, contactSource, customerId)}
    where c.customer_id = ${customerId}::uuid
      and c.id = ${contactId}::uuid`,
  );
  return row?.lists ?? [];
}
