import { isLockTimeout } from '../../database/pools.ts';
import { isDeepStrictEqual } from 'node:util';
import { randomUUID } from 'node:crypto';
import type { PendingQuery, Row } from 'postgres';
import { recordTypes, type EventNoun, type EventType } from '../../schemas/events.ts';
import { afterCommit, sendWithCommit, originOf } from '../../database/db.ts';
import type { Queryable, Transaction, Origin, Database } from '../../database/db.ts';

type Columns = Readonly<Record<string, unknown>>;

const shownAs: Partial<Record<EventNoun, Record<string, string>>> = { contact: { company_id: 'company' } };

/** Columns that responses do not show. The journal keeps their values, but events do not name them. */
export const unpublishedColumns: ReadonlySet<string> = new Set(['prospect_id', 'deleted_company_id']);

/**
 * Maximum number of custom fields that an event names one by one, and maximum total length of their names (UTF-8
 * bytes). With more, the event names only `custom_fields`.
 */
const maxNamedFields = { fields: 20, bytes: 2_048 };

export interface Changes {
  /**
   * Names of changed members, as the GET of the record shows them. Custom fields are named one by one, such as
   * `custom_fields.plan`.
   */
  changed: string[];
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

/**
 * Returns the changes that a write makes to a record, or undefined if there are none.
 * @param stored the columns before; it may have further ones
 * @param columns the columns after, named like the members of the record's GET
 */
export function changesOf(noun: EventNoun, stored: object, columns: object): Changes | undefined {
  const old = stored as Columns;
  const changes: Changes = { changed: [], before: {}, after: {} };
  for (const [name, value] of Object.entries(columns)) {
    if (isSame(old[name], value)) continue;
    if (name === 'custom_fields') {
      const fields = changedFields(old[name] as Columns, value as Columns);
      changes.changed.push(...namesOf(fields));
      changes.before[name] = pick(old[name] as Columns, fields);
      changes.after[name] = pick(value as Columns, fields);
    } else {
      if (!unpublishedColumns.has(name)) changes.changed.push(shownAs[noun]?.[name] ?? name);
      changes.before[name] = old[name];
      changes.after[name] = value;
    }
  }
  return changes.changed.length > 0 ? changes : undefined;
}

const changedFields = (before: Columns, after: Columns): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => !isSame(before[name], after[name]));

const pick = (fields: Columns, names: readonly string[]): Columns =>
  Object.fromEntries(names.filter((name) => Object.hasOwn(fields, name)).map((name) => [name, fields[name]]));

function namesOf(fields: readonly string[]): string[] {
  const names = fields.map((name) => `custom_fields.${name}`);
  const isMuch = names.length > maxNamedFields.fields || Buffer.byteLength(names.join('')) > maxNamedFields.bytes;
  return isMuch ? ['custom_fields'] : names;
}

export const isSame = (stored: unknown, value: unknown): boolean =>
  isDeepStrictEqual(stored, value) ||
  // The database stores objects as JSON, which has no negative zero.
  (typeof value === 'object' && value !== null && isDeepStrictEqual(stored, JSON.parse(JSON.stringify(value))));

export interface NewEvent {
  type: EventType;
  /** Data that readers of the feed get, without `source`, `actor` and `change_id`. */
  data: object;
  /** For an update, the previous values of the changed columns. For a deletion, the columns of the record. */
  before?: object;
  after?: object;
  origin?: Partial<Origin>;
}

export interface Totals {
  contacts: number;
  companies: number;
}

interface Pending extends Totals {
  events: NewEvent[];
}

const pending = new WeakMap<object, Map<string, Pending>>();

/**
 * Adds events to a customer's journal, and changes the customer's totals. Both are written with the commit. Writers of
 * records must call it through `withDeferredWrites`.
 * @param sql the transaction itself, not a savepoint of it
 * @param changes numbers to add to the totals
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
  const changeId = changeOf(sql);
  if (changeId !== undefined) afterCommit(sql, () => origin.onChange?.(changeId));
}

const changedRecords: ReadonlySet<EventType> = new Set(recordTypes);

export const changeOf = (sql: Transaction): string | undefined =>
  [...(pending.get(sql)?.values() ?? [])].some(({ events }) => events.some(({ type }) => changedRecords.has(type)))
    ? originOf(sql).changeId
    : undefined;

/**
 * Returns the statements that write the journals, in the order of the customers' ids. So two transactions with several
 * customers cannot deadlock.
 */
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

/**
 * SQL statement that locks a customer's journal until the commit. Later statements see the rows of all transactions
 * that held the lock before.
 */
const lock = `select pg_advisory_xact_lock(hashtextextended('journal:' || $1, 0))`;

export const partSeconds = 691_200;
/** Number of partitions of the journal, as the migration creates them. */
export const parts = 16;

/**
 * SQL query for the newest position in the journal and the totals of the customer `$1`. If the customer has no rows in
 * the journal, it reads the stored end.
 */
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

