import type { Transaction } from '../../database/db.ts';
import { writeCounts, type Counted } from '../records/counters.ts';
import type { LastWrites } from '../records/last-writes.ts';

/** Memberships of contacts in lists: two arrays of the same length, which are parameters of an SQL statement. */
class Pairs {
  readonly lists: string[] = [];
  readonly contacts: string[] = [];

  add(listId: string, contactId: string): void {
    this.lists.push(listId);
    this.contacts.push(contactId);
  }
}

/**
 * Maximum number of membership changes to collect before they are written. It is small, so that each write takes only a
 * short time.
 */
const changesAtOnce = 5_000;
/** Maximum time (ms) between two writes. It is much shorter than the database's timeout for idle transactions. */
const maxPauseMs = 500;

/**
 * A collection of list memberships to add or to delete, after the lists' rules were evaluated. Writes them in batches,
 * and updates the member counts.
 */
export class MemberChanges {
  readonly #sql: Transaction;
  readonly #customerId: string;
  readonly #last: LastWrites;
  #begun = new Pairs();
  #ended = new Pairs();
  #lastWrite = performance.now();

  constructor(sql: Transaction, customerId: string, last: LastWrites) {
    this.#sql = sql;
    this.#customerId = customerId;
    this.#last = last;
  }

  /**
   * Collects one change: a contact now matches the rules of a list (`isMember = true`) or no longer matches them. Call
   * this method at most once for each pair of list and contact.
   */
  add(listId: string, contactId: string, isMember: boolean): void {
    (isMember ? this.#begun : this.#ended).add(listId, contactId);
  }

  get #size(): number {
    return this.#begun.lists.length + this.#ended.lists.length;
  }

  /** True if the caller should call `write` now: many changes are collected, or the last write was long ago. */
  get areDue(): boolean {
    return this.#size >= changesAtOnce || performance.now() - this.#lastWrite >= maxPauseMs;
  }

  /** Writes the changes of memberships that are collected so far, and adds the changes of member counts to `last`. */
  async write(): Promise<void> {
    if (this.#size === 0) return;
    const changed = await this.#send<{ counted: Counted; change: number }[]>(change, [], []);
    for (const row of changed) this.#last.count(row.counted, row.change);
    this.#lastWrite = performance.now();
  }

  /**
   * Writes the changes of memberships, and all changes of counters in the same statement. Call it last in the
   * transaction.
   */
  async writeWithCounts(): Promise<void> {
    if (this.#size === 0) return;
    const { counted, changes } = this.#last.takeCounts();
    await this.#send(changeAndCount, counted, changes);
  }

  async #send<Rows extends object[]>(statement: string, counted: Counted[], changes: number[]): Promise<Rows> {
    const [begun, ended] = [this.#begun, this.#ended];
    this.#begun = new Pairs();
    this.#ended = new Pairs();
    const pairs = [begun.lists, begun.contacts, ended.lists, ended.contacts];
    return this.#sql.unsafe<Rows>(statement, [this.#customerId, counted, changes, ...pairs], { prepare: true });
  }
}

// `is true` in the condition stops the planner from joining the memberships and the pairs. With stale statistics it
// expects at most one row, and would choose a nested loop that scans one set for each row of the other.
/**
 * SQL `where` clause that selects memberships whose contacts no longer match the list's rules. `$6` contains the list
 * ids, `$7` the contact ids.
 */
const endedRows = `
    where m.customer_id = $1::uuid
      and m.contact_id = any($7::uuid[])
      and ((m.list_id, m.contact_id) in (select * from unnest($6::uuid[], $7::uuid[]))) is true`;

/**
 * SQL that writes changes of memberships. Parameters: `$1` is the customer; `$4` and `$5` are the lists and contacts
 * that now match; `$6` and `$7` are the lists and contacts that no longer match.
 */
const changeMembers = `
  begun as (
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select $1::uuid, given.list_id, given.contact_id, false, true
    from unnest($4::uuid[], $5::uuid[]) as given (list_id, contact_id)
    on conflict (customer_id, list_id, contact_id) do update
    set by_rule = true
    returning new.list_id, old.list_id is null as is_new
  ),
  gone as (
    delete from list_members m
    ${endedRows}
      and not m.by_hand
    returning m.list_id
  ),
  kept as (
    update list_members m
    set by_rule = false
    ${endedRows}
      and m.by_hand
  )`;

/**
 * SQL `select` that returns names of counters and the numbers to add to them: 1 or -1 for each new or deleted
 * membership, and the changes in the parameters `$2` (names) and `$3` (numbers).
 */
const countChanges = `
  select begun.list_id::text as counted, 1 as change
  from begun
  where begun.is_new
  union all
  select gone.list_id::text, -1
  from gone
  union all
  select * from unnest($2::text[], $3::integer[])`;

const changeAndCount = `with ${changeMembers}, counted as (${writeCounts(countChanges)}) select 1`;

const change = `
  with ${changeMembers}
  select d.counted, sum(d.change)::integer as change
  from (${countChanges}) d
  group by d.counted`;
