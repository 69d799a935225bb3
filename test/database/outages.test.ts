import { beforeAll, expect, test } from 'vitest';
import { killServer, startServer, stopServer } from '../../src/database/embedded-cluster.ts';
import type { Cluster } from '../../src/database/embedded-cluster.ts';
import { startOwnCluster } from '../setup/own-cluster.ts';
import { migrate } from '../../src/database/migrate.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';

interface Line {
  level: number;
  msg: string;
}

/** A running `serve` and `work`. */
const running: Record<string, ServerProcess> = {};
let cluster: Cluster;

beforeAll(async () => {
  const own = await startOwnCluster('outages');
  cluster = own.cluster;
  await migrate(own.urls.owner);
  for (const command of ['serve', 'work'])
    running[command] = await startServerProcess(own.urls.service, { LOG_LEVEL: 'info' }, [
      'src/cli.ts',
      command,
      '--json',
    ]);
});

const messagesOf = (lines: string[]): string[] =>
  lines.map((line) => JSON.parse(line) as Line).map(({ level, msg }) => `${level} ${msg}`);

/** Waits until `serve` and `work` have logged that the database answers again, for the given number of times. */
async function recovered(times: number): Promise<void> {
  for (const one of Object.values(running)) {
    const count = () => messagesOf(one.log).filter((line) => line.includes('answers again')).length;
    await expect.poll(count, { timeout: 30_000, interval: 50 }).toBe(times);
  }
}

const outage = ['50 the database does not answer', '30 the database answers again'];

test('a restart and a crash of the database are two lines each, in an idle serve and in work', async () => {
  const before = Object.fromEntries(Object.entries(running).map(([name, { log }]) => [name, log.length]));
  for (const [times, stop] of [stopServer, killServer].entries()) {
    await stop(cluster);
    for (const one of Object.values(running))
      await expect.poll(() => messagesOf(one.log).filter((line) => line === outage[0]).length).toBe(times + 1);
    await startServer(cluster);
    await recovered(times + 1);
  }
  for (const [name, { log }] of Object.entries(running)) {
    const since = log.slice(before[name]);
    expect(
      messagesOf(since).filter((line) => !/^30 job (started|done)$/.test(line)),
      name,
    ).toEqual([...outage, ...outage]);
    expect(since.join()).not.toContain('"stack"');
  }
});