export async function readTotals(sql: Queryable, customerId: string): Promise<Totals> {
  const [row] = await sql.unsafe<[Totals]>(newest, [customerId], { prepare: true });
  return { contacts: row.contacts, companies: row.companies };
}

/** Removes the values of records from the journal. Readers of the feed see no difference. */
export async function clearValues(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update journal
    set before = null, after = null
    where customer_id = ${customerId}
      and record_id = any(${ids as string[]}::uuid[])
      and (before is not null or after is not null)`;
}

export async function findDeletedIds(
  sql: Queryable,
  customerId: string,
  noun: EventNoun,
  ids: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ record_id: string }[]>`
    select distinct record_id
    from journal
    where customer_id = ${customerId}
      and record_id = any(${ids as string[]}::uuid[])
      and type = ${`${noun}.deleted`}`;
  return new Set(rows.map(({ record_id }) => record_id));
}

/**
 * Returns those records whose last deletion is at one of these positions, and whose values are still in the journal.
 * Until the transaction ends, nobody can remove these values.
 */
export async function lockDeletedValues(
  sql: Transaction,
  customerId: string,
  positions: readonly number[],
): Promise<Set<string>> {
  if (positions.length === 0) return new Set();
  const rows = await sql<{ record_id: string }[]>`
    select j.record_id
    from journal j
    where j.customer_id = ${customerId}
      and j.position = any(${positions as number[]}::bigint[])
      and j.before is not null
      and j.position = (
        select max(later.position)
        from journal later
        where later.customer_id = ${customerId}
          and later.record_id = j.record_id
          and later.type like '%.deleted'
      )
    for share of j`;
  return new Set(rows.map(({ record_id }) => record_id));
}

/**
 * Returns the positions of those deletions whose record was restored later.
 * @param positions places of the deletions in the journal
 */
export async function findRestored(
  sql: Queryable,
  customerId: string,
  positions: readonly number[],
): Promise<Set<number>> {
  if (positions.length === 0) return new Set();
  const rows = await sql<{ position: number }[]>`
    select j.position
    from journal j
    where j.customer_id = ${customerId}
      and j.position = any(${positions as number[]}::bigint[])
      and j.position < (
        select max(later.position)
        from journal later
        where later.customer_id = ${customerId}
          and later.record_id = j.record_id
          and later.type like '%.created'
      )`;
  return new Set(rows.map(({ position }) => position));
}

/** Minimum number of seconds between the emptying of a partition and its next use. */
const marginSeconds = 3_600;
/**
 * Maximum milliseconds that the truncation waits for readers, such as a dump. Other statements wait meanwhile, so it is
 * tried again later.
 */
const lockMs = 100;

// A partition is due long before it is used again. If no worker runs in that time, its rows are kept for one more
// round.
/**
 * Empties the partitions of the journal whose rows are all older than `days`.
 * @param db connections for work on the rows of all customers
 * @returns the number of partitions emptied
 */
export async function truncateJournal(db: Database, days: number): Promise<number> {
  const [{ now }] = await db.lookup(
    (sql) => sql<[{ now: number }]>`select extract(epoch from statement_timestamp())::bigint as now`,
  );
  let emptied = 0;
  for (const part of oldParts(now, days)) if (await emptyPart(db, part)) emptied += 1;
  return emptied;
}

/**
 * Returns the partitions that can be emptied, the oldest first.
 * @param now seconds since 1970
 */
export function oldParts(now: number, days: number): number[] {
  const period = Math.floor(now / partSeconds);
  return Array.from({ length: parts - 1 }, (_, i) => period - parts + 1 + i)
    .filter((one) => (one + 1) * partSeconds + days * 86_400 < now)
    .filter((one) => (one + parts) * partSeconds - now > marginSeconds)
    .map((one) => one % parts);
}

async function emptyPart(db: Database, part: number): Promise<boolean> {
  const name = `journal_${String(part).padStart(2, '0')}`;
  try {
    return await db.transaction(async (sql) => {
      const [row] = await sql`select position from journal where part = ${part} limit 1`;
      if (!row) return false;
      await sql`select set_config('lock_timeout', ${String(lockMs)}, true)`;
      await keepEnds(sql, part);
      await sql`truncate ${sql(name)}`;
      return true;
    });
  } catch (error) {
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/** Stores the last position and the totals of each customer, in case the customer has no row left in the journal. */
const keepEnds = (sql: Transaction, part: number) => sql`
  insert into journal_ends as kept (customer_id, position, id, contacts, companies)
  select distinct on (customer_id) customer_id, position, id, contacts, companies
  from journal
  where part = ${part}
  order by customer_id, position desc
  on conflict (customer_id) do update
  set position = excluded.position, id = excluded.id, contacts = excluded.contacts, companies = excluded.companies
  where kept.position < excluded.position`;
