import postgres from 'postgres';
import { beforeAll, inject } from 'vitest';
import { atEnd } from './at-end.ts';

/** How long a file may wait for its turn: longer than all others take on a busy machine. */
const patience = 3_600_000;

/**
 * Prevents the tests of this file from running at the same time as other files that call it. Several clusters killed
 * and frozen at once on few cores would show the limits of the machine, not of the service. Call it before anything
 * else is started.
 */
export function runAlone(): void {
  beforeAll(async () => {
    const sql = postgres(`${inject('postgres').urls.superuser}postgres`, {
      max: 1,
      fetch_types: false,
      onnotice: () => {},
    });
    atEnd(() => sql.end({ timeout: 1 }));
    await sql`select pg_advisory_lock(hashtextextended('violent tests', 0))`;
  }, patience);
}
