import type { Queryable, Transaction, Sql, Database } from '../../database/db.ts';
import { notFound, validationFailed } from '../../errors.ts';
import { type Fragment, constant, liveRecords } from '../../filters/sql.ts';
import { type Column, all } from '../../filters/columns.ts';
import { encodeCursor, readPosition, scopeOf, type Position } from '../../filters/cursor.ts';
import { defaultLimit, type Paginate } from '../../schemas/wire.ts';
import { newestPlace, type FeedPosition } from './feed.ts';

/** Returns the customer's records with these ids, in any order. Leaves out unknown ids. */
export type FindRecords<Row> = (sql: Queryable, customerId: string, ids: readonly string[]) => Promise<Row[]>;

/**
 * Creates a record, and returns its id.
 * @throws DomainError `not_found` if `body` refers to records that the customer does not have
 */
export type CreateRecord<Body> = (sql: Transaction, customerId: string, body: Body) => Promise<string>;

/**
 * Changes the fields that `patch` contains. Changes none of them if one fails.
 * @throws DomainError `not_found` if the customer has no such record; `precondition_failed` if `ifMatch` is not its
 *   ETag
 */
export type UpdateRecord<Patch> = (
  sql: Transaction,
  customerId: string,
  id: string,
  patch: Patch,
  ifMatch?: string,
) => Promise<void>;

/**
 * Deletes a record.
 * @param purge true removes the record for good, also if it is already deleted. Only contacts and companies support it
 * @throws DomainError `not_found` if the customer has no such record; `precondition_failed` if `ifMatch` is not its
 *   ETag
 */
export type DeleteRecord = (
  sql: Transaction,
  customerId: string,
  id: string,
  ifMatch?: string,
  purge?: boolean,
) => Promise<void>;

/**
 * Returns a function that finds records by their ids. Leaves out ids for which `one` selects nothing.
 * @param one returns the SQL `select` of the record whose id is `wanted.id`
 */
export const finderOf =
  <Row extends object>(one: (sql: Queryable, customerId: string) => Fragment): FindRecords<Row> =>
  (sql, customerId, ids) =>
    // `offset 0` keeps the plan for a single id. Without it, the planner may join all of the customer's rows.
    sql<Row[]>`
      select found.*
      from unnest(${ids as string[]}::uuid[]) as wanted (id)
      cross join lateral (${one(sql, customerId)} offset 0) as found`;

/**
 * Returns SQL for the number of rows, up to `max` + 1.
 * @param rows SQL clauses `from` and `where`
 */
export const countUpTo = (sql: Queryable, rows: Fragment, max: number): Fragment =>
  sql`(select count(*)::integer from (select 1 ${rows} limit ${max + 1}) few)`;

/** Returns the ids of up to `limit` customers after the id `after`, in ascending order. */
export type FindCustomers = (sql: Queryable, page: { after: string; limit: number }) => Promise<string[]>;

export const findCustomersWith =
  (rows: (sql: Queryable) => Fragment): FindCustomers =>
  async (sql, { after, limit }) => {
    const found = await sql<{ customer_id: string }[]>`
      select distinct customer_id
      ${rows(sql)}
        and customer_id > ${after}
      order by customer_id
      limit ${limit}`;
    return found.map(({ customer_id }) => customer_id);
  };

const ownedBy = { api_keys: 'API key', jobs: 'job', users: 'user', webhook_endpoints: 'webhook endpoint' } as const;
export type OwnedTable = keyof typeof ownedBy;

/**
 * Returns the customer of a record. Searches the records of all customers, so only the command line uses it.
 * @throws DomainError `not_found`
 */
