import { createHash } from 'node:crypto';
import type { Database, Sql } from '../../database/db.ts';
import { unavailable } from '../../errors.ts';
import { constant, type Fragment } from '../../filters/sql.ts';
import { maxDuplicateIds, type DuplicateGroup, type DuplicateKey } from '../../schemas/clean-data/duplicates.ts';
import type { Column } from '../../filters/columns.ts';
import type { Position } from '../../filters/cursor.ts';
import { limitAndOffset, readPage, type PageOrCursor } from '../records/paging.ts';
import type { RecordPage } from '../records/paging.ts';
import { columnOf } from './merges/merges.ts';
import {
  askForCount,
  groupOrder,
  isAfterGroup,
  listCountedDuplicates,
  partLength,
  type CountedKey,
  type DuplicatesPage,
} from './duplicate-counts.ts';

/** Seconds until a caller should ask again for a count that is not there yet. */
const retrySeconds = 5;

const isCounted = (key: DuplicateKey): key is CountedKey => key === 'name_and_company' || key === 'external_name';

/**
 * Returns one page of the values that several of the customer's records share: the most frequent first, then by value.
 * @returns `asOf`: when workers have counted them; undefined if they are as of now
 * @throws DomainError `unavailable` until workers have counted them
 */
export async function findDuplicates(
  db: Database,
  customerId: string,
  { by, paginate = {} }: { by: DuplicateKey; paginate?: PageOrCursor | undefined },
): Promise<RecordPage<DuplicateGroup> & { asOf: string | undefined }> {
  const asOf = isCounted(by) ? await db.transaction((sql) => askForCount(sql, customerId, by)) : undefined;
  if (isCounted(by) && asOf === undefined) throw unavailable('These duplicates are being counted', retrySeconds);
  const list = { list: ['duplicates', by], customerId, columns: placeColumns, positionOf: placeOf };
  const page = await readPage(list, paginate, (after) =>
    db.search((sql) =>
      isCounted(by)
        ? listCountedDuplicates(sql, customerId, by, { ...paginate, after })
        : listDuplicates(sql, customerId, by, { ...paginate, after }),
    ),
  );
  return { ...page, asOf };
}

/** The sort keys of a list of duplicates: how many share the value, then the value, of which cursors have a part. */
const placeColumns: Column[] = [
  { type: 'integer', value: 'count', raw: 'count', required: true },
  { type: 'exact', value: 'part', raw: 'part', required: true },
  { type: 'exact', value: 'hash', raw: 'hash', required: true },
];

function placeOf({ value, count, ids }: DuplicateGroup): Position {
  const part = [...value].slice(0, partLength).join('');
  return { id: ids[0]!, values: [count, part, createHash('md5').update(value).digest('hex')] };
}

/**
 * Returns groups of duplicates that are equal in all fields, the oldest record of each first.
 * @param fields the fields that a merge writes
 * @returns at most `limit` groups, of each at most `size` records; none until workers have counted the duplicates
 */
export function listEqualDuplicates(
  sql: Sql,
  customerId: string,
  by: DuplicateKey,
  { fields, limit, size }: { fields: readonly string[]; limit: number; size: number },
): Promise<{ ids: string[] }[]> {
  const { table, counts } = tables[by];
  const columns = fields.map((name) => `r.${columnOf(name)}`).join(', ');
  return sql<{ ids: string[] }[]>`
    ${isCounted(by) ? countedIn(sql, customerId, by) : sharedIn(sql, customerId, by)}
    select (array_agg(r.id order by r.id))[1:${size}::integer] as ids
    from g
    join ${constant(sql, table)} r
      on r.customer_id = ${customerId}::uuid
      and ${constant(sql, counts)}
      and ${constant(sql, isCounted(by) ? 'r.id = g.id' : indexedValues[by].hasValue)}
    group by ${constant(sql, columns)}
    having count(*) > 1
    order by ids
    limit ${limit}`;
}

const countedIn = (sql: Sql, customerId: string, kind: CountedKey): Fragment => sql`
  with g as materialized (
    select unnest(ids) as id
    from duplicate_groups
    where customer_id = ${customerId}
      and kind = ${kind}
  )`;

function sharedIn(sql: Sql, customerId: string, by: keyof typeof indexedValues): Fragment {
  const { table, value, counts, identifies = 'true' } = indexedValues[by];
  return sql`
    with g as materialized (
      select v.value
      from (
        select ${constant(sql, value)} as value
        from ${constant(sql, table)} r
        where r.customer_id = ${customerId}::uuid
          and ${constant(sql, counts)}
      ) v
      where v.value <> ''
      group by v.value
      having count(*) > 1 and ${constant(sql, identifies)}
    )`;
}

/** A value by which duplicates are found as of now: one column with an index. */
interface IndexedValue {
  table: 'contacts' | 'companies';
  /** SQL expression: the folded value of the record `r`. */
  value: string;
  /** SQL condition: the record `r` counts. It must not exclude a record that has a value and is visible. */
  counts: string;
  /** SQL condition: the value `v.value` identifies somebody. Default: every value does. */
  identifies?: string;
  /** SQL condition that finds the records `r` with the value `g.value` by an index. */
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

const tables: Record<DuplicateKey, Pick<IndexedValue, 'table' | 'counts'>> = {
  ...indexedValues,
  name_and_company: { table: 'contacts', counts: 'true' },
  external_name: { table: 'companies', counts: indexedValues.name.counts },
};

/**
 * Returns one page of the values that several of the customer's records share: the most frequent first, then by value.
 * Reads all records of the customer once.
 */
export function listDuplicates(
  sql: Sql,
  customerId: string,
  by: keyof typeof indexedValues,
  paginate: DuplicatesPage = {},
): Promise<DuplicateGroup[]> {
  const { table, value, counts, identifies = 'true', hasValue } = indexedValues[by];
  const records = sql`${constant(sql, table)} r where r.customer_id = ${customerId}::uuid and ${constant(sql, counts)}`;
  return sql<DuplicateGroup[]>`
    with g as materialized (
      select v.value, count(*)::integer as count
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
