import type { Sql, Transaction } from '../database/db.ts';
import { lowestId } from '../database/wire-types.ts';
import { exactContactSource } from '../filters/columns.ts';
import { rulesFilter } from '../filters/rules.ts';
import { record, recorder } from '../filters/sql-recorder.ts';
import type { Fragment } from '../filters/sql.ts';
import { toSql } from '../filters/to-sql.ts';
import type { Rule } from '../schemas/lists.ts';
import type { BatchOutcome } from './company-settlements.ts';
import { readCount } from './counters.ts';
import { endCopying, findNextParts, removeList, removeNextMembers, writeParts } from './large-lists.ts';
import { lockContacts } from './contact-locks.ts';
import { refreshList } from './list-members.ts';
import { lockRulesShared, bumpRuleVersion } from './list-rules.ts';

/**
 * A fill: workers write a list's members after its rules changed or it was copied, or remove them after its deletion.
 */
export interface Fill {
  customerId: string;
  listId: string;
  /** Version of the rules. When the rules change again, the fill starts again with a new version. */
  version: string;
}

/** Contacts that one transaction checks (about 20 ms), so that writers wait little. */
const batchSize = 2_000;

/**
 * Makes the new rules of a list effective. The caller has locked the rules. If the customer has few contacts, it writes
 * the members at once. Otherwise it marks the list: until workers have filled it, reads evaluate the rules.
 * @returns the background work to enqueue in the same transaction, or undefined if the members are already written
 */
export async function beginFill(
  sql: Transaction,
  customerId: string,
  listId: string,
  rules: readonly Rule[],
): Promise<Fill | undefined> {
  const version = await bumpRuleVersion(sql, customerId);
  const isLong = (await readCount(sql, customerId, 'contacts')) > batchSize;
  const [list] = await sql<{ is_copying: boolean }[]>`
    update lists
    set fill_version = ${version}, filled_to = null
    where customer_id = ${customerId}
      and id = ${listId}
    returning is_copying`;
  if (isLong || list!.is_copying) return { customerId, listId, version };
  while (await fillBatch(sql, { customerId, listId, version }, rules)) {
    // Usually one batch is enough.
  }
  return undefined;
}

/**
 * The largest UUID, which comes after every contact's id. As `filled_to` it means that no contact has to be checked.
 */
const end = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Marks a new copy without rules, so that workers write its copied members. */
export const beginCopy = (sql: Transaction, customerId: string, listId: string): Promise<Fill> =>
  mark(sql, customerId, listId, sql`filled_to = ${end}`);

/** Marks a list as deleted, which hides it, so that workers remove its members. The caller has locked the rules. */
export const beginRemoval = (sql: Transaction, customerId: string, listId: string): Promise<Fill> =>
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
 * Runs one batch of the fill that has waited longest among the customer's lists. Call it again until it returns `done`.
 * Any number of workers can call it at once: each locks a different list.
 * @returns `more` after a batch, `busy` when other workers have all the fills, `done` when no list has a fill
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
  if (list.is_deleted) await removeBatch(sql, fill);
  else if (list.is_copying) await writeBatch(sql, fill);
  else await fillBatch(sql, fill, list.rules);
  return 'more';
}

/** Removes the next members of a deleted list. If no members are left, removes the list. */
async function removeBatch(sql: Transaction, { customerId, listId }: Fill): Promise<void> {
  if (await removeNextMembers(sql, customerId, listId)) return;
  await removeList(sql, customerId, listId);
}

/** Writes the next members of a copied list. If none wait, marks the copy as complete. */
async function writeBatch(sql: Transaction, { customerId, listId }: Fill): Promise<void> {
  const parts = await findNextParts(sql, customerId, listId);
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
 * Returns the ids of customers that have lists to fill, ordered by id, over all customers.
 * @param after last id of the page before
 */
export async function findFillingCustomers(
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
 * Fills one batch of a list's contacts and stores the progress. Contacts written since the rules changed are already
 * right. It first finds the contacts whose membership is wrong, locks only these, and evaluates them again: they may
 * have changed.
 * @returns whether contacts are left
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

/** The contacts that one batch of a fill checked. */
interface Batch {
  /** Number of contacts checked. */
  looked: number;
  /** Id of the last contact checked. */
  last: string | null;
  /** Ids of the contacts whose stored membership by rule differs from the rules. */
  wrong: string[];
}

/** Checks the next contacts of a fill against the list's rules. */
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
  const [batch] = await sql.unsafe<Batch[]>(text, parameters as string[]);
  return batch!;
}
