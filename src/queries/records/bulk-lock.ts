import type { Queryable, Transaction } from '../../database/db.ts';
import { Gate } from '../../limits/gate.ts';

/*
 * The order of locks. Every transaction that writes records takes its locks in this order, so that no two
 * of them can wait for each other (deadlock):
 *
 * 1. the customer's lock of bulk writers (`lockBulk`),
 * 2. the customer's lock of company names (`lockNames`),
 * 3. rows of `companies`, by id,
 * 4. rows of `contacts`, by id,
 * 5. rows of `opportunities`, by id,
 * 6. rows of `activities`, by id,
 * 7. the customer's lock of the journal, as the last but one statement.
 *
 * Rows of `lists` are locked at any step: who locks one so that others wait locks no records after it.
 *
 * A transaction may leave out steps. It must not wait for an earlier step after a later one, but a row that it has
 * inserted itself is free: nobody else can see it. With a single row in step 3, a transaction may go back to step 2 if
 * that row did not exist, because then it holds no row.
 */

/**
 * Locks a customer for bulk writers until the transaction ends: batches, imports, merges, jobs, undo and erasure come one
 * after the other. So between its search for a record and its writing of one, no other bulk writer makes the same.
 * Single writes do not wait: unique constraints decide between them and a bulk writer.
 */
export const lockBulk = (sql: Transaction, customerId: string): Promise<void> => lock(sql, `bulk:${customerId}`);

/** Batches and imports of one customer wait here for those of the same process, so that they hold no connection meanwhile. */
export const bulkWriters = new Gate({ name: 'bulk_writers', limit: Infinity, perHolder: 1 });

/** Locks the names of a customer's companies until the transaction ends, for those who create a company by its name. */
export const lockNames = (sql: Transaction, customerId: string): Promise<void> => lock(sql, `names:${customerId}`);

async function lock(sql: Queryable, key: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`;
}
