import { crc32 } from 'node:zlib';
import { createHash } from 'node:crypto';
import { findCustomersWith, limitAndOffset, readPage, type PageOrCursor, type RecordPage } from '../records/finders.ts';
import type { Queryable, Sql, Transaction, Database } from '../../database/db.ts';
import { lowestId } from '../../database/connection.ts';
import { liveCompanies, constant, type Fragment } from '../../filters/sql.ts';
import { lookUpCompany, type Column } from '../../filters/columns.ts';
import type { Position } from '../../filters/cursor.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import { maxDuplicateIds, type DuplicateGroup, type DuplicateKey } from '../../schemas/clean-data.ts';
import type { Paginate } from '../../schemas/wire.ts';
import { externalName } from '../../text/fold.ts';
import { readTotals } from '../records/journal.ts';
import { enqueueTurn } from '../records/turns.ts';
import { unavailable } from '../../errors.ts';

/*
 * Duplicates by several values, or by a value that only the service can compute, are counted by workers. A customer who
 * asks for them gets the last count. Workers count again every few minutes, until a day after the customer asked last.
 * For a customer with few records they also count again when the customer asks.
 */

type CountedKey = Extract<DuplicateKey, 'name_and_company' | 'external_name'>;

const maxShownAge = '15 minutes';
const recountAfter = '10 minutes';
/** Maximum number of contacts and companies for which an old count is made again when the customer asks. */
const fewRecords = 20_000;
/** Time for which workers keep counting a customer's duplicates after the customer's last request (SQL interval). */
const countFor = '1 day';

interface LastCount {
  asOf: string;
  /** True if workers are about to count again. */
  isDue: boolean;
}

/**
 * Stores that the customer wants a count of one kind of duplicates. Enqueues a count if none can be shown, or if the
 * last one is older than ten seconds and the customer has few records.
 * @returns the last count; undefined if none can be shown
 */
async function askForCount(sql: Transaction, customerId: string, kind: CountedKey): Promise<LastCount | undefined> {
  // Writes at most once a minute: many callers may ask at the same time.
  await sql`
    update duplicate_counts
    set asked_at = now()
    where customer_id = ${customerId}
      and kind = ${kind}
      and asked_at < now() - interval '1 minute'`;
  await sql`
    insert into duplicate_counts (customer_id, kind)
    values (${customerId}, ${kind})
    on conflict (customer_id, kind) do nothing`;
  const [last] = await sql<(LastCount & { is_old: boolean })[]>`
    select
      counted_at as "asOf",
      counted_at <= now() - ${recountAfter}::interval as "isDue",
      ${isOld(sql)} as is_old
    from duplicate_counts
    where customer_id = ${customerId}
      and kind = ${kind}
      and counted_at > now() - ${maxShownAge}::interval`;
  if (!last) await enqueueTurn(sql, 'count-duplicates', customerId);
  if (!last?.is_old) return last;
  const { contacts, companies } = await readTotals(sql, customerId);
  if (contacts + companies > fewRecords) return last;
  // Of many callers, only the first makes the count due.
  await makeDue(sql, customerId, sql`kind = ${kind} and ${isOld(sql)}`);
  return { ...last, isDue: true };
}

/** Returns the SQL condition that a count is older than ten seconds, and is not due yet. A count that is running is due. */
const isOld = (sql: Queryable): Fragment => sql`(
  counted_at < now() - interval '10 seconds'
  and counted_at > now() - ${recountAfter}::interval
)`;

/**
 * Makes the counts of a customer's duplicates due, because records were merged, taken apart or imported. Pages show the
 * old counts until there are new ones.
 */
export const countAgain = (sql: Transaction, customerId: string): Promise<void> =>
  makeDue(sql, customerId, sql`counted_at is not null`);

async function makeDue(sql: Transaction, customerId: string, which: Fragment): Promise<void> {
  // What was never counted is due, and has nothing to show. The time changes in any case, so a count that is running sees
  // that it must be followed by another one.
  // Due since a minute, so that a caller whose transaction has begun earlier sees that it is due, too.
  // A distributed database refuses an update that computes a time from a column of its table.
  const { count: kinds } = await sql`
    with due as (
      select
        kind,
        least(
          counted_at - interval '1 millisecond',
          now() - ${recountAfter}::interval - interval '1 minute'
        ) as counted_at
      from duplicate_counts
      where customer_id = ${customerId}
        and ${which}
      for update
    )
    update duplicate_counts c
    set counted_at = due.counted_at
    from due
    where c.customer_id = ${customerId}
      and c.kind = due.kind`;
  if (kinds > 0) await enqueueTurn(sql, 'count-duplicates', customerId);
}

