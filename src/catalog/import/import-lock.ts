import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Transaction } from '../../database/db.ts';
import { conflict, isUnavailable } from '../../errors.ts';

/** The key of the Postgres advisory lock for imports: an arbitrary number that no other lock of the service uses. */
const lockKey = 7_203_466_151;

/** The pause between two statements that keep the transaction of the import lock active (ms). */
const heartbeatMs = 1_000;
/**
 * How long the transaction of the import lock may be idle before Postgres ends it (ms). It is long, because a busy
 * machine may be late with the statements that keep the transaction active.
 */
const maxIdleMs = 600_000;
/**
 * How long the process tries to take the import lock again after its connection broke (ms). Postgres may notice late
 * that the connection is lost, and releases the old lock only then.
 */
const regainMs = 60_000;

/**
 * A function that resolves while this process holds the import lock. If this process has lost the lock, the function
 * waits until the process holds the lock again, and rejects if the lock cannot be taken again.
 */
export type StillHeld = () => Promise<void>;

// The lock belongs to a database connection, so Postgres releases it when the process dies. If only the connection
// breaks, the lock is taken again on a new one.
/**
 * Runs an import, removal or reindex of the catalog while holding a lock, so that only one of them runs at a time in
 * all processes. The lock is lost if its database connection breaks, so `work` must often call and await `stillHeld`.
 * The loss is noticed after about a second. Until then, two processes may write at the same time.
 * @param db The database that holds the lock. If it is unavailable, waits as long as `db` retries its operations.
 * @throws DomainError `conflict` if another process holds the lock
 */
export async function withImportLock<T>(db: Database, work: (stillHeld: StillHeld) => Promise<T>): Promise<T> {
  const lock = new ImportLock(db);
  const ended = lock.hold();
  try {
    await lock.held();
    return await work(() => lock.held());
  } finally {
    lock.release();
    await ended;
  }
}

class ImportLock {
  readonly #db: Database;
  readonly #released = new AbortController();
  #held = pending();
  #wasHeld = false;

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Resolves when this process holds the import lock. Rejects if the lock could not be taken, or was lost and could not
   * be taken again.
   */
  held(): Promise<void> {
    return this.#held.promise;
  }

  /** Releases the import lock. The promise of `hold` then resolves. */
  release(): void {
    this.#released.abort();
  }

  /**
   * Takes the import lock and holds it until `release` is called. If the connection breaks, takes the lock again on a
   * new connection.
   */
  async hold(): Promise<void> {
    for (let wasTaken = true; wasTaken;) {
      wasTaken = false;
      try {
        await this.#db.transaction(async (sql) => {
          const holding = await this.#take(sql);
          wasTaken = true;
          await this.#keep(sql, holding);
        });
        return;
      } catch (error) {
        if (this.#released.signal.aborted) return;
        if (wasTaken && isUnavailable(error)) continue;
        this.#fail(error);
        return;
      }
    }
  }

  /**
   * Takes the import lock until the end of this transaction, and resolves the promise that `held` returns. Returns this
   * promise, together with its functions `resolve` and `reject`. If this process has had the lock before and lost it,
   * retries for at most `regainMs` (ms).
   * @throws DomainError `conflict` if another process holds the lock
   */
  async #take(sql: Transaction): Promise<Holding> {
    const holding = this.#wasHeld ? this.#markLost() : this.#held;
    const deadline = performance.now() + (this.#wasHeld ? regainMs : 0);
    await sql`select set_config('idle_in_transaction_session_timeout', ${String(maxIdleMs)}, true)`;
    while (!(await tryLock(sql))) {
      if (this.#released.signal.aborted || performance.now() > deadline)
        throw conflict('Another import, removal or reindex of the catalog is running. Try again when it has ended');
      await this.#rest();
    }
    this.#wasHeld = true;
    holding.resolve();
    return holding;
  }

  /** Makes the promise that `held` returns reject with this error, for current and for later callers of `held`. */
  #fail(error: unknown): void {
    this.#held.reject(error);
    this.#held = pending();
    this.#held.reject(error);
  }

  /**
   * Marks the import lock as lost, so that callers of `held` wait. Returns the new promise that these callers wait for,
   * with its functions `resolve` and `reject`.
   */
  #markLost(): Holding {
    const next = pending();
    this.#held.resolve(next.promise);
    return (this.#held = next);
  }

  // After a broken connection, a new transaction may begin before this method notices. Then `#held` is no longer
  // `holding`.
  /**
   * Keeps the connection that holds the import lock open: sends a statement every `heartbeatMs` (ms), so that the
   * connection is not closed as idle. Ends when the lock is released. If the connection breaks, throws, and marks the
   * lock as lost, unless this process has already begun to take the lock again in another transaction.
   */
  async #keep(sql: Transaction, holding: Holding): Promise<void> {
    const isOver = () => this.#released.signal.aborted || this.#held !== holding;
    try {
      for (await this.#rest(); !isOver(); await this.#rest()) await sql`select 1`;
    } catch (error) {
      if (!isOver()) this.#markLost();
      throw error;
    }
  }

  /** Sleeps for `heartbeatMs` (ms), or until the lock is released. */
  #rest(): Promise<void> {
    return sleep(heartbeatMs, undefined, { signal: this.#released.signal }).catch(() => undefined);
  }
}

type Holding = PromiseWithResolvers<void>;

/**
 * Returns a new promise, together with its functions `resolve` and `reject`. Node does not report a rejection of this
 * promise as unhandled.
 */
function pending(): Holding {
  const resolvers = Promise.withResolvers<void>();
  resolvers.promise.catch(() => undefined);
  return resolvers;
}

/**
 * Tries to take the import lock until the end of the transaction. Returns false if another transaction holds the lock.
 */
async function tryLock(sql: Transaction): Promise<boolean> {
  const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
  return lock.taken;
}
