import { crc32 } from 'node:zlib';
import type { Transaction } from '../../database/db.ts';

/*
 * The order of locks. Every transaction that writes contacts or companies takes its locks in this order, so that no two
 * of them can wait for each other (deadlock):
 *
 * 1. values (`lockValues` below), all of them in one call,
 * 2. rows of `companies`, by id,
 * 3. rows of `contacts`, by id,
 * 4. rows of `opportunities`, by id,
 * 5. counters, by name, as the last statement.
 *
 * Rows of `lists` are locked at any step: who locks one so that others wait locks no records after it.
 *
 * A transaction may leave out steps. It must not wait for an earlier step after a later one, but a row that it has
 * inserted itself is free: nobody else can see it. With a single row in step 2, a transaction may go back to step 1 if
 * that row did not exist, because then it holds no row.
 */

/**
 * Number of locks that the values of one customer share. One lock for each value would need too many locks, because the
 * lock table of PostgreSQL is small and shared by all customers.
 */
const buckets = 64;

/**
 * A value to lock, such as an external id, so that two concurrent transactions cannot create two records with the same
 * value.
 */
export interface LockedValue {
  kind: 'company_name' | 'work_email' | 'external_id' | 'prospect_id';
  /** The value in its comparable form, such as lower case without accents. */
  value: string;
}

/**
 * Locks values until the transaction ends. No other transaction can lock the same values until then. Lock a value
 * before you search for a record with this value and create the record. Call this function at most once in a
 * transaction, to avoid deadlocks.
 */
export async function lockValues(sql: Transaction, customerId: string, values: readonly LockedValue[]): Promise<void> {
  if (values.length === 0) return;
  const wanted = [...new Set(values.map(({ kind, value }) => crc32(`${kind}:${value}`) % buckets))];
  await sql`
    select pg_advisory_xact_lock(hashtextextended(${`values:${customerId}:`} || wanted.bucket, 0))
    from (
      select bucket
      from unnest(${wanted}::integer[]) as bucket
      order by bucket
    ) wanted`;
}
