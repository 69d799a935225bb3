import type { Transaction } from '../db.ts';
import { notFound } from '../errors.ts';
import { Stretch } from '../event-loop.ts';
import { exactContactSource } from '../filters/columns.ts';
import { filteredColumns, type FilteredRecord } from '../filters/matches.ts';
import type { Rule } from '../schemas/lists.ts';
import { CountChanges } from './counters.ts';
import { writeCopied } from './large-lists.ts';
import { MemberChanges } from './member-changes.ts';
import { compileRules, rulesOf, type HeldRules, type RuleList } from './rules.ts';

/*
 * A contact's memberships are changed only by a transaction that holds the customer's rules (or has locked them) and the
 * contact's row, at least `for no key update`. Rows are locked in this order: company, contacts by id, counters.
 */

/**
 * Makes the memberships of contacts that were written agree with the rules, and writes the gathered counts. The contacts
 * are locked. It sends statements after the one that wrote them, since a statement does not see what it writes itself; and
 * has to be the last of its transaction, since it touches the counters that every writer touches.
 *
 * The rules are evaluated here, not by the database: all rules that a customer may have cost a contact a millisecond, in
 * any number of lists, with the same few statements.
 */
export async function refreshMembers(
  sql: Transaction,
  customerId: string,
  rules: HeldRules,
  contactIds: readonly string[],
  counts: CountChanges,
): Promise<void> {
  const changes = new MemberChanges(sql, customerId, counts);
  const ids = rules.isEmpty ? [] : [...new Set(contactIds)];
  for (let i = 0; i < ids.length; i += contactsAtOnce) {
    const contacts = await readContacts(sql, customerId, ids.slice(i, i + contactsAtOnce));
    for await (const lists of rules.lists()) await compareMembers(contacts, lists, changes);
  }
  await changes.finish();
}

/**
 * Makes the memberships of one contact agree with the rules and writes the counts, as `refreshMembers` does. It saves the
 * statement that reads the contact.
 * @param contact as the statement that wrote it selects it: by `newContact` or `changedContact`
 */
export async function refreshMember(
  sql: Transaction,
  customerId: string,
  rules: HeldRules,
  contact: RuleContact,
  counts: CountChanges,
): Promise<void> {
  const changes = new MemberChanges(sql, customerId, counts);
  for await (const lists of rules.lists()) await compareMembers([contact], lists, changes);
  await changes.finish();
}

/** A contact as rules are evaluated for it. */
export interface RuleContact extends FilteredRecord {
  id: string;
  /** Lists that it is in by their rules, before the evaluation. */
  list_ids: readonly string[];
}

/** Selects the `RuleContact` that a statement inserts, given `with contacts as (insert … returning *)`. */
export const newContact = `
  select ${filteredColumns(exactContactSource)}, '{}'::uuid[] as list_ids
  from ${exactContactSource.from}`;

/**
 * Selects the `RuleContact` that a statement changes, given `with contacts as (update … returning *)`. The contact has to
 * be locked by a statement before, so that this one sees the memberships that other transactions wrote.
 */
export const changedContact = `
  select
    ${filteredColumns(exactContactSource)},
    array(
      select m.list_id
      from list_members m
      where m.customer_id = c.customer_id
        and m.contact_id = c.id
        and m.by_rule
    ) as list_ids
  from ${exactContactSource.from}`;

/** Contacts that are read at a time. One may take 40 KiB. */
const contactsAtOnce = 200;

/** $1 customer, $2 ids of contacts. Always the same text, which costs less than fragments that are put together. */
const selectContacts = `
  ${changedContact}
  where c.customer_id = $1::uuid
    and c.id = any($2::uuid[])`;

const readContacts = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<RuleContact[]> =>
  sql.unsafe<RuleContact[]>(selectContacts, [customerId, ids as string[]], { prepare: true });

