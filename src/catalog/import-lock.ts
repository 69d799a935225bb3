import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Transaction } from '../database/db.ts';
import { conflict, isUnavailable } from '../errors.ts';

const lockKey = 7_203_466_151;

const heartbeatMs = 1_000;
/** How long the transaction may be idle before PostgreSQL ends it (ms). Long, because a busy machine may be late. */
const maxIdleMs = 600_000;
/**
 * How long to retry after the lock's connection broke (ms). PostgreSQL may notice that late, and releases the old lock
 * only then.
 */
const regainMs = 60_000;

/** Resolves while this process holds the lock. After a loss, waits until the lock is taken again, or rejects. */
export type StillHeld = () => Promise<void>;

/**
 * Runs an import, removal or reindex under a lock that only one process can hold. The lock belongs to a connection, so
 * PostgreSQL releases it when the process dies. If only the connection breaks, the lock is taken again. `work` must
 * therefore await `stillHeld` often. A loss is noticed after about a second. Until then, two processes may write at the
 * same time.
 * @param db holds the lock; if it is unavailable, waits as long as `db` retries its operations
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

  held(): Promise<void> {
    return this.#held.promise;
  }

  release(): void {
    this.#released.abort();
  }

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
   * Takes the lock until the end of this transaction. Resolves the promise of `held`, and returns it. Retries a lost
   * lock for at most `regainMs`.
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

  #fail(error: unknown): void {
    this.#held.reject(error);
    this.#held = pending();
    this.#held.reject(error);
  }

  #markLost(): Holding {
    const next = pending();
    this.#held.resolve(next.promise);
    return (this.#held = next);
  }

  /**
   * Runs a statement every `heartbeatMs` until the lock is released. If the connection breaks, throws and marks the
   * lock as lost. Does not mark it if a new transaction has already begun to take the lock again.
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

  #rest(): Promise<void> {
    return sleep(heartbeatMs, undefined, { signal: this.#released.signal }).catch(() => undefined);
  }
}

type Holding = PromiseWithResolvers<void>;

function pending(): Holding {
  const resolvers = Promise.withResolvers<void>();
  resolvers.promise.catch(() => undefined);
  return resolvers;
}

async function tryLock(sql: Transaction): Promise<boolean> {
  const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
  return lock.taken;
}
