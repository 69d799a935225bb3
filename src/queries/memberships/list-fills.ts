import type { Transaction } from '../../database/db.ts';
import { highestId, lowestId } from '../../database/wire-types.ts';
import { contactSource, fromOf } from '../../filters/columns.ts';
import { rulesFilter } from '../../filters/rules.ts';
import { record, recorder } from '../../filters/sql-recorder.ts';
import type { Fragment } from '../../filters/sql.ts';
import { toSql } from '../../filters/to-sql.ts';
import type { Rule } from '../../schemas/lists.ts';
import type { BatchOutcome } from '../records/turns.ts';
import { readCount } from '../records/counters.ts';
import { findCustomersWith } from '../records/finders.ts';
import { withLastWrites, type LastWrites } from '../records/last-writes.ts';
import { findSuccessors } from '../records/merged-records.ts';
import { endCopying, findNextParts, removeList, removeNextMembers, writeParts } from './large-lists.ts';
import { lockContacts } from '../records/contact-locks.ts';
import { refreshList } from './list-members.ts';
import { bumpRuleVersion, lockRulesShared, type WithExclusiveRules } from './list-rules.ts';
import { addToLists } from './manual-members.ts';

/**
 * Background work on one list: workers write its members after its rules changed or after it was copied, or remove its
 * members after its deletion.
 */
interface Fill {
  customerId: string;
  listId: string;
  /**
   * Version of the list when this work was started. If the rules change again, the work starts again with a new
   * version.
   */
  version: string;
}

/** Number of contacts that one transaction checks. This takes about 20 ms, so that other writers do not wait long. */
const batchSize = 2_000;

/**
 * Updates the members of a list after its rules have changed. If the customer has more than `batchSize` contacts, or
 * the list is still being copied, workers do this later.
 */
export async function beginFill(
  sql: Transaction,
  customerId: WithExclusiveRules,
  listId: string,
  rules: readonly Rule[],
  last: LastWrites,
): Promise<void> {
  // Until workers have written the members, reads evaluate the rules.
  const version = await bumpRuleVersion(sql, customerId);
  const isLong = (await readCount(sql, customerId, 'contacts')) > batchSize;
  const [list] = await sql<{ is_copying: boolean }[]>`
    update lists
    set fill_version = ${version}, filled_to = null
    where customer_id = ${customerId}
      and id = ${listId}
    returning is_copying`;
  if (isLong || list!.is_copying) return last.enqueue('fill-lists');
  while (await fillBatch(sql, { customerId, listId, version }, rules, last)) {
    // Usually one batch is enough.
  }
}

/** Makes workers write the members of a copied list that has no rules: with this `filled_to`, no contact is checked. */
export const beginCopy = (sql: Transaction, customerId: string, listId: string, last: LastWrites): Promise<void> =>
  mark(sql, customerId, listId, sql`filled_to = ${highestId}`, last);

/** Marks a list as deleted, so that reads ignore it, and makes workers remove its members. */
export const beginRemoval = (
  sql: Transaction,
  customerId: WithExclusiveRules,
  listId: string,
  last: LastWrites,
): Promise<void> =>
  mark(sql, customerId, listId, sql`filled_to = null, rules = '[]', deleted_at = (select clock_timestamp())`, last);

async function mark(
  sql: Transaction,
  customerId: string,
  listId: string,
  changes: Fragment,
  last: LastWrites,
): Promise<void> {
  await sql`
    update lists
    set fill_version = (select uuidv7()), ${changes}
    where customer_id = ${customerId}
      and id = ${listId}`;
  last.enqueue('fill-lists');
}

/**
 * Runs one batch of background work on one of the customer's lists: writes or removes members. Call it again until it
 * returns `done`. Several workers can call it at once, because each locks a different list.
 * @returns `more` after a batch; `busy` if other workers have locked all lists that still need work; `done` if no list
 *   needs work
 */
export async function fillNextBatch(sql: Transaction, customerId: string): Promise<BatchOutcome> {
  await lockRulesShared(sql, customerId);
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
  if (list.is_deleted) return removeBatch(sql, fill);
  await withLastWrites(sql, customerId, async (last) => {
    if (list.is_copying) await writeBatch(sql, fill, last);
    else await fillBatch(sql, fill, list.rules, last);
  });
  return 'more';
}

