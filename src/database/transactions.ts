import { runAfterCommit } from './after-commit.ts';
import type { Sql, Transaction } from './connection.ts';

/** Runs transactions, and remembers whether the disk of the database is full. */
export class Transactions {
  #isDiskFull = false;

  /** True from an error which says that the disk of the database is full until a later transaction has written data. */
  get isDiskFull(): boolean {
    return this.#isDiskFull;
  }

  /**
   * Runs `work` in a transaction, and rolls the transaction back if `work` throws.
   * @param sql A connection that nothing else uses meanwhile.
   */
  async run<T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> {
    let hasWritten = false;
    // Asked only while the disk is full, because it costs a round trip. Reading proves nothing about the disk.
    const noting = async (transaction: Transaction) => {
      const result = await work(transaction);
      hasWritten = await hasChanges(transaction);
      return result;
    };
    try {
      const result = await commit(sql, this.#isDiskFull ? noting : work);
      if (hasWritten) this.#isDiskFull = false;
      return result;
    } catch (error) {
      if (isDiskFullError(error)) this.#isDiskFull = true;
      throw error;
    }
  }
}

/**
 * Returns true if a transaction has written data. PostgreSQL assigns an id to a transaction only at its first write.
 */
async function hasChanges(sql: Transaction): Promise<boolean> {
  const [row] = await sql<[{ changed: boolean }]>`select pg_current_xact_id_if_assigned() is not null as changed`;
  return row.changed;
}

/** Returns true if an error means that the disk of the database is full (SQLSTATE 53100). */
const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

/** Runs `work` in a transaction. After the commit, calls the functions that `work` registered with `afterCommit`. */
async function commit<T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin((transaction) => work((opened = transaction)));
  runAfterCommit(opened!);
  return result as T;
}
