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
 * How long to try to take the import lock again after its database connection broke (ms). Postgres may need some time
 * to notice the lost connection and release the lock.
 */
const regainMs = 60_000;

/**
 * A function that waits until this process holds the import lock. Its promise resolves at once while the lock is held.
 * After a lost connection, the promise resolves when the lock is taken again, and rejects if that fails.
 */
export type StillHeld = () => Promise<void>;

// The lock belongs to a database connection, so Postgres releases it when the process dies. If only the connection
// breaks, the lock is taken again on a new one.
/**
 * Runs an import, removal or reindex of the catalog under a lock, so that only one of them runs at a time in all
 * processes. `work` must call `stillHeld` before each write, because the lock is lost while its database connection is
 * broken.
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

  /** Releases the import lock. The promise that `hold` returned then resolves. */
  release(): void {
    this.#released.abort();
  }

  /**
   * Takes the import lock and holds it until `release` is called. If the connection breaks, takes the lock again on a
   * new connection.
   */
  async hold(): Promise<void> {
    for (let isRegained = true; isRegained;) {
      isRegained = false;
      try {
        await this.#db.transaction(async (sql) => {
          const holding = await this.#take(sql);
          isRegained = true;
          await this.#keep(sql, holding);
        });
        return;
      } catch (error) {
        if (this.#released.signal.aborted) return;
        if (isRegained && isUnavailable(error)) continue;
        this.#fail(error);
        return;
      }
    }
  }

  /**
   * Takes the import lock for this transaction, until the transaction ends. If another process holds the lock, retries
   * only if this process has held the lock before and lost it. Returns the promise for callers of `held`, which is
   * resolved now.
   * @throws DomainError `conflict` if another process holds the lock
   */
  async #take(sql: Transaction): Promise<Holding> {
    const holding = this.#wasHeld ? this.#await() : this.#held;
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

  /**
   * Makes the import lock fail: the promise that `held` has returned, and every promise that it returns later, rejects
   * with this error.
   */
  #fail(error: unknown): void {
    this.#held.reject(error);
    this.#held = pending();
    this.#held.reject(error);
  }

  /**
   * Marks the import lock as not held, so that callers of `held` wait. Returns the new promise that they wait for, to
   * be resolved when the lock is taken again.
   */
  #await(): Holding {
    const next = pending();
    this.#held.resolve(next.promise);
    return (this.#held = next);
  }

  // After a broken connection, a new transaction may begin before this method notices. Then `#held` is no longer
  // `holding`.
  /**
   * Keeps the transaction of the import lock active until the lock is released. If the connection breaks, throws.
   * Before that, marks the lock as not held, unless a new transaction already holds it.
   */
  async #keep(sql: Transaction, holding: Holding): Promise<void> {
    const isOver = () => this.#released.signal.aborted || this.#held !== holding;
    try {
      for (await this.#rest(); !isOver(); await this.#rest()) await sql`select 1`;
    } catch (error) {
      if (!isOver()) this.#await();
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
 * Creates a promise with its functions `resolve` and `reject`. A rejection is not reported as unhandled if nobody waits
 * for the promise.
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
