import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { killServer, startServer, stopServer } from '../../src/database/embedded-cluster.ts';
import type { Cluster } from '../../src/database/embedded-cluster.ts';
import { startOwnCluster } from '../setup/own-cluster.ts';
import { migrate } from '../../src/database/migrate.ts';
import { nodeEnvironment } from '../setup/cli.ts';

interface Line {
  level: number;
  msg: string;
  err?: { stack?: string };
}

/** A running `serve` or `work`, and the lines of its log so far. */
interface Running {
  child: ChildProcess;
  lines: Line[];
}

const running: Record<string, Running> = {};
let cluster: Cluster;
let superuser: postgres.Sql;

beforeAll(async () => {
  const own = await startOwnCluster('outages');
  cluster = own.cluster;
  superuser = postgres(own.urls.superuser, { max: 1, onnotice: () => {} });
  await migrate(own.urls.owner);
  for (const command of ['serve', 'work']) running[command] = await start(command, own.urls.service);
});

afterAll(async () => {
  for (const { child } of Object.values(running)) child.kill('SIGKILL');
  await superuser.end({ timeout: 1 });
});

async function start(command: string, url: string): Promise<Running> {
  const child = spawn(process.execPath, ['src/cli.ts', command, '--json'], {
    cwd: join(import.meta.dirname, '..', '..'),
    env: { ...nodeEnvironment, DATABASE_URL: url, PORT: '0', RATE_LIMITS: 'off' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: Line[] = [];
  createInterface(child.stderr).on('line', (line) => lines.push(JSON.parse(line) as Line));
  await once(child.stdout, 'data');
  return { child, lines };
}

const messagesOf = ({ lines }: Pick<Running, 'lines'>) => lines.map(({ level, msg }) => `${level} ${msg}`);

/** Waits until `serve` and `work` have logged that the database answers again, for the given number of times. */
async function recovered(times: number): Promise<void> {
  for (const one of Object.values(running)) {
    const count = () => messagesOf(one).filter((line) => line.includes('answers again')).length;
    await expect.poll(count, { timeout: 30_000, interval: 50 }).toBe(times);
  }
}

const outage = ['50 the database does not answer', '30 the database answers again'];

test('a restart and a crash of the database are two lines each, in an idle serve and in work', async () => {
  const before = Object.fromEntries(Object.entries(running).map(([name, { lines }]) => [name, lines.length]));
  for (const [times, stop] of [stopServer, killServer].entries()) {
    await stop(cluster);
    for (const one of Object.values(running))
      await expect.poll(() => messagesOf(one).filter((line) => line === outage[0]).length).toBe(times + 1);
    await startServer(cluster);
    await recovered(times + 1);
  }
  for (const [name, { lines }] of Object.entries(running)) {
    const since = { lines: lines.slice(before[name]) };
    expect(
      messagesOf(since).filter((line) => !/^30 job (started|done)$/.test(line)),
      name,
    ).toEqual([...outage, ...outage]);
    expect(JSON.stringify(since.lines)).not.toContain('"stack"');
  }
});

test('a connection that the server ends is no outage', async () => {
  const before = Object.values(running).map((one) => messagesOf(one).length);
  const [ended] = await superuser<[{ now: string }]>`
    select pg_terminate_backend(pid), clock_timestamp()::text as now
    from pg_stat_activity
    where datname = 'outages' and application_name = 'sales-data-api'
    order by backend_start desc
    limit 1`;
  const checked = () => superuser`
    select 1
    from pg_stat_activity
    where datname = 'outages' and query = 'select 1' and state = 'idle' and query_start > ${ended.now}::timestamptz`;
  await expect.poll(checked, { timeout: 10_000 }).toHaveLength(1);
  const since = Object.values(running).map((one, i) => messagesOf(one).slice(before[i]));
  expect(since.flat().filter((line) => line.includes('the database'))).toEqual([]);
});
