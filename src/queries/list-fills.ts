import type { Sql, Transaction } from '../db.ts';
import { exactContactSource } from '../filters/columns.ts';
import { record, recorder } from '../filters/recorded.ts';
import { rulesFilter } from '../filters/rules.ts';
import { toSql } from '../filters/to-sql.ts';
import type { Fragment } from '../filters/sql.ts';
import type { Rule } from '../schemas/lists.ts';
import { readCount } from './counters.ts';
import { endCopying, nextParts, removeList, removeNextMembers, writeParts } from './large-lists.ts';
import { lockContacts, refreshList } from './list-members.ts';
import type { BatchOutcome } from './company-settlements.ts';
import { keepRules, renewRuleVersion } from './rules.ts';

/** The work of writing the members of a list after its rules changed or it was copied, or of removing them after its deletion. */
export interface Fill {
  customerId: string;
  listId: string;
  /** Of the rules: when they have changed since, the list is filled anew. */
  version: string;
}

/** Contacts that one transaction looks at: some 20 ms, so that writers hardly notice. */
const batchSize = 2_000;

/**
 * Puts new rules of a list into force; the rules have to be locked. Few contacts are looked through here and now. For many
 * the list is marked: until it is filled, its members are evaluated on read.
 * @returns the filling to start in the same transaction, if any
 */
export async function beginFill(
  sql: Transaction,
  customerId: string,
  listId: string,
  rules: readonly Rule[],
): Promise<Fill | undefined> {
  const version = await renewRuleVersion(sql, customerId);
  const isLong = (await readCount(sql, customerId, 'contacts')) > batchSize;
  const [list] = await sql<{ is_copying: boolean }[]>`
    update lists
    set fill_version = ${version}, filled_to = null
    where customer_id = ${customerId}
      and id = ${listId}
    returning is_copying`;
  if (isLong || list!.is_copying) return { customerId, listId, version };
  while (await fillBatch(sql, { customerId, listId, version }, rules)) {
    // Once, as a rule.
  }
  return undefined;
}

/** Comes after all contacts: none has to be looked at. */
const end = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Leaves the members of a new list without rules, a copy, to be written. */
export const beginWriting = (sql: Transaction, customerId: string, listId: string): Promise<Fill> =>
  mark(sql, customerId, listId, sql`filled_to = ${end}`);

/** Hides a list that is deleted, and leaves its members to be removed. The rules have to be locked. */
export const beginEmptying = (sql: Transaction, customerId: string, listId: string): Promise<Fill> =>
  mark(sql, customerId, listId, sql`filled_to = null, rules = '[]', deleted_at = (select clock_timestamp())`);

async function mark(sql: Transaction, customerId: string, listId: string, changes: Fragment): Promise<Fill> {
  const [list] = await sql<{ fill_version: string }[]>`
    update lists
    set fill_version = (select uuidv7()), ${changes}
    where customer_id = ${customerId}
      and id = ${listId}
    returning fill_version`;
  return { customerId, listId, version: list!.fill_version };
}

/**
 * Fills, of the customer's lists whose rules changed, the one that has waited longest, for the next contacts in the order of
 * ids. May be repeated, by any number of workers: each fills another list.
 */
export async function fillNextBatch(sql: Transaction, customerId: string): Promise<BatchOutcome> {
  await keepRules(sql, customerId);
  const [list] = await sql<{ id: string; version: string; rules: Rule[]; is_deleted: boolean; is_copying: boolean }[]>`
    select id, fill_version as version, rules, deleted_at is not null as is_deleted, is_copying
    from lists
    where customer_id = ${customerId}
      and fill_version is not null
    order by fill_version
    limit 1
    for no key update skip locked`;
  if (!list) return (await isFilling(sql, customerId)) ? 'busy' : 'done';
  const fill = { customerId, listId: list.id, version: list.version };
  if (list.is_deleted) await removeBatch(sql, fill);
  else if (list.is_copying) await writeBatch(sql, fill);
  else await fillBatch(sql, fill, list.rules);
  return 'more';
}

