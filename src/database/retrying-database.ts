import { setTimeout as sleep } from 'node:timers/promises';
import { isUnavailable } from '../errors.ts';
import type { Database, SharedDatabase } from './db.ts';

/** How long an operation is retried (ms). An import waits equally long for a search cluster. */
const defaultPatienceMs = 300_000;

/**
 * Retries each operation while the database is unavailable. Each must be safe to repeat: a transaction may have been
 * committed although the connection was lost.
 * @param patienceMs maximum time for retries before the error is thrown (ms)
 */
export function retryingDatabase(db: SharedDatabase, patienceMs = defaultPatienceMs): SharedDatabase {
  const patient = (wrapped: Database): Database => ({
    lookup: (work) => retryWhileUnavailable(() => wrapped.lookup(work), patienceMs),
    search: (work) => retryWhileUnavailable(() => wrapped.search(work), patienceMs),
    transaction: (work) => retryWhileUnavailable(() => wrapped.transaction(work), patienceMs),
  });
  return {
    ...db,
    ...patient(db),
    for: (requester, source) => patient(db.for(requester, source)),
    credentials: (work) => retryWhileUnavailable(() => db.credentials(work), patienceMs),
    get isDiskFull() {
      return db.isDiskFull;
    },
  };
}

async function retryWhileUnavailable<T>(run: () => Promise<T>, patienceMs: number): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (let pause = 50; ; pause = Math.min(2 * pause, 5_000)) {
    try {
      return await run();
    } catch (error) {
      if (!isUnavailable(error) || performance.now() + pause > deadline) throw error;
      await sleep(pause * (0.5 + Math.random()));
    }
  }
}