export async function requireOwner(sql: Queryable, table: OwnedTable, id: string): Promise<string> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from ${sql(table)}
    where id = ${id}`;
  if (!row) throw notFound(ownedBy[table]);
  return row.customer_id;
}

export const inOrderOf = <Row extends { id: string }>(ids: readonly string[], rows: readonly Row[]): Row[] => {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
};

/** Groups rows by one of their columns. Returns the values of each group, in the order of the rows. */
export function valuesBy<Row, Name extends keyof Row, Value>(
  rows: readonly Row[],
  name: Name,
  valueOf: (row: Row) => Value,
): Map<Row[Name], Value[]> {
  const groups = Map.groupBy(rows, (row) => row[name]);
  return new Map(Array.from(groups, ([key, some]) => [key, some.map(valueOf)]));
}

export interface RecordPage<Row> {
  rows: Row[];
  nextCursor: string | undefined;
}

export const limitAndOffset = (sql: Sql, { page = 1, limit = defaultLimit }: Paginate = {}) => sql`
  limit ${limit}
  offset ${(page - 1) * limit}`;

export type PageOrCursor = Paginate & { cursor?: string };

export type PageById = Paginate & { after?: string | undefined };

export const isAfter = (sql: Sql, column: string, { after }: PageById = {}): Fragment =>
  after === undefined ? sql`true` : sql`${constant(sql, column)} < ${after}::uuid`;

/**
 * Reads one page of a list that is sorted by id, newest first.
 * @param list name of the list with its filters; a cursor is valid for one list of one customer
 * @throws DomainError `validation_failed` if the cursor is invalid or belongs to another list
 */
export const pageById = <Row extends { id: string }>(
  list: readonly unknown[],
  customerId: string,
  paginate: PageOrCursor = {},
  read: (page: PageById) => Promise<Row[]>,
): Promise<RecordPage<Row>> =>
  readPage({ list, customerId, columns: [], positionOf: ({ id }) => ({ id, values: [] }) }, paginate, (after) =>
    read({ ...paginate, after: after?.id }),
  );

interface PagedList<Row> {
  list: readonly unknown[];
  customerId: string;
  /** Sort columns, whose values a cursor contains. A cursor also contains the id of the page's last row. */
  columns: Column[];
  positionOf: (row: Row) => Position;
}

export async function readPage<Row>(
  { list, customerId, columns, positionOf }: PagedList<Row>,
  paginate: PageOrCursor = {},
  read: (after: Position | undefined) => Promise<Row[]>,
): Promise<RecordPage<Row>> {
  const scope = scopeOf(JSON.stringify(list), customerId, all([]), []);
  const rows = await read(readPosition(scope, columns, paginate, 'this list'));
  const isFull = rows.length === (paginate.limit ?? defaultLimit);
  return { rows, nextCursor: isFull ? encodeCursor(scope, positionOf(rows.at(-1)!)) : undefined };
}

/**
 * Digest of a bucket: the number of its records, and a hash of their ids and `updated_at`. Each record belongs to one
 * of several buckets.
 */
interface DigestBucket {
  bucket: number;
  count: number;
  hash: string;
  records?: DigestRecord[];
}

interface DigestRecord {
  id: string;
  updated_at: string;
}

export interface Digest {
  /** Feed position at which the digest was read. Later events are not part of it. */
  place: FeedPosition;
  buckets: DigestBucket[];
}

const maxListedRecords = 20_000;

/**
 * Reads the digests of all buckets of a customer's contacts or companies. With `bucket`, reads only that bucket's
 * digest, and its records.
 * @throws DomainError `validation_failed` if there is no such bucket, or it has too many records to list
 */
export async function readDigest(
  db: Database,
  customerId: string,
  table: 'contacts' | 'companies',
  { buckets: number, bucket: only }: { buckets: number; bucket?: number | undefined },
): Promise<Digest> {
  if (only !== undefined && only >= number)
    throw validationFailed([{ path: '/bucket', message: `must be below the number of buckets, ${number}` }]);
  const rows = await db.search((sql) => readRows(sql, customerId, table, number, only));
  const { position, place_id } = rows[0]!;
  const found = new Map(rows.map(({ bucket, count, hash, records }) => [bucket, { count, hash, records }]));
  const wanted = only === undefined ? Array.from({ length: number }, (_, bucket) => bucket) : [only];
  const buckets = wanted.map((bucket): DigestBucket => {
    const { count = 0, hash = '0'.repeat(16), records = [] } = found.get(bucket) ?? {};
    return { bucket, count, hash, ...(only !== undefined && { records: records ?? [] }) };
  });
  if (only !== undefined && buckets[0]!.count > maxListedRecords)
    throw validationFailed([
      { path: '/buckets', message: `must be greater: bucket ${only} has more than ${maxListedRecords} records` },
    ]);
  return { place: { position, id: place_id }, buckets };
}

interface Row {
  position: number;
  place_id: string | null;
  bucket: number | null;
  count: number;
  hash: string;
  records: DigestRecord[] | null;
}

const readRows = (
  sql: Sql,
  customerId: string,
  table: 'contacts' | 'companies',
  number: number,
  only: number | undefined,
): Promise<Row[]> => {
  // The listed rows are cut off, so that a bucket of a million is counted, not collected.
  const records = sql`
    json_agg(json_build_object('id', id, 'updated_at', shown) order by id) filter (where number <= ${maxListedRecords + 1})`;
  return sql<Row[]>`
    with place as materialized (${newestPlace(sql, customerId)}),
    hashed as (
      select
        r.id,
        to_char(r.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as shown,
        (get_byte(sha256(uuid_send(r.id)), 0) * 16 + get_byte(sha256(uuid_send(r.id)), 1) / 16) % ${number}::integer as bucket
      from ${liveRecords(sql, table, customerId)}
    ),
    chosen as (
      select id, shown, bucket, ${only === undefined ? sql`0` : sql`row_number() over ()`} as number
      from hashed
      ${only === undefined ? sql`` : sql`where bucket = ${only}::integer`}
    ),
    digests as (
      select
        bucket,
        count(*) as count,
        lpad(to_hex(bit_xor(substr(sha256(uuid_send(id) || convert_to(shown, 'UTF8')), 1, 8)::bigint)), 16, '0') as hash
        ${only === undefined ? sql`, null::json as records` : sql`, ${records} as records`}
      from chosen
      group by bucket
    )
    select place.position, place.id as place_id, digests.*
    from place
    left join digests on true`;
};
