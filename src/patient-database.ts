import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, SharedDatabase } from './db.ts';
import { isUnavailable } from './errors.ts';

/** How long an import waits for a database that is away, as long as for a search cluster (ms). */
const defaultPatienceMs = 300_000;

/**
 * The same database for work that nobody waits for at a socket, such as an import: what fails for want of the database is
 * repeated until it is back. So it must not matter how often it is done: a transaction whose commit was not answered may
 * have been committed.
 * @param patienceMs how long one work is repeated before its error is thrown
 */
export function patientDatabase(db: SharedDatabase, patienceMs = defaultPatienceMs): SharedDatabase {
  const patient = (one: Database): Database => ({
    lookup: (work) => patiently(() => one.lookup(work), patienceMs),
    search: (work) => patiently(() => one.search(work), patienceMs),
    transaction: (work) => patiently(() => one.transaction(work), patienceMs),
  });
  return {
    ...patient(db),
    for: (requester) => patient(db.for(requester)),
    credentials: (work) => patiently(() => db.credentials(work), patienceMs),
    gates: db.gates,
    get isDiskFull() {
      return db.isDiskFull;
    },
    close: () => db.close(),
  };
}

async function patiently<T>(run: () => Promise<T>, patienceMs: number): Promise<T> {
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
