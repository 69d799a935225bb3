import postgres from 'postgres';
import { afterAll, beforeAll, inject } from 'vitest';

const patience = 600_000;

/**
 * Prevents the tests of this file from running at the same time as other files that call it. Several clusters killed
 * and frozen at once on few cores would show the limits of the machine, not of the service. Call it before anything
 * else is started.
 */
export function runAlone(): void {
  let sql: postgres.Sql | undefined;
  beforeAll(async () => {
    sql = postgres(`${inject('postgres').urls.superuser}postgres`, { max: 1, fetch_types: false, onnotice: () => {} });
    await sql`select pg_advisory_lock(hashtextextended('violent tests', 0))`;
  }, patience);
  afterAll(() => sql?.end({ timeout: 1 }));
}
