import type { Transaction } from '../db.ts';
import { saveCounts, writeCounts, type CountChanges, type Counted } from './counters.ts';

/** Pairs of a list and a contact, as two arrays for a statement. */
class Pairs {
  readonly lists: string[] = [];
  readonly contacts: string[] = [];

  add(listId: string, contactId: string): void {
    this.lists.push(listId);
    this.contacts.push(contactId);
  }
}

/** Changes that one statement writes: so few that nothing waits long, here or for the server. */
const changesAtOnce = 5_000;
/** Longest time (ms) without a statement, by far shorter than the server's limit on idle transactions. */
const longestPause = 500;

/**
 * Memberships by rule that begin or end, and the counts that follow. They are written with the same statements, whatever
 * rules and lists there are.
 */
export class MemberChanges {
  readonly #sql: Transaction;
  readonly #customerId: string;
  readonly #counts: CountChanges;
  #begun = new Pairs();
  #ended = new Pairs();
  #lastWrite = performance.now();

  /** @param counts changes of counts by the transaction so far; those of the lists are added */
  constructor(sql: Transaction, customerId: string, counts: CountChanges) {
    this.#sql = sql;
    this.#customerId = customerId;
    this.#counts = counts;
  }

  /** Notes that a contact's membership by rule begins or ends. Each pair may be given once. */
  add(listId: string, contactId: string, isMember: boolean): void {
    (isMember ? this.#begun : this.#ended).add(listId, contactId);
  }

  get #size(): number {
    return this.#begun.lists.length + this.#ended.lists.length;
  }

  /** Whether it is time for `write`. */
  get areDue(): boolean {
    return this.#size >= changesAtOnce || performance.now() - this.#lastWrite >= longestPause;
  }

  /** Writes the memberships noted so far; their counts wait for `finish`. */
  async write(): Promise<void> {
    const changed = await this.#send<{ counted: Counted; change: number }[]>(change, [], []);
    for (const one of changed) this.#counts.add(one.counted, one.change);
    this.#lastWrite = performance.now();
  }

  /** Writes the rest, and all counts. Has to be the last statement of its transaction but for `commit`. */
  async finish(): Promise<void> {
    if (this.#size === 0) return saveCounts(this.#sql, this.#customerId, this.#counts);
    const { counted, changes } = this.#counts.toArrays();
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

/**
 * The rows that a statement ends are found among the contacts' own, then looked up in what was given. `is true` keeps the
 * planner from making a join of that: by old statistics it expects a row or none, and would go through the one for each
 * row of the other.
 */
const endedRows = `
    where m.customer_id = $1::uuid
      and m.contact_id = any($7::uuid[])
      and ((m.list_id, m.contact_id) in (select * from unnest($6::uuid[], $7::uuid[]))) is true`;

/** $1 customer, $4 and $5 lists and contacts of memberships that begin, $6 and $7 of those that end. */
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

/** By how much that and the given counts ($2 what, $3 by how much) change each count. */
const countChanges = `
  select begun.list_id::text as counted, 1 as change
  from begun
  where begun.is_new
  union all
  select gone.list_id::text, -1
  from gone
  union all
  select * from unnest($2::text[], $3::integer[])`;

const changeAndCount = `with ${changeMembers} ${writeCounts(countChanges)}`;

const change = `
  with ${changeMembers}
  select d.counted, sum(d.change)::integer as change
  from (${countChanges}) d
  group by d.counted`;
