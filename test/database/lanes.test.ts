import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { connect, type Sql } from '../../src/database/connection.ts';
import { ExclusiveLane } from '../../src/database/lanes.ts';
import { createDatabase, type TestDatabase } from '../setup/database.ts';
import { startFaultyProxy, type FaultyProxy } from '../setup/faulty-proxy.ts';

let database: TestDatabase;
let proxy: FaultyProxy;

beforeAll(async () => {
  database = await createDatabase();
  proxy = await startFaultyProxy(database.url);
});
afterAll(async () => {
  await proxy.close();
  await database.drop();
});

// The driver describes a statement with parameters before it executes it for the first time. A transaction that is
// interrupted then waits until its connection is closed by the server, too.
test.each(['described', 'executed'])(
  'an abandoned lane fails a transaction at once while a statement is %s, though the server is silent',
  async (phase) => {
    const config = parseConfig({});
    const lane = new ExclusiveLane<Sql>(
      (onclose) => connect(config, proxy.through(database.url), { max: 1, planner: {}, onclose }),
      {
        name: 'test',
        limit: 1,
        maxWaiting: 1,
        maxWaitMs: 1_000,
      },
    );
    const began = Promise.withResolvers<void>();
    const running = lane.run({ customerId: 'one' }, (sql) =>
      sql.begin(async (tx) => {
        const ask = () => tx`select ${1}::integer as one`;
        if (phase === 'executed') await ask();
        else await tx`select 1`;
        proxy.freeze();
        began.resolve();
        await ask();
      }),
    );
    const outcome = running.then(
      () => 'succeeded',
      ({ code }: { code: string }) => code,
    );
    await began.promise;
    const from = performance.now();
    lane.abandon();
    expect(await outcome).toBe('unavailable');
    expect(performance.now() - from).toBeLessThan(5_000);
    proxy.thaw();
  },
);
