import type { Sql, Transaction } from '../database/db.ts';
import { settingColumns, type ImportSettings } from './imports.ts';
import type { NextTurn } from './job-leases.ts';
import { leaseSeconds } from './jobs.ts';

/** The position of a record in the file of an import. */
export interface ImportPosition {
  /** Offset in the uncompressed file (bytes). */
  bytes: number;
  /** Line number at this offset. The first line is 1. */
  line: number;
}

/** An import, with the data that a worker needs to process it. */
export interface ImportRow extends ImportSettings {
  customer_id: string;
  id: string;
  upload: string;
  file_bytes: number;
  /** The columns of a CSV file. Null for NDJSON, and for CSV until the header has been read. */
  layout: object | null;
  /** Where the next record starts; null at the beginning of the file. */
  position: ImportPosition | null;
  /** Number of records that the first pass over the file has counted so far. */
  counted: number;
  /**
   * Number of records in the file. Null until the first pass, which counts the records, has ended. The second pass
   * writes the records.
   */
  total: number | null;
  /** Number of unexpected errors in a row. */
  failures: number;
}

/** An import and the id of its lease. A lease is a worker's time-limited claim on an import. */
export interface LeasedImport extends ImportRow {
  lease: string;
}

const columns = (sql: Sql | Transaction) => sql`
  i.customer_id, i.id, i.upload, i.file_bytes, i.layout, i.position, i.counted, i.total, i.failures, ${settingColumns(sql)}`;

/**
 * Gives one waiting import of the customer to this worker for a limited time (a lease). Chooses the import that has not
 * been processed for the longest time.
 * @param only id of an import; if given, only this import is considered
 * @returns the import, or undefined if no import is waiting
 */
export async function leaseImport(
  sql: Transaction,
  customerId: string,
  only?: string,
): Promise<LeasedImport | undefined> {
  const [row] = await sql<LeasedImport[]>`
    with next as (
      select i.id, (select clock_timestamp()) as now
      from imports i
      join customers c on c.id = i.customer_id
      where i.customer_id = ${customerId}
        ${only === undefined ? sql`` : sql`and i.id = ${only}`}
        and ${isWaiting(sql)}
      order by i.served_at nulls first, i.id
      limit 1
      for no key update of i skip locked
    )
    update imports i
    set
      status = 'PROCESSING',
      lease = (select gen_random_uuid()),
      leased_until = (select clock_timestamp()) + ${leaseSeconds} * interval '1 second',
      served_at = next.now,
      started_at = coalesce(i.started_at, next.now)
    from next
    where i.customer_id = ${customerId}
      and i.id = next.id
    returning ${columns(sql)}, i.lease`;
  return row;
}

/**
 * Locks an import until the transaction ends, and extends the worker's time-limited claim on the import (the lease).
 * Returns undefined if the worker has lost the lease, because the import has ended or another worker has taken it.
 */
export async function lockLeasedImport(
  sql: Transaction,
  customerId: string,
  leased: LeasedImport,
): Promise<ImportRow | undefined> {
  const [row] = await sql<ImportRow[]>`
    update imports i
    set leased_until = (select clock_timestamp()) + ${leaseSeconds} * interval '1 second'
    where i.customer_id = ${customerId}
      and i.id = ${leased.id}
      and i.lease = ${leased.lease}
    returning ${columns(sql)}`;
  return row;
}

/**
 * Saves the progress of the first pass over an import's file, which counts the records. The caller must have locked the
 * import.
 */
