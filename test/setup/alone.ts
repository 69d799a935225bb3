import postgres from 'postgres';
import { afterAll, beforeAll, inject } from 'vitest';

const patience = 600_000;

/**
 * Has the tests of this file run while no other file of violent tests does: several clusters that are killed and frozen at
 * once on few cores would show the machine's limits, not the service's. To be called before anything else is begun.
 */
export function runAlone(): void {
  let sql: postgres.Sql | undefined;
  beforeAll(async () => {
    sql = postgres(`${inject('postgres').superuser}postgres`, { max: 1, fetch_types: false, onnotice: () => {} });
    await sql`select pg_advisory_lock(hashtextextended('violent tests', 0))`;
  }, patience);
  afterAll(() => sql?.end({ timeout: 1 }));
}
