import type { Database } from '../../database/db.ts';
import { contactSource, fromOf } from '../../filters/columns.ts';
import { filteredColumns, type FilteredRecord } from '../../filters/matches.ts';
import { constant } from '../../filters/sql.ts';
import type { Rule } from '../../schemas/lists.ts';
import { compileRules } from './list-rules.ts';
import { isStale, listState, snapshot, type ListState } from './stale-lists.ts';

export interface ListOfContact {
  id: string;
  name: string;
  /** False if it is in the list only because of the list's rules. */
  by_hand: boolean;
}

/**
 * Returns the lists that a contact is in, by name. The rules of stale lists are evaluated for this contact.
 * @param manual ids of the lists to which the contact was added by hand
 */
export const findListsOfContact = (
  db: Database,
  customerId: string,
  contactId: string,
  manual: readonly string[],
): Promise<ListOfContact[]> =>
  snapshot(db, async (sql) => {
    const rows = await sql<(ListState & { id: string; name: string; rules: Rule[] | null; by_rule: boolean })[]>`
      select id, name, stale, is_copying, case when stale is not null then rules end as rules, by_rule
      from (
        select l.id, l.name, l.rules, coalesce(m.by_rule, false) as by_rule, ${listState(sql, customerId)}
        from lists l
        left join list_members m
          on m.customer_id = l.customer_id
          and m.list_id = l.id
          and m.contact_id = ${contactId}
        where l.customer_id = ${customerId}
          and l.deleted_at is null
      ) list
      where by_rule or stale is not null or id = any(${manual as string[]}::uuid[])
      order by name, id`;
    const [contact] = rows.some(isStale)
      ? await sql<FilteredRecord[]>`
          select ${constant(sql, filteredColumns(contactSource))}
          from ${fromOf(sql, contactSource, customerId)}
          where c.customer_id = ${customerId}
            and c.id = ${contactId}`
      : [];
    const isMember = (row: (typeof rows)[number]): boolean =>
      isStale(row) ? contact !== undefined && compileRules(row.rules!)(contact) : row.by_rule;
    return rows
      .map((row) => ({ id: row.id, name: row.name, by_hand: manual.includes(row.id), isMember: isMember(row) }))
      .filter(({ by_hand, isMember }) => by_hand || isMember)
      .map(({ id, name, by_hand }) => ({ id, name, by_hand }));
  });
