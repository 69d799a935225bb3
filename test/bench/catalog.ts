import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildApp } from '../../src/app.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { matching, sortBy } from '../../src/catalog/elasticsearch-query.ts';
import { toSearch } from '../../src/catalog/listing.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { bestFirst, positionOf } from '../../src/catalog/order.ts';
import { parseConfig } from '../../src/config.ts';
import { openDatabase, type Database } from '../../src/db.ts';
import { openEmbeddedPostgres } from '../../src/embedded-postgres.ts';
import { migrate } from '../../src/migrate.ts';
import { insertUnlocks } from '../../src/queries/unlocks.ts';
import type { ProspectQuery } from '../../src/schemas/prospects.ts';
import { SearchCluster } from '../search-cluster/cluster.ts';
import { makeCustomer } from '../setup/factories.ts';
import { load, median, startServer } from './run.ts';

const callers = 16;
const unlocked = 100_000;
const root = join(import.meta.dirname, '..', '..');

/**
 * The catalog on one node of Elasticsearch, or on Postgres: its import with peak memory, then lists, net-new, counts and
 * suggestions through the service, and the service's own share of a list over asking the cluster directly.
 */
export async function benchCatalog(
  engine: 'elasticsearch' | 'postgres',
  count: number,
  seconds: number,
): Promise<void> {
  print(`${count.toLocaleString('en')} prospects on ${engine}, ${callers} callers`);
  const server = await openEmbeddedPostgres('', { throwaway: true });
  await migrate(server.ownerUrl);
  const cluster = engine === 'elasticsearch' ? await SearchCluster.start({ heap: '2g' }) : undefined;
  const environment = {
    DATABASE_URL: server.serviceUrl,
    LOG_LEVEL: 'warn',
    RATE_LIMITS: 'off',
    ...(cluster ? { ELASTICSEARCH_URL: cluster.url, ELASTICSEARCH_REPLICAS: '0' } : {}),
  };
  const file = join(tmpdir(), `bench-${process.pid}.ndjson`);
  await verb(['generate', '--count', String(count), '--seed', '1', '--output', file], environment);
  const imported = await verb(['import', file], environment);
  print(`import, suggestions included`, {
    'people/s': count / imported.seconds,
    'peak MiB': imported.peakMiB,
    seconds: imported.seconds,
  });
  await rm(file);

  const config = parseConfig(environment);
  const db = openDatabase(config, server.serviceUrl);
  const catalog = openCatalog(config, db);
  const app = buildApp({ config, db, catalog });
  await app.ready();
  const [fresh, heavy] = [await makeCustomer(app), await makeCustomer(app)];
  const syncing = await unlockBest(db, catalog, heavy.id, Math.min(unlocked, count / 2));
  print('unlocks written and told', { 'prospects/s': syncing });

  const service = await startServer(['src/cli.ts', 'serve', '--json'], { ...environment, PORT: '0' });
  const filtered = { job_title: ['sales manager'], location_country: ['Germany', 'France'] };
  const calls: [name: string, key: string, path: string, body: ProspectQuery | object][] = [
    ['list', fresh.key, '/prospect/list', { all_contacts: true }],
    ['list, page 200', fresh.key, '/prospect/list', { all_contacts: true, paginate: { page: 200, limit: 25 } }],
    ['list, filtered', fresh.key, '/prospect/list', { all_contacts: true, filters: filtered }],
    ['list, by last name', fresh.key, '/prospect/list', { all_contacts: true, order_by: { last_name: 'ASC' } }],
    ['list, net-new, none unlocked', fresh.key, '/prospect/list', {}],
    ['list, net-new, 100,000 best unlocked', heavy.key, '/prospect/list', {}],
    ['list, net-new, filtered', heavy.key, '/prospect/list', { filters: filtered }],
    ['metadata', fresh.key, '/prospect/metadata', { all_contacts: true }],
    ['metadata, net-new, filtered', heavy.key, '/prospect/metadata', { filters: filtered }],
    ['suggestions, "s" in titles', fresh.key, '/prospect/filters', { source: 'job_title', search: 's' }],
    ['suggestions, "mar" in all', fresh.key, '/prospect/filters', { source: 'all', search: 'mar' }],
    ['suggestions, most frequent', fresh.key, '/prospect/filters', { source: 'all' }],
  ];
  for (const [name, key, path, body] of calls) {
    const requests = [{ method: 'POST' as const, path: `/api/ext${path}`, body }];
    const headers = { authorization: `X-API-Key ${key}` };
    await load(service.url, requests, callers, 2, headers);
    const { rate, p50, p99 } = await load(service.url, requests, callers, seconds, headers);
    print(name, { 'p50 ms': p50, 'p99 ms': p99, 'per s': rate });
  }
  if (cluster) await printShare(service.url, heavy.key, heavy.id, cluster.url);

  service.stop();
  await app.close();
  await catalog.close();
  await db.close();
  await cluster?.stop();
  await server.close();
}

/** Runs a verb of `catalog`, watching its memory. */
async function verb(
  words: string[],
  environment: Record<string, string>,
): Promise<{ seconds: number; peakMiB: number }> {
  const startedAt = performance.now();
  const env = { PATH: process.env['PATH'], ...environment };
  const child = spawn(process.execPath, ['src/cli.ts', 'catalog', ...words, '--json'], {
    cwd: root,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  let peakMiB = 0;
  const ended = once(child, 'exit');
  for (let done = false; !done;) {
    done = await Promise.race([ended.then(() => true), sleep(200).then(() => false)]);
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '');
    peakMiB = Math.max(peakMiB, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  }
  if (child.exitCode !== 0) throw new Error(`catalog ${words.join(' ')} failed`);
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

/** One caller, in turn through the service and directly. */
async function printShare(serviceUrl: string, key: string, customerId: string, clusterUrl: string): Promise<void> {
  const search = toSearch(customerId, {});
  const body = { query: matching(search), sort: sortBy(search.order), size: 25, from: 0, track_total_hits: false };
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
    direct.push(await post(`${clusterUrl}/sales-data-prospects/_search`, body));
  }
  const [service, cluster] = [median(through.slice(100)), median(direct.slice(100))];
  print('net-new list, one caller, p50 ms', { service, 'cluster directly': cluster, share: service - cluster });
}

function print(name: string, figures: Record<string, number> = {}): void {
  const shown = Object.entries(figures).map(([what, value]) => `${what} ${value.toFixed(value < 100 ? 1 : 0)}`);
  process.stdout.write(`  ${name.padEnd(40)}${shown.join('   ')}\n`);
}
