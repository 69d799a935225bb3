import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runAlone } from '../setup/alone.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { freePorts } from '../setup/free-port.ts';
import { FeedWriter } from './feed-writers.ts';
import { Tenacious } from './rig.ts';

runAlone();

// Chaos test of the feed of changes. Eight writers change records of one customer through two servers in every way.
// Servers and the worker are killed, and so are followers, which resume at their saved cursors. In the end the events of
// each record, and copies that were kept by the feed alone, must be right. `FEED_SECONDS=3600 FEED_CHANGES=1000000
// FEED_BATCH=1000 FEED_PACE=5` makes it a million changes (at some 500 a second on two cores).
const seconds = Number(process.env['FEED_SECONDS'] ?? 10);
/** The writers end before the time is over when they have made so many changes. */
const enough = Number(process.env['FEED_CHANGES'] ?? Infinity);
/** Records of a batch or an import, at most. */
const most = Number(process.env['FEED_BATCH'] ?? 40);
/** How many times longer than usual the processes live. */
const pace = Number(process.env['FEED_PACE'] ?? 1);

let app: TestApp;
let customer: TestCustomer;
let folder: string;
let servers: Tenacious[] = [];
let workers: Tenacious[] = [];
let followers: Tenacious[] = [];

const fileOf = (n: number) => join(folder, `follower-${n}.db`);

beforeAll(async () => {
  app = await startApp();
  customer = await app.customer();
  folder = await mkdtemp(join(tmpdir(), 'feed-'));
  const environment = { DATABASE_URL: app.url, LOG_LEVEL: 'error', OVERLOAD_MS: '0', RATE_LIMITS: 'off' };
  const ports = await freePorts(2);
  servers = ports.map((port) => new Tenacious(['test/setup/dying-server.ts'], { ...environment, PORT: `${port}` }));
  workers = [new Tenacious(['src/cli.ts', 'work', '--json'], environment)];
  await Promise.all([...servers, ...workers].map((one) => one.ready()));
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  followers = [0, 1].map(
    (n) => new Tenacious(['--no-warnings', 'test/chaos/follower.ts', fileOf(n), customer.key, ...urls], {}),
  );
}, 60_000);
afterAll(async () => {
  await Promise.all([...servers, ...workers, ...followers].map((one) => one.stop()));
  await rm(folder, { recursive: true });
}, 60_000);

test(
  `for ${seconds} s of kills: each event comes once and in the order of its record, and a copy kept by the feed is right`,
  async () => {
    const writers = Array.from({ length: 8 }, () => new FeedWriter(customer.key, servers, most));
    const stopping = new AbortController();
    const kills = { servers: 0, workers: 0, followers: 0 };
    const harm = Promise.all([
      kill(servers, [1_000, 4_000], stopping.signal, () => (kills.servers += 1)),
      kill(workers, [1_000, 5_000], stopping.signal, () => (kills.workers += 1)),
      kill(followers, [500, 2_000], stopping.signal, () => (kills.followers += 1)),
    ]);
    const work = Promise.all(writers.map((writer) => writer.work(stopping.signal)));
    const lived = async () => {
      const end = performance.now() + seconds * 1_000;
      while (performance.now() < end && changesOf(writers) < enough) await sleep(100);
      // On a busy machine the first kills come late.
      for (let i = 0; i < seconds * 20 && Math.min(...Object.values(kills)) === 0; i += 1) await sleep(100);
    };
    await Promise.race([work, lived()]);
    stopping.abort();
    await Promise.all([work, harm]);
    await Promise.all([...servers, ...followers].map((one) => one.ready()));

    const expected = new Map(writers.flatMap((writer) => [...writer.expected]));
    const changes = changesOf(writers);
    const copies = [0, 1].map((n) => new DatabaseSync(fileOf(n), { readOnly: true }));
    for (const copy of copies)
      await expect.poll(() => lengthOf(copy), { timeout: 60_000 + seconds * 200, interval: 200 }).toBe(changes);
    const logs = copies.map(logOf);
    expect(logs[0]!.map(({ id }) => id)).toEqual(logs[1]!.map(({ id }) => id));
    const seen = Map.groupBy(logs[0]!, ({ record }) => record);
    const wrong = [...expected].filter(([id, events]) => events.join(';') !== seen.get(id)?.map(textOf).join(';'));
    expect(wrong.slice(0, 3)).toEqual([]);
    expect(seen.size).toBe(expected.size);
    const exported = await recordsNow();
    for (const copy of copies) expect(copyOf(copy)).toEqual(exported);
    process.stdout.write(
      `feed: ${JSON.stringify({ changes, records: expected.size, kills, exported: exported.length })}\n`,
    );
    for (const copy of copies) copy.close();
    expect([...servers, ...workers, ...followers].flatMap(({ complaints }) => complaints).slice(0, 3)).toEqual([]);
  },
  seconds * 4_000 + 120_000,
);

/** Kills one of the processes, again and again. */
async function kill(
  processes: Tenacious[],
  [from, to]: [number, number],
  stopping: AbortSignal,
  count: () => void,
): Promise<void> {
  for (;;) {
    const victim = processes[randomInt(processes.length)]!;
    await Promise.all(processes.map((one) => one.ready()));
    await sleep(randomInt(from, to) * pace, undefined, { signal: stopping }).catch(() => undefined);
    if (stopping.aborted) return;
    victim.signal('SIGKILL');
    count();
  }
}

const changesOf = (writers: readonly FeedWriter[]): number => writers.reduce((sum, writer) => sum + writer.changes, 0);

interface Logged {
  id: string;
  type: string;
  record: string;
  changed: string | null;
}

const lengthOf = (copy: DatabaseSync): unknown => copy.prepare('select count(*) as length from log').get()!['length'];

const logOf = (copy: DatabaseSync): Logged[] =>
  copy.prepare('select id, type, record, changed from log order by number').all() as unknown as Logged[];

const textOf = ({ type, changed }: Logged): string => (changed === null ? type : `${type} ${changed}`);

/** What a copy and the service are compared by. */
const shown = (record: Record<string, unknown>) =>
  [
    'id',
    'external_id',
    'first_name',
    'last_name',
    'job_title',
    'middle_name',
    'custom_fields',
    'gender',
    'name',
    'price',
    'company_name',
    'industry',
    'size',
    'location_metro',
  ]
    .map((name) => JSON.stringify(record[name] ?? null))
    .join();

function copyOf(copy: DatabaseSync): string[] {
  const rows = copy.prepare('select record from copy').all() as { record: string }[];
  return rows.map(({ record }) => shown(JSON.parse(record) as Record<string, unknown>)).toSorted();
}

/** Reads all contacts and companies by exports, and all products. */
async function recordsNow(): Promise<string[]> {
  const { url } = servers[0]!;
  const send = (path: string, body: object) =>
    fetch(`${url}/api/ext${path}`, {
      method: 'POST',
      headers: { authorization: `X-API-Key ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const exportOf = async (path: string) => (await (await send(path, { format: 'ndjson' })).text()).split('\n');
  const lines = [...(await exportOf('/contacts/export')), ...(await exportOf('/company/export'))];
  const records = lines.filter(Boolean).map((line) => JSON.parse(line) as Record<string, unknown>);
  for (let page = 1; ; page += 1) {
    const some = (await (await send('/products/list', { paginate: { limit: 100, page } })).json()) as typeof records;
    records.push(...some);
    if (some.length < 100) return records.map(shown).toSorted();
  }
}