/**
 * Maximum number of characters of a value that a cursor contains. Values with the same beginning are sorted by their
 * hash.
 */
const partLength = 100;

/**
 * A page by number, or the page after a group of duplicates. `after` has the group's number of records, and the
 * beginning and hash of its shared value.
 */
type DuplicatesPage = Paginate & { after?: Position | undefined };

/** A group, with the number of all groups, or 0 after a cursor: it would be counted again for each page. */
type ListedGroup = DuplicateGroup & { groups: number };

const keysOf = (value: string): string => `left(${value}, ${partLength}) collate "C", md5(${value}) collate "C"`;

const groupOrder = (sql: Sql, value: string): Fragment => constant(sql, keysOf(value));

function isAfterGroup(sql: Sql, count: string, value: string, { after }: DuplicatesPage): Fragment {
  if (!after) return sql`true`;
  const [records, ...keys] = after.values as [number, string, string];
  const number = constant(sql, count);
  return sql`(
    ${number} < ${records}
    or ${number} = ${records} and (${constant(sql, keysOf(value))}) > (${keys[0]}::text, ${keys[1]}::text)
  )`;
}

const listCountedDuplicates = (
  sql: Sql,
  customerId: string,
  kind: CountedKey,
  paginate: DuplicatesPage = {},
): Promise<ListedGroup[]> => sql`
  select value, records as count, ids, ${paginate.after ? 0 : sql`count(*) over ()`}::integer as groups
  from duplicate_groups
  where customer_id = ${customerId}
    and kind = ${kind}
    and ${isAfterGroup(sql, 'records', 'value', paginate)}
  order by records desc, ${groupOrder(sql, 'value')}
  ${limitAndOffset(sql, paginate)}`;

/**
 * Returns the SQL condition that a row of `duplicate_counts` needs work: its count is missing or old, or nobody wants
 * it any more.
 */
const isDue = (sql: Queryable): Fragment => sql`(
  counted_at is null
  or counted_at <= now() - ${recountAfter}::interval
  or asked_at < now() - ${countFor}::interval
)`;

export const findCountingCustomers = findCustomersWith((sql) => sql`from duplicate_counts where ${isDue(sql)}`);

/**
 * Counts one due kind of a customer's duplicates, or deletes a count that nobody wants any more. Readers see the last
 * count until the transaction commits.
 * @returns false if none is due
 */
