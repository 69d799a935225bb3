import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildApp } from '../src/app.ts';
import { type Catalog, bestFirst, positionOf } from '../src/catalog/catalog.ts';
import { namesOf } from '../src/catalog/elasticsearch/indexes.ts';
import { matching, sortBy } from '../src/catalog/elasticsearch/search.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { toSearch } from '../src/catalog/prospects.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type Database } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { insertUnlocks } from '../src/queries/jobs/unlocks.ts';
import { SearchCluster } from '../test/search-cluster/cluster.ts';
import { makeCustomer } from '../test/setup/factories.ts';
import { watchProcessors } from './processors.ts';
import { median, startServer, tryLoad } from './run.ts';

const callers = 16;
const unlocked = 100_000;
/** So many lines are imported first: what many more need beside it must be little. */
const fewLines = 100_000;
/** So many lines warm a cluster up: it imports three times as fast as at first. */
const warmingLines = 400_000;
/** So often all calls are made before one is measured: a cluster on two cores compiles its code for minutes. */
const warmingRounds = 4;
const root = join(import.meta.dirname, '..');

/** A busy machine shows in the figures, not in refused calls. */
const unlimited = {
  LOG_LEVEL: 'error',
  OVERLOAD_MS: '0',
  RATE_LIMIT_DEFAULT: '1000000000',
  RATE_LIMIT_PROSPECTS: '1000000000',
  ELASTICSEARCH_TIMEOUT_MS: '30000',
  STATEMENT_TIMEOUT_MS: '60000',
};

/**
 * The catalog on one node of Elasticsearch: its import with peak memory, then lists, net-new, counts and suggestions
 * through the service, and the service's own share of a list over asking the cluster directly.
 * @param seconds of each measurement
 */
export async function benchCatalog(count: number, seconds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const cluster = await SearchCluster.start({ heap: '2g' });
  const environment = {
    ...unlimited,
    DATABASE_URL: server.serviceUrl,
    ELASTICSEARCH_URL: cluster.url,
    ELASTICSEARCH_REPLICAS: '0',
  };
  try {
    // Into catalogs of their own, which also warm the cluster up: its code is compiled while it works.
    const few = await importPeople({ ...environment, ELASTICSEARCH_INDEX: 'few' }, Math.min(fewLines, count), 2);
    await importPeople({ ...environment, ELASTICSEARCH_INDEX: 'warm' }, Math.min(warmingLines, count), 3);
    const many = await importPeople(environment, count, 1);
    print('peak memory of the larger import', { 'MiB more': many - few });
    await benchCalls(environment, server.serviceUrl, count, seconds, cluster.url);
  } finally {
    await cluster.stop();
    await server.close();
  }
}

/** The same on Postgres, whose catalog grows from one size to the next. */
export async function benchPostgresCatalog(sizes: number[], seconds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const environment = { ...unlimited, DATABASE_URL: server.serviceUrl };
  let before = 0;
  try {
    for (const [i, size] of sizes.entries()) {
      await importPeople(environment, size - before, i + 1);
      await benchCalls(environment, server.serviceUrl, size, seconds);
      before = size;
    }
  } finally {
    await server.close();
  }
}

/** Makes people up and imports them; answers the peak memory of that (MiB). */
async function importPeople(environment: Environment, count: number, seed: number): Promise<number> {
  const file = join(tmpdir(), `bench-${process.pid}.ndjson`);
  try {
    await verb(['generate', '--count', String(count), '--seed', String(seed), '--output', file], environment);
    const shares = await watchProcessors();
    const { seconds, peakMiB } = await verb(['import', file], environment);
    const name = `import of ${count.toLocaleString('en')}, with suggestions`;
    print(name, { 'people/s': count / seconds, 'peak MiB': peakMiB, seconds, ...(await shares()) });
    return peakMiB;
  } finally {
    await rm(file, { force: true });
  }
}

type Environment = Record<string, string>;

/** What callers wait for, with the best 100,000 (half of a smaller catalog) unlocked by one of two customers. */
async function benchCalls(
  environment: Environment,
  databaseUrl: string,
  count: number,
  seconds: number,
  clusterUrl?: string,
): Promise<void> {
  const config = parseConfig(environment);
  const db = openDatabase(config, databaseUrl);
  const catalog = openCatalog(config, db);
  const app = buildApp({ config, db, catalog });
  await app.ready();
  const [fresh, heavy] = [await makeCustomer(app), await makeCustomer(app)];
  const most = Math.min(unlocked, count / 2);
  print(`${most.toLocaleString('en')} unlocked, and the catalog told`, {
    'prospects/s': await unlockBest(db, catalog, heavy.id, most),
  });
  if (clusterUrl) await settled(clusterUrl);
  const service = await startServer(['src/cli.ts', 'serve', '--json'], { ...environment, PORT: '0' });
  print(`${count.toLocaleString('en')} prospects on ${catalog.engine}, ${callers} callers`);
  const measure = ([, key, path, body]: Called, during: number): ReturnType<typeof tryLoad> => {
    const requests = [{ method: 'POST' as const, path: `/api/ext${path}`, body }];
    return tryLoad(service.url, requests, callers, during, { authorization: `X-API-Key ${key}` });
  };
  const measured = calls(fresh.key, heavy.key);
  for (let round = 0; round < warmingRounds; round += 1) for (const call of measured) await measure(call, seconds);
  for (const call of measured) {
    await measure(call, 2);
    const shares = await watchProcessors();
    const { rate, p50, p99, failed } = await measure(call, seconds);
    const figures = failed > 0 ? { 'turned away': failed } : { 'p50 ms': p50, 'p99 ms': p99, 'per s': rate };
    print(call[0], { ...figures, ...(await shares()) });
  }
  if (clusterUrl) await printShare(service.url, heavy.key, heavy.id, `${clusterUrl}/${namesOf(config).people}`);
  await service.stop();
  await app.close();
  await catalog.close();
  await db.close();
}

