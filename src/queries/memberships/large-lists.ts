import type { LockedId, Transaction } from '../../database/db.ts';
import type { BatchOutcome } from '../records/turns.ts';
import { dropCount } from '../records/counters.ts';
import { countUpTo } from '../records/finders.ts';
import type { LastWrites } from '../records/last-writes.ts';

/*
 * A list with many members is deleted or copied in one short transaction. A worker removes or writes the members
 * afterwards, batch by batch, as part of the fill of the list (list-fills.ts). Until then, every read is still exact:
 * - A deleted list has no rules, and no statement shows it. Its members are not counted as members of any list.
 * - The contacts of a copy wait in `copied_members`. Every read counts them as manual members of the copy.
 *
 * Code that changes a contact's manual memberships calls `writeCopied` first. It moves the contact's waiting
 * memberships into `list_members`. A deleted contact stays in `copied_members`, so every statement that reads this
 * table joins the contacts. Rows are locked in this order: contacts by id, `copied_members`, counters.
 */

/** Maximum number of members to delete or copy in one transaction; this takes about 40 ms. */
const maxAtOnce = 2_000;

/**
 * Number of contact ids in one row of the table `copied_members`. The rows are small, so that a search in them is fast.
 */
const partSize = 100;

/**
 * Returns true if a list has too many members to delete or copy in one transaction. Also returns true if the list is a
 * copy whose members are not all written yet.
 */
export async function isLargeList(sql: Transaction, customerId: string, listId: string): Promise<boolean> {
  const [list] = await sql<{ is_large: boolean }[]>`
    select
      exists (select 1 from copied_members where customer_id = ${customerId} and list_id = ${listId})
      or ${countUpTo(sql, sql`from list_members where customer_id = ${customerId} and list_id = ${listId}`, maxAtOnce)}
        > ${maxAtOnce} as is_large`;
  return list!.is_large;
}

/**
 * Removes the next members of a deleted list, up to a fixed number.
 * @returns `done` if no members were left; `busy` if other transactions are removing all that are left
 */
export async function removeNextMembers(sql: Transaction, customerId: string, listId: string): Promise<BatchOutcome> {
  await sql`
    delete from copied_members
    where customer_id = ${customerId}
      and list_id = ${listId}`;
  // Never waits for a row: a transaction that removes contacts from all their lists takes the rows in another order.
  const members = await sql<{ contact_id: string }[]>`
    select contact_id
    from list_members
    where customer_id = ${customerId}
      and list_id = ${listId}
    order by contact_id
    limit ${maxAtOnce}
    for update skip locked`;
  if (members.length === 0) return (await hasMembers(sql, customerId, listId)) ? 'busy' : 'done';
  await sql`
    delete from list_members
    where customer_id = ${customerId}
      and list_id = ${listId}
      and contact_id = any(${members.map((member) => member.contact_id)}::uuid[])`;
  return 'more';
}

async function hasMembers(sql: Transaction, customerId: string, listId: string): Promise<boolean> {
  const [row] = await sql<[{ found: boolean }]>`
    select exists (select 1 from list_members where customer_id = ${customerId} and list_id = ${listId}) as found`;
  return row.found;
}

/** Deletes a list that has no members, and its member count. */
export async function removeList(sql: Transaction, customerId: string, listId: string): Promise<void> {
  await dropCount(sql, customerId, listId);
  await sql`
    delete from lists
    where customer_id = ${customerId}
      and id = ${listId}`;
}

/**
 * Copies the manually added members of list `from` to the table `copied_members`. A worker later writes them as members
 * of list `to`. The caller must set `is_copying` of list `to`, and check afterwards that list `from` is not deleted.
 */
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
}

/** Marks a copied list as complete (`is_copying = false`), because all its members are written. */
export async function endCopying(sql: Transaction, customerId: string, listId: string): Promise<void> {
  await sql`
    update lists
    set is_copying = false
    where customer_id = ${customerId}
      and id = ${listId}`;
}

/**
 * A row of the table `copied_members`: contacts, in the order of their ids, that must still be written as members of a
 * copied list.
 */
interface CopiedPart {
  first_id: string;
  contact_ids: string[];
}

/**
 * Returns the next rows of `copied_members` whose contacts must be written as members of a list, in the order of
 * contact ids.
 */
export const findNextParts = (sql: Transaction, customerId: string, listId: string): Promise<CopiedPart[]> => sql<
  CopiedPart[]
>`
  select first_id, contact_ids
  from copied_members
  where customer_id = ${customerId}
    and list_id = ${listId}
  order by first_id
  limit ${maxAtOnce / partSize}`;

/**
 * Writes contacts from rows of `copied_members` as members of a list, and deletes these rows.
 * @param locked the contacts that still exist
 * @returns ids of the contacts in these rows, of which another transaction may have written some before they were locked
 */
export async function writeParts(
  sql: Transaction,
  customerId: string,
  listId: string,
  parts: readonly CopiedPart[],
  locked: readonly LockedId[],
  last: LastWrites,
): Promise<string[]> {
  const rows = await sql<Pick<CopiedPart, 'contact_ids'>[]>`
    delete from copied_members
    where customer_id = ${customerId}
      and list_id = ${listId}
      and first_id = any(${parts.map((part) => part.first_id)}::uuid[])
    returning contact_ids`;
  const taken = rows.flatMap(({ contact_ids }) => contact_ids);
  const written = await sql<{ is_new: boolean }[]>`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customerId}::uuid, ${listId}::uuid, contact_id, true, false
    from unnest(${taken}::uuid[]) contact_id
    where contact_id = any(${locked as LockedId[]}::uuid[])
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    returning old.list_id is null as is_new`;
  last.count(listId, written.filter(({ is_new }) => is_new).length);
  return taken;
}

/**
 * Moves the list memberships of these contacts from the table `copied_members`, where they wait to be written, to
 * `list_members`.
 * @param last collects what the transaction writes last
 */
export async function writeCopied(
  sql: Transaction,
  customerId: string,
  contactIds: readonly LockedId[],
  last: LastWrites,
): Promise<void> {
  const written = await sql<{ list_id: string; is_new: boolean }[]>`
    with wanted as (
      select part.list_id, part.first_id
      from lists l
      cross join unnest(${contactIds as LockedId[]}::uuid[]) contact_id
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
        and l.deleted_at is null
        and contact_id = any(part.contact_ids)
    ),
    taken as (
      update copied_members p
      set contact_ids = array(select id from unnest(p.contact_ids) id where id <> all(${contactIds as LockedId[]}::uuid[]))
      where p.customer_id = ${customerId}
        and (p.list_id, p.first_id) in (select list_id, first_id from wanted)
      returning p.list_id, old.contact_ids
    )
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customerId}::uuid, taken.list_id, contact_id, true, false
    from taken
    cross join unnest(taken.contact_ids) contact_id
    where contact_id = any(${contactIds as LockedId[]}::uuid[])
    on conflict (customer_id, list_id, contact_id) do update
    set by_hand = true
    returning new.list_id, old.list_id is null as is_new`;
  for (const { list_id, is_new } of written) last.count(list_id, is_new ? 1 : 0);
}
