import type { Database, Sql } from '../../database/db.ts';
import { validationFailed } from '../../errors.ts';
import { liveCompanies } from '../../filters/live.ts';
import { newestPlace, type FeedPosition } from '../events/feed.ts';

/** What a digest says of a bucket of records: their number, and a hash of their ids and `updated_at`. */
export interface DigestBucket {
  bucket: number;
  count: number;
  /** 16 hex digits. */
  hash: string;
  records?: DigestRecord[];
}

export interface DigestRecord {
  id: string;
  updated_at: string;
}

export interface Digest {
  /** The records are those after the event at this place. */
  place: FeedPosition;
  buckets: DigestBucket[];
}

/** Records of one bucket that an answer lists. */
const maxListed = 20_000;

/**
 * Reads a digest of a customer's contacts or companies, in one snapshot.
 * @param only the bucket to read, with its records
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
  if (only !== undefined && buckets[0]!.count > maxListed)
    throw validationFailed([
      { path: '/buckets', message: `must be greater: bucket ${only} has more than ${maxListed} records` },
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
  const source =
    table === 'companies'
      ? liveCompanies(sql, customerId, 'r')
      : sql`contacts r where r.customer_id = ${customerId}::uuid`;
  // The listed rows are cut off, so that a bucket of a million is counted, not collected.
  const records = sql`
    json_agg(json_build_object('id', id, 'updated_at', shown) order by id) filter (where number <= ${maxListed + 1})`;
  return sql<Row[]>`
    with place as materialized (${newestPlace(sql, customerId)}),
    hashed as (
      select
        r.id,
        ${sql`to_char(r.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`} as shown,
        (get_byte(sha256(uuid_send(r.id)), 0) * 16 + get_byte(sha256(uuid_send(r.id)), 1) / 16) % ${number}::integer as bucket
      from ${source}
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
