import { runAfterCommit, sendLastStatements, settleLastStatements } from './after-commit.ts';
import type { Sql, Transaction } from './connection.ts';
import { setOrigin, type Origin } from './origin.ts';

/** Runs transactions, and remembers whether the disk is full. */
export class Transactions {
  #isDiskFull = false;

  /** True from an error which says that the disk is full until a later transaction has written data. */
  get isDiskFull(): boolean {
    return this.#isDiskFull;
  }

  /**
   * Rolls back if `work` throws.
   * @param sql a connection that nothing else uses meanwhile
   */
  async run<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
    let hasWritten = false;
    // Asked only while the disk is full, because it costs a round trip. Reading proves nothing about the disk.
    const noting = async (transaction: Transaction) => {
      const result = await work(transaction);
      hasWritten = await hasChanges(transaction);
      return result;
    };
    try {
      const result = await commit(sql, origin, this.#isDiskFull ? noting : work);
      if (hasWritten) this.#isDiskFull = false;
      return result;
    } catch (error) {
      if (isDiskFullError(error)) this.#isDiskFull = true;
      throw error;
    }
  }
}

/** True if the transaction has written data: PostgreSQL assigns an id only at the first write. */
async function hasChanges(sql: Transaction): Promise<boolean> {
  const [row] = await sql<[{ changed: boolean }]>`select pg_current_xact_id_if_assigned() is not null as changed`;
  return row.changed;
}

/** SQLSTATE 53100. */
const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

/** After the commit, calls what `work` registered with `afterCommit`. */
async function commit<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin(async (transaction) => {
    setOrigin(transaction, origin);
    const done = await work((opened = transaction));
    sendLastStatements(transaction);
    return done;
  });
  await settleLastStatements(opened!);
  runAfterCommit(opened!);
  return result as T;
}
