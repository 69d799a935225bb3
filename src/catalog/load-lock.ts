import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Transaction } from '../db.ts';
import { conflict, isUnavailable } from '../errors.ts';

/** Of the advisory lock: any number that nothing else here takes. */
const lockKey = 7_203_466_151;

/** Much more often than the limit on idle transactions, which is that of requests no longer: a busy machine stalls for longer than they may. */
const heartbeatMs = 1_000;
const longestIdleMs = 600_000;
/** How long to wait for a lock that was held before: the server may take a connection for alive that is lost. */
const regainMs = 60_000;

/** Resolves while the lock is held, at once; waits while it is being taken anew; rejects when that failed. */
export type StillHeld = () => Promise<void>;

/**
 * Runs work that writes the catalog as a whole; one at a time, over all processes. The lock ends with its connection, so
 * also with a process that is killed. A lock that is lost with its connection is taken again, and the work goes on: it
 * must ask before it writes.
 * @throws DomainError `conflict` when another is at work
 */
export async function withLoadLock<T>(db: Database, work: (stillHeld: StillHeld) => Promise<T>): Promise<T> {
  const lock = new LoadLock(db);
  const ended = lock.hold();
  try {
    await lock.held();
    return await work(() => lock.held());
  } finally {
    lock.release();
    await ended;
  }
}

class LoadLock {
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

  /** Holds the lock until it is released, on one connection after the other. */
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
        if (!isRegained || !isUnavailable(error)) this.#held.reject(error);
      }
    }
  }

  async #take(sql: Transaction): Promise<Holding> {
    const holding = this.#wasHeld ? this.#await() : this.#held;
    const deadline = performance.now() + (this.#wasHeld ? regainMs : 0);
    await sql`select set_config('idle_in_transaction_session_timeout', ${String(longestIdleMs)}, true)`;
    while (!(await tryLock(sql))) {
      if (this.#released.signal.aborted || performance.now() > deadline)
        throw conflict('Another import, removal or reindex of the catalog is under way');
      await this.#rest();
    }
    this.#wasHeld = true;
    holding.resolve();
    return holding;
  }

  /** From now on the lock is not held; who waits already waits for the next holding too. */
  #await(): Holding {
    const next = pending();
    this.#held.resolve(next.promise);
    return (this.#held = next);
  }

  /** A transaction whose connection broke has rejected by then, and may have begun anew: this one has nothing more to say. */
  async #keep(sql: Transaction, holding: Holding): Promise<void> {
    const isOver = () => this.#released.signal.aborted || this.#held !== holding;
    try {
      for (await this.#rest(); !isOver(); await this.#rest()) await sql`select 1`;
    } catch (error) {
      if (!isOver()) this.#await();
      throw error;
    }
  }

  /** Until the next heartbeat, or the release. */
  #rest(): Promise<void> {
    return sleep(heartbeatMs, undefined, { signal: this.#released.signal }).catch(() => undefined);
  }
}

type Holding = PromiseWithResolvers<void>;

/** Nobody may be asking when it is rejected. */
function pending(): Holding {
  const resolvers = Promise.withResolvers<void>();
  resolvers.promise.catch(() => undefined);
  return resolvers;
}

async function tryLock(sql: Transaction): Promise<boolean> {
  const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
  return lock.taken;
}