type Called = [name: string, key: string, path: string, body: object];

function calls(fresh: string, heavy: string): Called[] {
  const filters = { job_title: ['sales manager'], location_country: ['Germany', 'France'] };
  return [
    ['list', fresh, '/prospect/list', { all_contacts: true }],
    ['list, page 200', fresh, '/prospect/list', { all_contacts: true, paginate: { page: 200, limit: 25 } }],
    ['list, filtered', fresh, '/prospect/list', { all_contacts: true, filters }],
    ['list, by last name', fresh, '/prospect/list', { all_contacts: true, order_by: { last_name: 'ASC' } }],
    ['list, net-new, none unlocked', fresh, '/prospect/list', {}],
    ['list, net-new, many unlocked', heavy, '/prospect/list', {}],
    ['list, net-new, many unlocked, filtered', heavy, '/prospect/list', { filters }],
    ['metadata', fresh, '/prospect/metadata', { all_contacts: true }],
    ['metadata, many unlocked, filtered', heavy, '/prospect/metadata', { filters }],
    ['suggestions, "s" in titles', fresh, '/prospect/filters', { source: 'job_title', search: 's' }],
    ['suggestions, "mar" in all', fresh, '/prospect/filters', { source: 'all', search: 'mar' }],
    ['suggestions, most frequent', fresh, '/prospect/filters', { source: 'all' }],
  ];
}

/** Runs a verb of `catalog`, watching its memory. */
async function verb(words: string[], environment: Environment): Promise<{ seconds: number; peakMiB: number }> {
  const startedAt = performance.now();
  const env = { PATH: process.env['PATH'], ...environment };
  const child = spawn(process.execPath, ['src/cli.ts', 'catalog', ...words, '--json'], {
    cwd: root,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2_000)));
  let peakMiB = 0;
  const ended = once(child, 'exit');
  for (let done = false; !done;) {
    done = await Promise.race([ended.then(() => true), sleep(200).then(() => false)]);
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '');
    peakMiB = Math.max(peakMiB, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  }
  if (child.exitCode !== 0) throw new Error(`catalog ${words.join(' ')} failed:\n${said}`);
  return { seconds: (performance.now() - startedAt) / 1000, peakMiB };
}

/** Unlocks the best prospects, as an unlock job would, and answers how many a second. */
async function unlockBest(db: Database, catalog: Catalog, customerId: string, count: number): Promise<number> {
  const startedAt = performance.now();
  let done = 0;
  for (let after; done < count;) {
    const people = await catalog.search({ criteria: [], order: bestFirst }, { limit: 1_000, after });
    const ids = people.map(({ _id }) => _id);
    await db.transaction((sql) => insertUnlocks(sql, customerId, ids));
    await catalog.syncUnlocks(ids);
    after = positionOf(people.at(-1)!, bestFirst);
    done += ids.length;
  }
  await catalog.refresh();
  return (done * 1000) / (performance.now() - startedAt);
}

/** Waits until the cluster merges nothing any more: that takes one of two cores. */
async function settled(clusterUrl: string): Promise<void> {
  for (let merging = 1; merging > 0;) {
    await sleep(1_000);
    const answer = await fetch(`${clusterUrl}/_nodes/stats/indices/merge`);
    const { nodes } = (await answer.json()) as { nodes: Record<string, { indices: { merges: { current: number } } }> };
    merging = Math.max(...Object.values(nodes).map(({ indices }) => indices.merges.current));
  }
}

/** One caller, in turn through the service and directly, asking the cluster for the same. */
async function printShare(serviceUrl: string, key: string, customerId: string, indexUrl: string): Promise<void> {
  const search = toSearch(customerId, {});
  const body = {
    query: matching(search),
    sort: sortBy(search.order),
    size: 25,
    from: 0,
    track_total_hits: false,
  };
  const post = async (url: string, given: object, headers = {}): Promise<number> => {
    const startedAt = performance.now();
    const answer = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(given),
      headers: { 'content-type': 'application/json', ...headers },
    });
    await answer.text();
    return performance.now() - startedAt;
  };
  const [through, direct]: [number[], number[]] = [[], []];
  for (let i = 0; i < 600; i += 1) {
    through.push(await post(`${serviceUrl}/api/ext/prospect/list`, {}, { authorization: `X-API-Key ${key}` }));
    direct.push(await post(`${indexUrl}/_search`, body));
  }
  const [service, cluster] = [median(through.slice(100)), median(direct.slice(100))];
  print('net-new list, one caller, p50 ms', { service, 'cluster directly': cluster, share: service - cluster });
}

function print(name: string, figures: Record<string, number> = {}): void {
  const shown = Object.entries(figures).map(([what, value]) => `${what} ${value.toFixed(value < 100 ? 1 : 0)}`);
  process.stdout.write(`  ${name.padEnd(40)}${shown.join('   ')}\n`);
}