export async function countNextDuplicates(sql: Transaction, customerId: string): Promise<boolean> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`duplicates:${customerId}`}, 0))`;
  const [due] = await sql<Due[]>`
    select kind, now() as now, counted_at::text, asked_at >= now() - ${countFor}::interval as is_wanted
    from duplicate_counts
    where customer_id = ${customerId}
      and ${isDue(sql)}
    order by kind
    limit 1`;
  if (!due) return false;
  // Before its groups: if the customer asks meanwhile, the count stays, and its groups must not be gone.
  if (!due.is_wanted && !(await forget(sql, customerId, due.kind))) return true;
  await sql`
    delete from duplicate_groups
    where customer_id = ${customerId}
      and kind = ${due.kind}`;
  if (due.is_wanted) await count(sql, customerId, due);
  return true;
}

async function forget(sql: Transaction, customerId: string, kind: CountedKey): Promise<boolean> {
  const { count: forgotten } = await sql`
    delete from duplicate_counts
    where customer_id = ${customerId}
      and kind = ${kind}
      and asked_at < now() - ${countFor}::interval`;
  return forgotten === 1;
}

interface Due {
  kind: CountedKey;
  now: string;
  counted_at: string | null;
  is_wanted: boolean;
}

async function count(sql: Transaction, customerId: string, { kind, now, counted_at }: Due) {
  const read = () => readValues(sql, customerId, kind);
  const { hashes, parts } = await findRepeatedHashes(read());
  let number = 0;
  for (let part = 0; part < parts; part += 1) {
    const groups = await groupValues(read(), (hash) => hash % parts === part && hashes.has(hash));
    for (let i = 0; i < groups.length; i += groupsAtOnce, number += groupsAtOnce)
      await insertGroups(sql, customerId, kind, number, groups.slice(i, i + groupsAtOnce));
  }
  await sql`
    update duplicate_counts
    set counted_at = ${now}
    where customer_id = ${customerId}
      and kind = ${kind}
      and counted_at is not distinct from ${counted_at}::text::timestamptz`;
}

interface Valued {
  id: string;
  value: string;
}

const recordsAtOnce = 5_000;
const groupsAtOnce = 1_000;
/** Maximum number of records whose values are in memory at the same time. Each needs about 250 bytes. */
const recordsInMemory = 200_000;

async function* readValues(sql: Transaction, customerId: string, kind: CountedKey): AsyncGenerator<Valued> {
  const slice = new TimeSlice();
  for (let after = lowestId; ;) {
    const rows = await readers[kind](sql, customerId, after);
    for (const { id, ...parts } of rows) {
      const value = valueOf[kind](parts);
      if (value !== '') yield { id, value };
      if (slice.isOver) await slice.pause();
    }
    if (rows.length < recordsAtOnce) return;
    after = rows.at(-1)!.id;
  }
}

interface Named {
  name: string;
  company: string | null;
}

const readers: Record<
  CountedKey,
  (sql: Transaction, customerId: string, after: string) => Promise<(Named & { id: string })[]>
> = {
  name_and_company: (sql, customerId, after) => sql`
    select
      c.id,
      concat_ws(' ', c.folded ->> 'first_name', c.folded ->> 'last_name') as name,
      co.folded_company_name as company
    from contacts c
    ${lookUpCompany(sql, customerId, 'c')}
    where c.customer_id = ${customerId}
      and c.id > ${after}
    order by c.id
    limit ${recordsAtOnce}`,
  external_name: (sql, customerId, after) => sql`
    select co.id, co.company_name as name, null as company
    from ${liveCompanies(sql, customerId)}
      and co.id > ${after}
    order by co.id
    limit ${recordsAtOnce}`,
};

const valueOf: Record<CountedKey, (parts: Named) => string> = {
  name_and_company: ({ name, company }) =>
    name.trim() === '' || (company ?? '') === '' ? '' : `${name.trim()}, ${company}`,
  external_name: ({ name }) => externalName(name),
};

// Hashes of a million records take four megabytes.
/**
 * Returns the hashes that several records share. `parts`: number of passes over the records, so that the values of one
 * pass fit into memory.
 */
async function findRepeatedHashes(records: AsyncIterable<Valued>): Promise<{ hashes: Set<number>; parts: number }> {
  let [all, size] = [new Uint32Array(1024), 0];
  for await (const { value } of records) {
    if (size === all.length) {
      const larger = new Uint32Array(size * 2);
      larger.set(all);
      all = larger;
    }
    all[size++] = crc32(value);
  }
  const sorted = all.subarray(0, size).sort();
  const hashes = new Set<number>();
  let repeated = 0;
  for (const [i, hash] of sorted.entries()) {
    if (hash !== sorted[i - 1] && hash !== sorted[i + 1]) continue;
    hashes.add(hash);
    repeated += 1;
  }
  return { hashes, parts: Math.ceil(repeated / recordsInMemory) };
}

async function groupValues(records: AsyncIterable<Valued>, isWanted: (hash: number) => boolean) {
  const groups = new Map<string, DuplicateGroup>();
  for await (const { id, value } of records) {
    if (!isWanted(crc32(value))) continue;
    const group = groups.get(value) ?? { value, count: 0, ids: [] };
    groups.set(value, group);
    group.count += 1;
    if (group.ids.length < maxDuplicateIds) group.ids.push(id);
  }
  return [...groups.values()].filter((group) => group.count > 1);
}

async function insertGroups(
  sql: Transaction,
  customerId: string,
  kind: CountedKey,
  number: number,
  groups: readonly DuplicateGroup[],
): Promise<void> {
  const rows = groups.map((group, i) => ({ number: number + i, ...group }));
  await sql`
    insert into duplicate_groups (customer_id, kind, number, value, records, ids)
    select ${customerId}, ${kind}, number, value, count, ids
    from jsonb_to_recordset(${sql.json(rows)}) as given (number integer, value text, count integer, ids uuid[])`;
}

const retrySeconds = 5;

const isCounted = (key: DuplicateKey): key is CountedKey => key === 'name_and_company' || key === 'external_name';

/**
 * Returns one page of the values that several of the customer's records share, the most frequent first.
 * @returns `asOf`: time at which workers counted them; undefined if they were counted now. `isDue`: true if workers are
 * about to count them again. `groups`: number of all groups, unless a cursor gives the page
 * @throws DomainError `unavailable` until workers have counted them
 */
export async function findDuplicates(
  db: Database,
  customerId: string,
  { by, paginate = {} }: { by: DuplicateKey; paginate?: PageOrCursor | undefined },
): Promise<RecordPage<DuplicateGroup> & { asOf: string | undefined; isDue: boolean; groups: number }> {
  const last = isCounted(by) ? await db.transaction((sql) => askForCount(sql, customerId, by)) : undefined;
  if (isCounted(by) && !last) throw unavailable('These duplicates are being counted', retrySeconds);
  const list = { list: ['duplicates', by], customerId, columns: placeColumns, positionOf: positionOfGroup };
  const page = await readPage(list, paginate, (after) =>
    db.search((sql) =>
      isCounted(by)
        ? listCountedDuplicates(sql, customerId, by, { ...paginate, after })
        : listDuplicates(sql, customerId, by, { ...paginate, after }),
    ),
  );
  const rows = page.rows.map(({ groups: _all, ...group }) => group);
  return { ...page, rows, asOf: last?.asOf, isDue: last?.isDue ?? false, groups: page.rows[0]?.groups ?? 0 };
}

const placeColumns: Column[] = [
  { type: 'integer', value: 'count', raw: 'count', required: true },
  { type: 'exact', value: 'part', raw: 'part', required: true },
  { type: 'exact', value: 'hash', raw: 'hash', required: true },
];

function positionOfGroup({ value, count, ids }: DuplicateGroup): Position {
  const part = [...value].slice(0, partLength).join('');
  return { id: ids[0]!, values: [count, part, createHash('md5').update(value).digest('hex')] };
}

interface IndexedValue {
  table: 'contacts' | 'companies';
  value: string;
  /** SQL condition for the records `r` that are compared. Every visible record with a value must meet it. */
  counts: string;
  identifies?: string;
  hasValue: string;
}

const workEmail = `(r.folded ->> 'work_email') collate "C"`;
const profile = `(r.folded ->> 'profnet_url') collate "C"`;
const name = `(r.folded ->> 'company_name') collate "C"`;

const indexedValues: Record<Exclude<DuplicateKey, CountedKey>, IndexedValue> = {
  work_email: { table: 'contacts', value: workEmail, counts: 'true', hasValue: `${workEmail} = g.value` },
  profnet_url: {
    table: 'contacts',
    value: profile,
    counts: 'r.profnet_url is not null',
    // As `profileKey` decides; here for each value that several contacts share.
    identifies: `v.value ~ '^([a-z][a-z0-9+.-]*://)?[^/?#[:space:]]+[.][^/?#[:space:]]+(/+[^/?#]+)*/+[^/?#]+/+[^/?#]*[[:alnum:]][^/?#]*/*([?#]|$)'`,
    // The index has a hash of the value, because a URL can be longer than an index entry may be.
    hasValue: `hashtextextended(${profile}, 0) = hashtextextended(g.value, 0) and ${profile} = g.value`,
  },
  name: { table: 'companies', value: name, counts: 'r.deleted_at is null', hasValue: `${name} = g.value` },
  domain: { table: 'companies', value: 'r.domain', counts: 'r.deleted_at is null', hasValue: 'r.domain = g.value' },
};

function listDuplicates(
  sql: Sql,
  customerId: string,
  by: keyof typeof indexedValues,
  paginate: DuplicatesPage = {},
): Promise<ListedGroup[]> {
  const { table, value, counts, identifies = 'true', hasValue } = indexedValues[by];
  const records = sql`${constant(sql, table)} r where r.customer_id = ${customerId}::uuid and ${constant(sql, counts)}`;
  return sql<ListedGroup[]>`
    with g as materialized (
      select v.value, count(*)::integer as count, count(*) over ()::integer as groups
      from (select ${constant(sql, value)} as value from ${records}) v
      where v.value <> ''
      group by v.value
      having count(*) > 1 and ${constant(sql, identifies)} and ${isAfterGroup(sql, 'count(*)', 'v.value', paginate)}
      order by count desc, ${groupOrder(sql, 'v.value')}
      ${limitAndOffset(sql, paginate)}
    )
    select
      g.value,
      g.count,
      g.groups,
      array(
        select r.id
        from ${records}
          and ${constant(sql, hasValue)}
        order by r.id
        limit ${maxDuplicateIds}
      ) as ids
    from g
    order by g.count desc, ${groupOrder(sql, 'g.value')}`;
}
