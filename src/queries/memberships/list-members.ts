import type { LockedId, Transaction } from '../../database/db.ts';
import { missingReferences } from '../../errors.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import { contactSource, fromOf } from '../../filters/columns.ts';
import { lookUp } from '../../filters/look-up.ts';
import { filteredColumns, type FilteredRecord } from '../../filters/matches.ts';
import { constant } from '../../filters/sql.ts';
import type { Rule } from '../../schemas/lists.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { writeCopied } from './large-lists.ts';
import { compileRules, rulesOf, type LockedRules, type RuleList } from './list-rules.ts';
import { MemberChanges } from './member-changes.ts';

/*
 * Only a transaction that has locked the customer's rules (shared or exclusive) and the contact's row may change a
 * contact's memberships. All locks are taken in the order that value-locks.ts describes.
 */

/**
 * Updates the list memberships of contacts after a change: evaluates `rules` for these contacts, and saves the
 * differences.
 */
export async function refreshMembers(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  contactIds: readonly LockedId[],
  last: LastWrites,
): Promise<void> {
  // It needs statements of its own, because a statement does not see its own writes. The service evaluates the rules, not
  // the database: for one contact, the maximum number of rules takes about 1 ms, and the number of statements does not
  // depend on the number of lists.
  const changes = new MemberChanges(sql, customerId, last);
  const ids = rules.isEmpty ? [] : [...new Set(contactIds)];
  for (let i = 0; i < ids.length; i += contactsAtOnce) {
    const contacts = await readContacts(sql, customerId, ids.slice(i, i + contactsAtOnce));
    for await (const lists of rules.lists()) await compareMembers(contacts, lists, changes);
  }
  await changes.write();
}

/**
 * Updates the list memberships of one contact after a change: evaluates `rules` for this contact, and saves the
 * differences. Call it last in the transaction that wrote the contact.
 * @param contact the result row of the statement that wrote the contact. This statement must end with the SQL of
 *   `newContact` or `changedContact`
 */
export async function refreshMember(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  contact: RuleContact,
  last: LastWrites,
): Promise<void> {
  const changes = new MemberChanges(sql, customerId, last);
  for await (const lists of rules.lists()) await compareMembers([contact], lists, changes);
  await changes.writeWithCounts();
}

export interface RuleContact extends FilteredRecord {
  id: LockedId;
  /**
   * Ids of the lists that contain the contact because of their rules, as stored before the rules are evaluated again.
   */
  list_ids: readonly string[];
}

/**
 * SQL `select` that returns a contact which was just inserted, with all fields that the rules of a list can test. Put
 * it after `with contacts as (insert … returning *)`.
 */
export const newContact = (sql: Transaction, customerId: string) => sql`
  select ${constant(sql, filteredColumns(contactSource))}, '{}'::uuid[] as list_ids
  from ${fromOf(sql, contactSource, customerId)}`;

/**
 * SQL `select` that returns each updated contact: the fields that list rules can test, and the ids of the lists that
 * contain the contact because of their rules. Put this SQL after `with contacts as (update … returning *)`. Lock the
 * contacts in an earlier statement, so that all committed list memberships are visible.
 */
export const changedContact = (sql: Transaction, customerId: string) => sql`
  select
    ${constant(sql, filteredColumns(contactSource))},
    array(
      select m.list_id
      from list_members m
      where m.customer_id = ${customerId}::uuid
        and m.contact_id = c.id
        and m.by_rule
    ) as list_ids
  from ${fromOf(sql, contactSource, customerId)}`;

/** Number of contacts that one statement reads. The limit saves memory: one contact may take 40 KiB. */
const contactsAtOnce = 200;

const readContacts = (sql: Transaction, customerId: string, ids: readonly LockedId[]): Promise<RuleContact[]> =>
  sql<RuleContact[]>`
    ${changedContact(sql, customerId)}
    where c.customer_id = ${customerId}::uuid
      and c.id = any(${ids as LockedId[]}::uuid[])`;

/**
 * Evaluates the rules of lists for contacts. If the result for a contact and a list differs from the stored membership,
 * adds the difference to `changes`.
 */
async function compareMembers(
  contacts: readonly RuleContact[],
  lists: readonly RuleList[],
  changes: MemberChanges,
): Promise<void> {
  const stretch = new TimeSlice();
  for (const contact of contacts) {
    const current = new Set(contact.list_ids);
    for (const { id, matches } of lists) {
      const isMatch = matches(contact);
      if (isMatch !== current.has(id)) changes.add(id, contact.id, isMatch);
      if (stretch.isOver) await stretch.pause();
    }
    if (changes.areDue) await changes.write();
  }
}

