import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Transaction } from '../../database/db.ts';
import { conflict, isUnavailable } from '../../errors.ts';

/** The key of the advisory lock: an arbitrary number that no other lock of the service uses. */
const lockKey = 7_203_466_151;

/** The pause between two statements that keep the lock's transaction active (ms). */
const heartbeatMs = 1_000;
/**
 * How long the lock's transaction may be idle before Postgres ends it (ms). It is far longer than the pause between two
 * statements, because a busy machine may stall.
 */
const maxIdleMs = 600_000;
/**
 * How long to wait for the lock after its connection broke (ms). Postgres may need some time to notice the lost
 * connection and release the lock.
 */
const regainMs = 60_000;

/**
 * Waits until this process holds the import lock. Resolves at once if it holds the lock. Waits while a lost lock is
 * being taken again, and rejects if that fails.
 */
export type StillHeld = () => Promise<void>;

/**
 * Runs an import, removal or reindex under a lock, so that only one of them runs at a time in all processes. `work`
 * must call `stillHeld` before each write. The lock belongs to a database connection, so Postgres releases it when the
 * process dies. If only the connection breaks, the lock is taken again on a new one.
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

  /** Waits until this process holds the import lock. Rejects if a lost lock could not be taken again. */
  held(): Promise<void> {
    return this.#held.promise;
  }

  /** Releases the import lock and ends `hold`. */
  release(): void {
    this.#released.abort();
  }

  /**
   * Takes the lock and holds it until `release`. If the connection breaks, takes the lock again on a new connection.
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
   * Takes the import lock in a transaction. Waits only if this process has held the lock before and lost it.
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

  /** Rejects for all callers of `held`, those that wait and those that come later. */
  #fail(error: unknown): void {
    this.#held.reject(error);
    this.#held = pending();
    this.#held.reject(error);
  }

  /** Marks the import lock as not held. Callers of `held` then wait until the lock is taken again. */
  #await(): Holding {
    const next = pending();
    this.#held.resolve(next.promise);
    return (this.#held = next);
  }

  /**
   * Keeps the transaction of the import lock active until the lock is released. If the connection breaks, a new
   * transaction may begin before this method notices. Then this method leaves the state of the lock alone.
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

  /** Sleeps until the next statement that keeps the transaction active is due, or until the lock is released. */
  #rest(): Promise<void> {
    return sleep(heartbeatMs, undefined, { signal: this.#released.signal }).catch(() => undefined);
  }
}

type Holding = PromiseWithResolvers<void>;

/** Creates a promise whose rejection is not reported as unhandled, because nobody may be waiting for it. */
function pending(): Holding {
  const resolvers = Promise.withResolvers<void>();
  resolvers.promise.catch(() => undefined);
  return resolvers;
}

/** Tries to take the advisory lock for the rest of the transaction. Returns whether it succeeded. */
async function tryLock(sql: Transaction): Promise<boolean> {
  const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
  return lock.taken;
}