export async function saveReading(
  sql: Transaction,
  customerId: string,
  { id, layout, position, counted }: Pick<ImportRow, 'id' | 'layout' | 'position' | 'counted'>,
): Promise<void> {
  await sql`
    update imports
    set
      layout = ${layout ? sql.json(layout as never) : null},
      position = ${position ? sql.json({ ...position }) : null},
      counted = ${counted},
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Ends the first pass over an import's file, which counts the records, and saves the total. The second pass, which
 * writes the records, can then start. The caller must have locked the import.
 */
export async function endReading(
  sql: Transaction,
  customerId: string,
  { id, layout, counted }: Pick<ImportRow, 'id' | 'layout' | 'counted'>,
): Promise<void> {
  await saveReading(sql, customerId, { id, layout, position: null, counted });
  await sql`
    update imports
    set total = counted
    where customer_id = ${customerId}
      and id = ${id}`;
}

/** Numbers of records that an import has processed, by outcome. */
export interface ImportCounts {
  created: number;
  updated: number;
  unchanged: number;
  failed: number;
}

/**
 * Adds the numbers of newly processed records to an import, and saves the position of the next record in the file. The
 * caller must have locked the import.
 * @returns the number of records processed so far
 */
export async function saveWritten(
  sql: Transaction,
  customerId: string,
  id: string,
  position: ImportPosition,
  { created, updated, unchanged, failed }: ImportCounts,
): Promise<number> {
  const [row] = await sql<[{ processed: number }]>`
    update imports
    set
      position = ${sql.json({ ...position })},
      created = created + ${created},
      updated = updated + ${updated},
      unchanged = unchanged + ${unchanged},
      failed = failed + ${failed},
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}
    returning created + updated + unchanged + failed as processed`;
  return row.processed;
}

/**
 * Ends a worker's time-limited claim on an import (its lease), so that any worker can take the import at once. Does
 * nothing if the worker has already lost the claim.
 */
export async function releaseImport(sql: Transaction, customerId: string, leased: LeasedImport): Promise<void> {
  await sql`
    update imports
    set lease = null, leased_until = null
    where customer_id = ${customerId}
      and id = ${leased.id}
      and lease = ${leased.lease}`;
}

/**
 * Makes an import wait after an error, before a worker tries it again. Does nothing if the caller has lost its
 * time-limited claim on the import (its lease). Afterwards nobody has a claim, so that a later `releaseImport` does not
 * end the wait.
 * @param seconds time until a worker can take the import again
 * @param failed true if the import's count of `failures` must be increased
 */
export async function backOffImport(
  sql: Transaction,
  customerId: string,
  leased: LeasedImport,
  { seconds, failed }: { seconds: number; failed: boolean },
): Promise<void> {
  await sql`
    update imports
    set
      lease = (select gen_random_uuid()),
      leased_until = (select clock_timestamp()) + ${seconds} * interval '1 second',
      failures = failures + ${failed ? 1 : 0}
    where customer_id = ${customerId}
      and id = ${leased.id}
      and lease = ${leased.lease}`;
}

/**
 * Returns the earliest time at which a worker can process an import of this customer: now, or when another worker's
 * time-limited claim (lease) on an import expires. Returns undefined if the customer has no waiting import, or is
 * suspended.
 * @param least minimum number of seconds from now
 */
export async function findNextImportTurn(
  sql: Transaction,
  customerId: string,
  least: number,
): Promise<NextTurn | undefined> {
  const [next] = await sql<NextTurn[]>`
    select
      ceil(extract(epoch from due - (select clock_timestamp()))) as seconds,
      ceil(extract(epoch from due)) as at
    from (
      select min(greatest(i.leased_until, (select clock_timestamp()) + ${least} * interval '1 second')) as due
      from imports i
      join customers c on c.id = i.customer_id
      where i.customer_id = ${customerId}
        and i.status in ('PENDING', 'PROCESSING')
        and i.finished_at is null
        and c.status = 'OK'
    ) first
    where due is not null`;
  return next;
}

/**
 * Finds the customers that have a waiting import. Returns one page of their ids, in ascending order.
 * @param after last customer id of the previous page
 */
export async function findImportingCustomers(
  sql: Sql | Transaction,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    select distinct i.customer_id
    from imports i
    join customers c on c.id = i.customer_id
    where ${isWaiting(sql)}
      and i.customer_id > ${after}
    order by i.customer_id
    limit ${limit}`;
  return rows.map(({ customer_id }) => customer_id);
}

/**
 * SQL condition: the import `i` is ready to be processed, no worker has a valid lease on it, and its customer `c` is
 * not suspended.
 */
const isWaiting = (sql: Sql | Transaction) => sql`
  i.finished_at is null
  and i.status in ('PENDING', 'PROCESSING')
  and (i.leased_until is null or i.leased_until <= (select clock_timestamp()))
  and c.status = 'OK'`;