/** Removes the next members of a deleted list, or the list itself if it has no more. */
async function removeBatch(sql: Transaction, { customerId, listId }: Fill): Promise<void> {
  if (await removeNextMembers(sql, customerId, listId)) return;
  await removeList(sql, customerId, listId);
}

/** Writes the next members of a copied list, or notes that all are written. */
async function writeBatch(sql: Transaction, { customerId, listId }: Fill): Promise<void> {
  const parts = await nextParts(sql, customerId, listId);
  if (parts.length === 0) return endCopying(sql, customerId, listId);
  const contactIds = parts.flatMap(({ contact_ids }) => contact_ids);
  await writeParts(sql, customerId, listId, parts, await lockContacts(sql, customerId, contactIds));
}

async function isFilling(sql: Transaction, customerId: string): Promise<boolean> {
  const [row] = await sql<[{ filling: boolean }]>`
    select exists (select from lists where customer_id = ${customerId} and fill_version is not null) as filling`;
  return row.filling;
}

/**
 * Customers, of all, that have lists to fill, in the order of their ids.
 * @param after the last customer of the batch before
 */
export async function customersFilling(
  sql: Sql | Transaction,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    select distinct customer_id
    from lists
    where fill_version is not null
      and customer_id > ${after}
    order by customer_id
    limit ${limit}`;
  return rows.map(({ customer_id }) => customer_id);
}

/**
 * Contacts that were written since the rules changed are right already. Of the others, those are looked for whose
 * memberships are not; only they are locked, and then evaluated anew as they have become.
 */
async function fillBatch(sql: Transaction, fill: Fill, rules: readonly Rule[]): Promise<boolean> {
  const { customerId, listId, version } = fill;
  const { looked, last, wrong } = await findWrongMembers(sql, fill, rules);
  await refreshList(sql, customerId, { id: listId, rules }, await lockContacts(sql, customerId, wrong));
  const isMore = looked === batchSize;
  await sql`
    update lists
    set fill_version = ${isMore ? version : null}, filled_to = ${isMore ? last : null}
    where customer_id = ${customerId}
      and id = ${listId}
      and fill_version = ${version}`;
  return isMore;
}

interface Batch {
  /** How many contacts it has. */
  looked: number;
  /** The last of them. */
  last: string | null;
  /** Those whose membership by rule is not as the rules say. */
  wrong: string[];
}

/** Looks through the next contacts. */
async function findWrongMembers(
  sql: Transaction,
  { customerId, listId }: Fill,
  rules: readonly Rule[],
): Promise<Batch> {
  const filter = rulesFilter(exactContactSource.fields, rules);
  const { text, parameters } = record(recorder`
    with batch as materialized (
      select c.id, (${toSql(recorder, exactContactSource, filter)}) is true as matches
      from ${recorder.unsafe(exactContactSource.from)}
      where c.customer_id = ${customerId}::uuid
        and c.id > coalesce(
          (select l.filled_to from lists l where l.customer_id = ${customerId}::uuid and l.id = ${listId}::uuid),
          '00000000-0000-0000-0000-000000000000'
        )
      order by c.id
      limit ${batchSize}::bigint
    )
    select
      (select count(*) from batch) as looked,
      (select b.id from batch b order by b.id desc limit 1) as last,
      array(
        select b.id
        from batch b
        -- Not a join: of a list that came after the last analyze the planner expects no members, and reads all of them.
        where b.matches <> coalesce(
          (
            select m.by_rule
            from list_members m
            where m.customer_id = ${customerId}::uuid
              and m.list_id = ${listId}::uuid
              and m.contact_id = b.id
          ),
          false
        )
      ) as wrong`);
  // Every fill has a text of its own: not worth keeping prepared.
  const [batch] = await sql.unsafe<Batch[]>(text, parameters as string[]);
  return batch!;
}
