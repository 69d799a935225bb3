import type { Transaction } from '../database/db.ts';
import { missingReferences } from '../errors.ts';
import type { Rule } from '../schemas/lists.ts';
import { usesCompanyFields, noneSettling } from './company-settlements.ts';
import { CountChanges, saveCounts } from './counters.ts';
import { writeCopied } from './large-lists.ts';
import { lockContacts } from './contact-locks.ts';
import { refreshList } from './list-members.ts';
import { lockRulesShared } from './list-rules.ts';

/** A request body that adds contacts to a list manually, or removes them. */
export interface ManualMembers {
  list_id: string;
  contact_ids: readonly string[];
}

/**
 * Adds contacts to a list manually. They stay members even if they do not match the list's rules.
 * @returns `added`: number of contacts that became members; `already_members`: number of contacts that were members
 *   before
 * @throws DomainError `not_found` with the JSON pointer of every unknown id; nothing is written in this case
 */
export async function addMembers(
  sql: Transaction,
  customerId: string,
  given: ManualMembers,
): Promise<{ added: number; already_members: number }> {
  const counts = new CountChanges();
  const contactIds = await lockListAndContacts(sql, customerId, given, counts);
  // From the table rather than from the array: Citus then sends one statement to the worker of the customer.
  const written = await sql<{ is_new: boolean }[]>`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select c.customer_id, ${given.list_id}, c.id, true, false
    from contacts c
    where c.customer_id = ${customerId}
      and c.id = any(${contactIds}::uuid[])
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    where not list_members.by_hand
    returning old.list_id is null as is_new`;
  const added = written.filter(({ is_new }) => is_new).length;
  await saveCounts(sql, customerId, counts.add(given.list_id, added));
  return { added, already_members: contactIds.length - added };
}

/**
 * Removes manually added contacts from a list. Contacts that match the list's rules stay members because of the rules.
 * @returns `removed`: number of contacts that had been added manually
 * @throws DomainError `not_found` with the JSON pointer of every unknown id; nothing is written in this case
 */
export async function removeMembers(
  sql: Transaction,
  customerId: string,
  given: ManualMembers,
): Promise<{ removed: number }> {
  const counts = new CountChanges();
  const contactIds = await lockListAndContacts(sql, customerId, given, counts);
  const kept = await sql`
    update list_members
    set by_hand = false
    where customer_id = ${customerId}
      and list_id = ${given.list_id}
      and contact_id = any(${contactIds}::uuid[])
      and by_hand
      and by_rule`;
  const removed = await sql`
    delete from list_members
    where customer_id = ${customerId}
      and list_id = ${given.list_id}
      and contact_id = any(${contactIds}::uuid[])
      and not by_rule`;
  await saveCounts(sql, customerId, counts.add(given.list_id, -removed.count));
  return { removed: kept.count + removed.count };
}

/**
 * Locks a list and the contacts that will be added to it or removed from it. The stored list
 * memberships of these contacts may be out of date; then they are written first.
 * @returns the contacts' ids in lower case, without duplicates
 * @throws DomainError `not_found` with the JSON pointer of every unknown id
 */
async function lockListAndContacts(
  sql: Transaction,
  customerId: string,
  { list_id, contact_ids }: ManualMembers,
  counts: CountChanges,
): Promise<string[]> {
  await lockRulesShared(sql, customerId);
  const [list] = await sql<{ rules: Rule[]; is_unsettled: boolean }[]>`
    select
      rules,
      fill_version is not null or (${usesCompanyFields(sql)} and not (${noneSettling(sql, customerId)})) as is_unsettled
    from lists
    where customer_id = ${customerId}
      and id = ${list_id}
      and deleted_at is null`;
  const wanted = [...new Set(contact_ids)];
  const found = await lockContacts(sql, customerId, wanted);
  const missing = [...(list ? [] : [{ noun: 'list', path: '/list_id' }]), ...missingOf(contact_ids, found)];
  if (!list || missing.length > 0) throw missingReferences(missing);
  if (list.is_unsettled) {
    await writeCopied(sql, customerId, wanted, counts);
    await refreshList(sql, customerId, { id: list_id, rules: list.rules }, wanted);
  }
  return wanted;
}

/** Returns a JSON pointer, for the error `not_found`, to each id in `given` that is not in `found`. */
function missingOf(given: readonly string[], found: readonly string[]): { noun: string; path: string }[] {
  const known = new Set(found);
  return given.flatMap((id, i) => (known.has(id) ? [] : [{ noun: 'contact', path: `/contact_ids/${i}` }]));
}