async function removeBatch(sql: Transaction, { customerId, listId }: Fill): Promise<BatchOutcome> {
  const outcome = await removeNextMembers(sql, customerId, listId);
  if (outcome !== 'done') return outcome;
  await removeList(sql, customerId, listId);
  return 'more'; // perhaps another list
}

async function writeBatch(sql: Transaction, { customerId, listId }: Fill, last: LastWrites): Promise<void> {
  const parts = await findNextParts(sql, customerId, listId);
  if (parts.length === 0) return endCopying(sql, customerId, listId);
  const contactIds = parts.flatMap(({ contact_ids }) => contact_ids);
  const known = await findSuccessors(sql, customerId, contactIds);
  const locked = await lockContacts(sql, customerId, [...new Set([...contactIds, ...known.values()])]);
  const existing = new Set<string>(locked);
  // Again, because a merge can have committed while this transaction waited for its contacts.
  const gone = contactIds.filter((id) => !existing.has(id));
  const successors = await findSuccessors(sql, customerId, gone);
  if ([...successors.values()].some((id) => !existing.has(id))) return; // the next batch locks them too
  const taken = await writeParts(sql, customerId, listId, parts, locked, last);
  // A merge that committed while the list was copied has added the contact that stays to the original only.
  const replacing = new Set<string>(taken.flatMap((id) => successors.get(id) ?? []));
  const added = locked.filter((id) => replacing.has(id));
  if (added.length > 0) await addToLists(sql, customerId, { list_ids: [listId], contact_ids: added }, last);
}

async function isFilling(sql: Transaction, customerId: string): Promise<boolean> {
  const [row] = await sql<[{ filling: boolean }]>`
    select exists (select 1 from lists where customer_id = ${customerId} and fill_version is not null) as filling`;
  return row.filling;
}

/** Finds customers that have a list whose members must be written or removed. */
export const findFillingCustomers = findCustomersWith((sql) => sql`from lists where fill_version is not null`);

/**
 * Checks the next contacts against a list's rules, corrects their stored memberships, and saves the progress.
 * @returns true if there are more contacts to check
 */
async function fillBatch(sql: Transaction, fill: Fill, rules: readonly Rule[], last: LastWrites): Promise<boolean> {
  const { customerId, listId, version } = fill;
  // Only contacts with a wrong membership are locked. They are evaluated again, because they may have changed
  // meanwhile.
  const { looked, last: lookedTo, wrong } = await findWrongMembers(sql, fill, rules);
  await refreshList(sql, customerId, { id: listId, rules }, await lockContacts(sql, customerId, wrong), last);
  const isMore = looked === batchSize;
  await sql`
    update lists
    set fill_version = ${isMore ? version : null}, filled_to = ${isMore ? lookedTo : null}
    where customer_id = ${customerId}
      and id = ${listId}
      and fill_version = ${version}`;
  return isMore;
}

/** The result of checking a batch of contacts: which stored memberships do not agree with the list's rules. */
interface CheckedContacts {
  looked: number;
  last: string | null;
  /** Ids of the contacts whose stored membership does not agree with the list's rules. */
  wrong: string[];
}

async function findWrongMembers(
  sql: Transaction,
  { customerId, listId }: Fill,
  rules: readonly Rule[],
): Promise<CheckedContacts> {
  const filter = rulesFilter(contactSource.fields, rules);
  const { text, parameters } = record(recorder`
    with batch as materialized (
      select c.id, (${toSql(recorder, contactSource, customerId, filter)}) is true as matches
      from ${fromOf(recorder, contactSource, customerId)}
      where c.customer_id = ${customerId}::uuid
        and c.id > coalesce(
          (select l.filled_to from lists l where l.customer_id = ${customerId}::uuid and l.id = ${listId}::uuid),
          ${lowestId}
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
        -- No join: for a list created after the last analyze the planner expects no members, and would read all of them.
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
  // Not prepared: every list's rules give another text.
  const [batch] = await sql.unsafe<CheckedContacts[]>(text, parameters as string[]);
  return batch!;
}
