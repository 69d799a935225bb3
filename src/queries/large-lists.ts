import type { Transaction } from '../db.ts';
import { CountChanges, dropCount, saveCounts } from './counters.ts';

/*
 * A list with many members is deleted or copied in one short transaction. A worker removes or writes the members
 * afterwards, batch by batch, as part of the fill of the list (list-fills.ts). What is read meanwhile is exact:
 * - A deleted list has no rules, and no statement shows it. Its members are not counted as members of any list.
 * - The contacts of a copy wait in `copied_members`, and count as its members by hand.
 *
 * Whoever changes hand-made memberships of a contact calls `writeCopied` first: then the memberships of this contact are in
 * `list_members` as usual. A contact that is deleted stays in `copied_members`: all that reads them joins the contacts. Rows are locked in this order: contacts by id, `copied_members`, counters.
 */

/** More members than this make a list large: some 40 ms of work. */
const mostAtOnce = 2_000;

/** Contacts in a part of a copy: so few that a row is kept whole, and a contact is found in it fast. */
const partSize = 100;

/** Whether a list has too many members to be deleted or copied in the same transaction. */
export async function isLargeList(sql: Transaction, customerId: string, listId: string): Promise<boolean> {
  const [list] = await sql<{ is_large: boolean }[]>`
    select
      exists (select from copied_members where customer_id = ${customerId} and list_id = ${listId})
      or (
        select count(*)
        from (
          select
          from list_members
          where customer_id = ${customerId}
            and list_id = ${listId}
          limit ${mostAtOnce + 1}
        ) few
      ) > ${mostAtOnce} as is_large`;
  return list!.is_large;
}

/** Removes the next members of a deleted list. Returns whether there were any. */
export async function removeNextMembers(sql: Transaction, customerId: string, listId: string): Promise<boolean> {
  // First: until a part is gone, its contacts can become members.
  await sql`
    delete from copied_members
    where customer_id = ${customerId}
      and list_id = ${listId}`;
  const members = await sql<{ contact_id: string }[]>`
    select contact_id
    from list_members
    where customer_id = ${customerId}
      and list_id = ${listId}
    order by contact_id
    limit ${mostAtOnce}`;
  if (members.length === 0) return false;
  await sql`
    delete from list_members
    where customer_id = ${customerId}
      and list_id = ${listId}
      and contact_id = any(${members.map((member) => member.contact_id)}::uuid[])`;
  return true;
}

/** Removes a list that has no members. */
export async function removeList(sql: Transaction, customerId: string, listId: string): Promise<void> {
  await dropCount(sql, customerId, listId);
  await sql`
    delete from lists
    where customer_id = ${customerId}
      and id = ${listId}`;
}

/** Notes the hand-made members of a list, as they are now, as those of a new list. */
export async function copyMembers(
  sql: Transaction,
  customerId: string,
  { from, to }: { from: string; to: string },
): Promise<void> {
  await sql`
    insert into copied_members (customer_id, list_id, first_id, contact_ids)
    select ${customerId}::uuid, ${to}::uuid, (array_agg(contact_id order by contact_id))[1], array_agg(contact_id order by contact_id)
    from (
      select contact_id, (row_number() over (order by contact_id) - 1) / ${partSize} as part
      from (
        select contact_id
        from list_members
        where customer_id = ${customerId}
          and list_id = ${from}
          and by_hand
        union all
        select unnest(contact_ids)
        from copied_members
        where customer_id = ${customerId}
          and list_id = ${from}
      ) members
    ) numbered
    group by part`;
  await sql`
    update lists
    set is_copying = true
    where customer_id = ${customerId}
      and id = ${to}`;
}

/** Notes that no contact waits any more to become a member of the list. */
export async function endCopying(sql: Transaction, customerId: string, listId: string): Promise<void> {
  await sql`
    update lists
    set is_copying = false
    where customer_id = ${customerId}
      and id = ${listId}`;
}

/** Consecutive contacts that wait to become members of a copy. */
export interface Part {
  first_id: string;
  contact_ids: string[];
}

/** The parts of a copied list that are written next. */
export const nextParts = (sql: Transaction, customerId: string, listId: string): Promise<Part[]> => sql<Part[]>`
  select first_id, contact_ids
  from copied_members
  where customer_id = ${customerId}
    and list_id = ${listId}
  order by first_id
  limit ${mostAtOnce / partSize}`;

/**
 * Makes the contacts of parts members of their list.
 * @param locked those of the contacts that there are; they are locked
 */
export async function writeParts(
  sql: Transaction,
  customerId: string,
  listId: string,
  parts: readonly Part[],
  locked: string[],
): Promise<void> {
  // What is in the parts now: a contact may have been written before it was locked here.
  const come = await sql<{ is_new: boolean }[]>`
    with taken as (
      delete from copied_members
      where customer_id = ${customerId}
        and list_id = ${listId}
        and first_id = any(${parts.map((part) => part.first_id)}::uuid[])
      returning contact_ids
    )
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customerId}::uuid, ${listId}::uuid, contact_id, true, false
    from taken
    cross join unnest(taken.contact_ids) contact_id
    where contact_id = any(${locked}::uuid[])
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    returning old.list_id is null as is_new`;
  const added = come.filter(({ is_new }) => is_new).length;
  await saveCounts(sql, customerId, new CountChanges().add(listId, added));
}

/**
 * Writes the memberships of contacts that were copied to lists and are not written yet. The contacts are locked.
 * @param counts changes of the lists' counts are added
 */
export async function writeCopied(
  sql: Transaction,
  customerId: string,
  contactIds: readonly string[],
  counts: CountChanges,
): Promise<void> {
  const come = await sql<{ list_id: string; is_new: boolean }[]>`
    with wanted as (
      select part.list_id, part.first_id
      from lists l
      cross join unnest(${contactIds as string[]}::uuid[]) contact_id
      cross join lateral (
        select p.list_id, p.first_id, p.contact_ids
        from copied_members p
        where p.customer_id = ${customerId}
          and p.list_id = l.id
          and p.first_id <= contact_id
        order by p.first_id desc
        limit 1
      ) part
      where l.customer_id = ${customerId}
        and l.fill_version is not null
        and contact_id = any(part.contact_ids)
    ),
    taken as (
      update copied_members p
      set contact_ids = array(select id from unnest(p.contact_ids) id where id <> all(${contactIds as string[]}::uuid[]))
      where p.customer_id = ${customerId}
        and (p.list_id, p.first_id) in (select list_id, first_id from wanted)
      returning p.list_id, old.contact_ids
    )
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customerId}::uuid, taken.list_id, contact_id, true, false
    from taken
    cross join unnest(taken.contact_ids) contact_id
    where contact_id = any(${contactIds as string[]}::uuid[])
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    returning new.list_id, old.list_id is null as is_new`;
  for (const { list_id, is_new } of come) counts.add(list_id, is_new ? 1 : 0);
}
