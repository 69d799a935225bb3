import { randomUUID } from 'node:crypto';
import type { PendingQuery, Row } from 'postgres';
import { sendWithCommit } from '../../database/after-commit.ts';
import type { Queryable, Transaction } from '../../database/db.ts';
import { originOf, type Origin } from '../../database/origin.ts';
import type { EventType } from '../../schemas/events/types.ts';

/** What happened, as a row of the journal. */
export interface NewEvent {
  type: EventType;
  /** What readers of the feed get, without `source`, `actor` and `change_id`. */
  data: object;
  /** Of an update: the changed columns as they were. Of a deletion: the record's columns. */
  before?: object;
  /** Of an update: the changed columns. */
  after?: object;
  /** Members that differ from those of the transaction. */
  origin?: Partial<Origin>;
}

/** Numbers of records of a customer. */
export interface Totals {
  contacts: number;
  companies: number;
}

/** What a transaction has done with the records of one customer. */
interface Pending extends Totals {
  events: NewEvent[];
}

const pending = new WeakMap<object, Map<string, Pending>>();

/**
 * Adds rows to a customer's journal, and changes its totals. Both are written with the commit. All writers of contacts,
 * companies, lists, products, opportunities and activities do so through `withLastWrites`.
 * @param sql the transaction itself, not a savepoint of it
 * @param changes what is added to the totals
 */
export function addToJournal(
  sql: Transaction,
  customerId: string,
  events: readonly NewEvent[],
  changes: Totals = { contacts: 0, companies: 0 },
): void {
  const origin = originOf(sql);
  if (events.length === 0) {
    if (changes.contacts !== 0 || changes.companies !== 0) throw new Error('A total changes without an event');
    return;
  }
  let all = pending.get(sql);
  if (!all) {
    all = new Map();
    pending.set(sql, all);
    const written = all;
    sendWithCommit(sql, () => statementsOf(sql, written, origin));
  }
  const own = all.get(customerId) ?? { events: [], contacts: 0, companies: 0 };
  all.set(customerId, own);
  own.events.push(...events);
  own.contacts += changes.contacts;
  own.companies += changes.companies;
}

/** Customers in the order of their ids: two transactions that lock several never wait for each other. */
const statementsOf = (sql: Transaction, all: Map<string, Pending>, origin: Origin): PendingQuery<Row[]>[] =>
  [...all]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([customerId, { events, contacts, companies }]) => {
      const entries = JSON.stringify(events.map((event, i) => entryOf(event, i, origin)));
      return [
        sql.unsafe(lock, [customerId], { prepare: true }),
        sql.unsafe(insert, [customerId, entries, contacts, companies], { prepare: true }),
      ];
    });

function entryOf({ type, data, before, after, origin: own }: NewEvent, i: number, origin: Origin): object {
  const { source, actor, changeId } = { ...origin, ...own };
  if (source === null) throw new Error('A transaction records an event, but its requester has no event source');
  const { id } = data as { id?: string };
  return { n: i + 1, id: randomUUID(), type, source, actor, change_id: changeId, record_id: id, data, before, after };
}

/** Held until the commit. A statement after it sees the rows of all who held it before. */
const lock = `select pg_advisory_xact_lock(hashtextextended('journal:' || $1, 0))`;

/** Seconds for which a partition is used. */
export const partSeconds = 691_200;
/** Number of partitions, as in the migration. */
export const parts = 16;

/** The newest row of the customer `$1`, or what is kept of those that were truncated. */
const newest = `
  select position, contacts, companies
  from (
    (select position, contacts, companies from journal where customer_id = $1::uuid order by position desc limit 1)
    union all
    (select position, contacts, companies from journal_ends where customer_id = $1::uuid)
    union all
    (select 0, 0, 0)
  ) rows
  order by position desc, contacts desc, companies desc
  limit 1`;

const insert = `
  insert into journal (
    customer_id, part, position, id, occurred_at, type, source, actor, change_id, record_id, data, before, after,
    contacts, companies
  )
  select
    $1::uuid, ((extract(epoch from clock.now)::bigint / ${partSeconds}) % ${parts})::smallint, newest.position + e.n, e.id,
    clock.now, e.type, e.source, e.actor, e.change_id, e.record_id, e.data, e.before, e.after,
    newest.contacts + $3::integer, newest.companies + $4::integer
  from (select clock_timestamp() as now) clock
  cross join (${newest}) newest
  cross join json_to_recordset($2::text::json) as e (
    n integer, id uuid, type text, source text, actor json, change_id uuid, record_id uuid, data json, before json,
    after json
  )`;

/** Returns the exact numbers of a customer's contacts and companies. */
export async function readTotals(sql: Queryable, customerId: string): Promise<Totals> {
  const [row] = await sql.unsafe<[Totals]>(newest, [customerId], { prepare: true });
  return { contacts: row.contacts, companies: row.companies };
}