/** Gathers what has to change for the contacts to be in those lists that they match. */
async function compareMembers(
  contacts: readonly RuleContact[],
  lists: readonly RuleList[],
  changes: MemberChanges,
): Promise<void> {
  const stretch = new Stretch();
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

/** Makes the memberships of contacts in one list agree with its rules. The contacts are locked. */
export const refreshList = (
  sql: Transaction,
  customerId: string,
  list: { id: string; rules: readonly Rule[] },
  contactIds: readonly string[],
): Promise<void> =>
  refreshMembers(
    sql,
    customerId,
    rulesOf([{ id: list.id, matches: compileRules(list.rules) }]),
    contactIds,
    new CountChanges(),
  );

/** Makes the memberships of a company's contacts agree with the rules, after it was changed in the same transaction. */
export async function refreshMembersOfCompany(
  sql: Transaction,
  customerId: string,
  rules: HeldRules,
  companyId: string,
): Promise<void> {
  if (rules.isEmpty) return;
  const contactIds = await lockContactsOfCompany(sql, customerId, companyId);
  await refreshMembers(sql, customerId, rules, contactIds, new CountChanges());
}

/** Locks a company's contacts in the order that everybody keeps. */
export async function lockContactsOfCompany(
  sql: Transaction,
  customerId: string,
  companyId: string,
): Promise<string[]> {
  const contacts = await sql<{ id: string }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and company_id = ${companyId}
    order by id
    for no key update`;
  return contacts.map(({ id }) => id);
}

/**
 * Makes `listIds` the contact's whole set of hand-made memberships. Memberships by rule stay.
 * @throws not_found with the pointer of every id in `list_ids` that is no list of the customer; nothing is written then
 */
export async function setHandMadeLists(
  sql: Transaction,
  customerId: string,
  contactId: string,
  listIds: string[],
  counts: CountChanges,
): Promise<void> {
  const wanted = [...new Set(listIds.map((id) => id.toLowerCase()))];
  await requireLists(sql, customerId, wanted, listIds);
  await writeCopied(sql, customerId, [contactId], counts);
  const gone = await sql<{ list_id: string }[]>`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = ${contactId}
      and not by_rule
      and list_id <> all(${wanted}::uuid[])
    returning list_id`;
  await sql`
    update list_members
    set by_hand = false
    where customer_id = ${customerId}
      and contact_id = ${contactId}
      and by_hand
      and list_id <> all(${wanted}::uuid[])`;
  const come = await sql<{ list_id: string; is_new: boolean }[]>`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customerId}, list_id, ${contactId}, true, false
    from unnest(${wanted}::uuid[]) as list_id
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    where not list_members.by_hand
    returning new.list_id, old.list_id is null as is_new`;
  for (const { list_id } of gone) counts.add(list_id, -1);
  for (const { list_id, is_new } of come) counts.add(list_id, is_new ? 1 : 0);
}

/** Lists are deleted only while nobody holds the rules, so those found here stay until the transaction ends. */
async function requireLists(sql: Transaction, customerId: string, wanted: string[], given: string[]): Promise<void> {
  const found = await sql<{ id: string }[]>`
    select id
    from lists
    where customer_id = ${customerId}
      and id = any(${wanted}::uuid[])
      and deleted_at is null`;
  if (found.length === wanted.length) return;
  const known = new Set(found.map(({ id }) => id));
  const missing = given.flatMap((id, index) => (known.has(id.toLowerCase()) ? [] : [`/list_ids/${index}`]));
  throw notFound('list', missing);
}

/** Takes a contact that is about to be deleted out of all its lists. */
export async function leaveAllLists(
  sql: Transaction,
  customerId: string,
  contactId: string,
  counts: CountChanges,
): Promise<void> {
  const gone = await sql<{ list_id: string }[]>`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = ${contactId}
    returning list_id`;
  for (const { list_id } of gone) counts.add(list_id, -1);
}

/** Locks contacts in the order that everybody keeps; answers those that there are. */
export async function lockContacts(sql: Transaction, customerId: string, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const contacts = await sql<{ id: string }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
    order by id
    for no key update`;
  return contacts.map(({ id }) => id);
}
