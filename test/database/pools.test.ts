import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { connect, type Sql } from '../../src/database/connection.ts';
import { ExclusivePool } from '../../src/database/pools.ts';
import { createDatabase, type TestDatabase } from '../setup/database.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(async () => {
  await database.drop();
});

/** What Citus reports while a node dies: SQLSTATE, message. */
const losses = [
  ['XX000', 'server closed the connection unexpectedly'],
  ['XX000', 'could not commit transaction for shard 102008 on at least 1 node'],
  ['XX000', "failed to prepare transaction 'citus_0_1_2_3' on host 127.0.0.1:9702"],
  ['58030', 'failed to COPY to shard 0 on 127.0.0.1:9702'],
  ['58030', 'failed to complete COPY on 127.0.0.1:9702'],
] as const;

test.each([
  ...losses.map(([state, message]) => [state, message, 'unavailable'] as const),
  ['XX000', 'cache lookup failed for type 1', 'XX000'],
  ['58030', 'could not write to file "base/1": Input/output error', '58030'],
] as const)('an error %s of the server, "%s", is %s', async (state, message, code) => {
  const pool = new ExclusivePool<Sql>(() => connect(parseConfig({}), database.url, { max: 1, planner: {} }), {
    name: 'test',
    limit: 1,
    maxWaiting: 1,
    maxWaitMs: 1_000,
  });
  const raise = `do $$ begin raise exception using errcode = '${state}', message = '${message.replaceAll("'", "''")}'; end $$`;
  await expect(pool.run({ customerId: 'one' }, (sql) => sql.unsafe(raise))).rejects.toMatchObject({ code });
  await pool.close();
});