/**
 * Evaluates the rules of one list for some contacts. Adds the matching contacts to the list, and removes the others,
 * except manually added members.
 */
export const refreshList = (
  sql: Transaction,
  customerId: string,
  list: { id: string; rules: readonly Rule[] },
  contactIds: readonly LockedId[],
  last: LastWrites,
): Promise<void> =>
  refreshMembers(sql, customerId, rulesOf([{ id: list.id, matches: compileRules(list.rules) }]), contactIds, last);

/**
 * Sets the lists to which contacts are added manually: adds each contact to its given lists, and removes it from
 * others. Contacts that match a list's rules stay members of the list. The lists exist: see `findLists`.
 * @param wanted a map from contact id to list ids (in lower case)
 */
export async function setManualLists(
  sql: Transaction,
  customerId: string,
  wanted: ReadonlyMap<LockedId, readonly string[]>,
  last: LastWrites,
): Promise<void> {
  const contacts = [...wanted.keys()];
  if (contacts.length === 0) return;
  const pairs = [...wanted].flatMap(([contact, lists]) => [...new Set(lists)].map((list) => ({ list, contact })));
  const [lists, members] = [pairs.map(({ list }) => list), pairs.map(({ contact }) => contact)];
  const isUnwanted = sql`
    customer_id = ${customerId}
    and contact_id = any(${contacts}::uuid[])
    and (list_id, contact_id) not in (select * from unnest(${lists}::uuid[], ${members}::uuid[]))`;
  await writeCopied(sql, customerId, contacts, last);
  const removed = await sql<{ list_id: string }[]>`
    delete from list_members
    where ${isUnwanted}
      and not by_rule
    returning list_id`;
  await sql`
    update list_members
    set by_hand = false
    where ${isUnwanted}
      and by_hand`;
  const added = await sql<{ list_id: string; is_new: boolean }[]>`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customerId}, given.list_id, given.contact_id, true, false
    from unnest(${lists}::uuid[], ${members}::uuid[]) as given (list_id, contact_id)
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    where not list_members.by_hand
    returning new.list_id, old.list_id is null as is_new`;
  for (const { list_id } of removed) last.count(list_id, -1);
  for (const { list_id, is_new } of added) last.count(list_id, is_new ? 1 : 0);
}

/**
 * Returns the lists to which contacts were added manually, as a map from contact id to list ids. First writes copied
 * memberships of these contacts that are not written yet.
 * @param last collects what the transaction writes last
 */
export async function findManualLists(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
  last: LastWrites,
): Promise<Map<string, string[]>> {
  if (contactIds.length === 0) return new Map();
  await writeCopied(sql, customerId, contactIds, last);
  const members = await sql<{ contact_id: string; list_ids: string[] }[]>`
    select m.contact_id, array_agg(m.list_id) as list_ids
    from list_members m
    ${lookUp(sql, sql`select l.deleted_at from lists l where l.customer_id = ${customerId} and l.id = m.list_id`, 'l')}
    where m.customer_id = ${customerId}
      and m.contact_id = any(${contactIds as LockedId[]}::uuid[])
      and m.by_hand
      and l.deleted_at is null
    group by m.contact_id`;
  return new Map(members.map(({ contact_id, list_ids }) => [contact_id, list_ids]));
}

/**
 * Returns those of the given ids (in lower case) that belong to lists of the customer. While the customer's rules are
 * locked, none of them is deleted.
 */
export async function findLists(sql: Transaction, customerId: string, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const found = await sql<{ id: string }[]>`
    select id
    from lists
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
      and deleted_at is null`;
  return new Set(found.map(({ id }) => id));
}

/**
 * Returns a request's `list_ids` without duplicates.
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
export async function requireLists(
  sql: Transaction,
  customerId: string,
  ids: readonly string[] = [],
): Promise<string[]> {
  const known = await findLists(sql, customerId, ids);
  const missing = ids.flatMap((id, i) => (known.has(id) ? [] : [{ noun: 'list', path: `/list_ids/${i}` }]));
  if (missing.length > 0) throw missingReferences(missing);
  return [...new Set(ids)];
}

/**
 * Deletes all list memberships of contacts. Call it before the contacts are deleted.
 * @param last collects what the transaction writes last
 */
export async function removeFromAllLists(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
  last: LastWrites,
): Promise<void> {
  const removed = await sql<{ list_id: string }[]>`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = any(${contactIds as LockedId[]}::uuid[])
    returning list_id`;
  for (const { list_id } of removed) last.count(list_id, -1);
}
