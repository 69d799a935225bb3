import type { LockedId, Transaction } from '../../database/db.ts';
import { missingReferences } from '../../errors.ts';
import type { Rule } from '../../schemas/lists.ts';
import { withLastWrites, type LastWrites } from '../records/last-writes.ts';
import { writeCopied } from './large-lists.ts';
import { lockContacts } from '../records/contact-locks.ts';
import { refreshList } from './list-members.ts';
import { lockRulesShared } from './list-rules.ts';
import { isStale, listState, type ListState } from './stale-lists.ts';

interface ManualMembers {
  list_id: string;
  contact_ids: readonly string[];
}

/**
 * Adds contacts to a list manually. They stay members even if they do not match the list's rules.
 * @returns `added`: number of contacts that became members; `already_members`: number of contacts that were members
 *   before
 * @throws DomainError `not_found` with the JSON pointer of every unknown id; nothing is written in this case
 */
export const addMembers = (
  sql: Transaction,
  customerId: string,
  body: ManualMembers,
): Promise<{ added: number; already_members: number }> =>
  withLastWrites(sql, customerId, async (last) => {
    const contactIds = await lockListAndContacts(sql, customerId, body, last);
    const added = await addToLists(sql, customerId, { list_ids: [body.list_id], contact_ids: contactIds }, last);
    return { added, already_members: contactIds.length - added };
  });

/**
 * Adds contacts to lists manually, in one statement. Ignores lists that do not exist. The customer's rules are locked.
 * @param last collects what the transaction writes last
 * @returns the number of new members of all lists
 */
export async function addToLists(
  sql: Transaction,
  customerId: string,
  { list_ids, contact_ids }: { list_ids: readonly string[]; contact_ids: readonly LockedId[] },
  last: LastWrites,
): Promise<number> {
  await writeCopied(sql, customerId, contact_ids, last);
  // From the tables rather than from the arrays: Citus then sends one statement to the worker of the customer.
  const lists = await sql<{ list_id: string; added: number }[]>`
    with written as (
      insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
      select c.customer_id, l.id, c.id, true, false
      from lists l
      join contacts c on c.customer_id = l.customer_id
      where l.customer_id = ${customerId}
        and l.id = any(${list_ids as string[]}::uuid[])
        and l.deleted_at is null
        and c.customer_id = ${customerId}
        and c.id = any(${contact_ids as LockedId[]}::uuid[])
      on conflict (customer_id, list_id, contact_id) do update
      set by_hand = true
      where not list_members.by_hand
      returning new.list_id, old.list_id is null as is_new
    )
    select list_id, count(*) as added
    from written
    where is_new
    group by list_id`;
  for (const { list_id, added } of lists) last.count(list_id, added);
  return lists.reduce((sum, { added }) => sum + added, 0);
}

/**
 * Removes manually added contacts from a list. Contacts that match the list's rules stay members because of the rules.
 * @returns `removed`: number of contacts that had been added manually
 * @throws DomainError `not_found` with the JSON pointer of every unknown id; nothing is written in this case
 */
export const removeMembers = (
  sql: Transaction,
  customerId: string,
  body: ManualMembers,
): Promise<{ removed: number }> =>
  withLastWrites(sql, customerId, async (last) => {
    const contactIds = await lockListAndContacts(sql, customerId, body, last);
    const kept = await sql`
    update list_members
    set by_hand = false
    where customer_id = ${customerId}
      and list_id = ${body.list_id}
      and contact_id = any(${contactIds}::uuid[])
      and by_hand
      and by_rule`;
    const removed = await sql`
    delete from list_members
    where customer_id = ${customerId}
      and list_id = ${body.list_id}
      and contact_id = any(${contactIds}::uuid[])
      and not by_rule`;
    last.count(body.list_id, -removed.count);
    return { removed: kept.count + removed.count };
  });

/**
 * Locks a list and the contacts that will be added to it or removed from it. The stored list memberships of these
 * contacts may be out of date; then they are written first.
 * @returns the contacts' ids, without duplicates
 * @throws DomainError `not_found` with the JSON pointer of every unknown id
 */
async function lockListAndContacts(
  sql: Transaction,
  customerId: string,
  { list_id, contact_ids }: ManualMembers,
  last: LastWrites,
): Promise<LockedId[]> {
  await lockRulesShared(sql, customerId);
  const [list] = await sql<(ListState & { rules: Rule[] })[]>`
    select l.rules, ${listState(sql, customerId)}
    from lists l
    where l.customer_id = ${customerId}
      and l.id = ${list_id}
      and l.deleted_at is null`;
  const found = await lockContacts(sql, customerId, [...new Set(contact_ids)]);
  const missing = [...(list ? [] : [{ noun: 'list', path: '/list_id' }]), ...missingOf(contact_ids, found)];
  if (!list || missing.length > 0) throw missingReferences(missing);
  if (isStale(list)) {
    await writeCopied(sql, customerId, found, last);
    await refreshList(sql, customerId, { id: list_id, rules: list.rules }, found, last);
  }
  return found;
}

function missingOf(given: readonly string[], found: readonly string[]): { noun: string; path: string }[] {
  const known = new Set(found);
  return given.flatMap((id, i) => (known.has(id) ? [] : [{ noun: 'contact', path: `/contact_ids/${i}` }]));
}
