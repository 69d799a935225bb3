import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { namesOf } from '../../src/catalog/elasticsearch/indexes.ts';
import { sweepJobs } from '../../src/jobs/workers.ts';
import { insertUnlocks, findUnindexedProspects } from '../../src/queries/jobs/unlocks.ts';
import { contextOf } from '../jobs/working.ts';
import { SearchCluster } from '../search-cluster/cluster.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { needNodes, noNodes } from '../setup/elasticsearch.ts';
import { inject } from '../setup/factories.ts';
import { askCluster, runImport, indexesBehind } from './damage.ts';
import { person } from './people.ts';

describe.skipIf(noNodes)(`a catalog whose cluster has given up one of its shards ${needNodes}`, () => {
  let cluster: SearchCluster;
  let app: TestApp;
  let index: string;
  /** People on the shard that is given up, and on the other one. */
  let lost: string[];
  let kept: string[];
  const people = Array.from({ length: 1_300 }, () => person());

  const ask = <T>(method: string, path: string, body?: object): Promise<T> =>
    askCluster(cluster.url, method, path, body) as Promise<T>;

  /** The file without which the cluster cannot open shard 0. */
  async function checkpoint(): Promise<string> {
    const settings = await ask<Record<string, { settings: { index: { uuid: string } } }>>('GET', `${index}/_settings`);
    const [{ node }] = await ask<[{ node: string }]>('GET', `_cat/shards/${index}?format=json&h=node`);
    const { nodes } = await ask<{ nodes: Record<string, { name: string; fs: { data: [{ path: string }] } }> }>(
      'GET',
      '_nodes/stats/fs',
    );
    const [data] = Object.values(nodes).find(({ name }) => name === node)!.fs.data;
    return join(data.path, 'indices', settings[index]!.settings.index.uuid, '0', 'translog', 'translog.ckp');
  }

  interface Shard {
    state: string;
    'unassigned.reason': string | null;
  }
  const shards = async (): Promise<string[]> => {
    const found = await ask<Shard[]>('GET', `_cat/shards/${index}?format=json&h=state,unassigned.reason`);
    return found.map((shard) => [shard.state, shard['unassigned.reason']].join(' ').trim()).toSorted();
  };
  const patience = { timeout: 120_000, interval: 200 };

  /** How often the cluster has failed to start shard 0. */
  async function failedAttempts(): Promise<number> {
    interface State {
      routing_table: { indices: Record<string, { shards: Record<string, [{ unassigned_info?: Unassigned }]> }> };
    }
    interface Unassigned {
      failed_attempts?: number;
    }
    const state = await ask<State>('GET', `_cluster/state/routing_table/${index}`);
    return state.routing_table.indices[index]!.shards['0']![0].unassigned_info?.failed_attempts ?? 0;
  }

  let file: string;
  beforeAll(async () => {
    cluster = await SearchCluster.start();
    app = await startApp({
      ELASTICSEARCH_URL: cluster.url,
      ELASTICSEARCH_INDEX: 'shards',
      ELASTICSEARCH_REPLICAS: '0',
      ELASTICSEARCH_SHARDS: '2',
      ELASTICSEARCH_TIMEOUT_MS: '4000',
    });
    await runImport(app, people);
    [index] = (await indexesBehind(cluster.url, namesOf(app.config).people)) as [string];
    file = await checkpoint();
    await ask('POST', `${index}/_close`);
    await rename(file, `${file}.away`);
    await ask('POST', `${index}/_open?wait_for_active_shards=0`);
    // The cluster tries five times. Before the last failure it would start the shard once the file is back.
    await vi.waitFor(async () => {
      if ((await failedAttempts()) < 5) throw new Error('not given up yet');
    }, patience);
    await rename(`${file}.away`, file);
    const ids = people.map(({ _id }) => _id);
    const { docs } = await ask<{ docs: { _id: string; found?: boolean }[] }>('POST', `${index}/_mget?_source=false`, {
      ids,
    });
    kept = docs.filter(({ found }) => found).map(({ _id }) => _id);
    lost = ids.filter((id) => !kept.includes(id));
  }, 400_000);
  afterAll(() => cluster?.stop());

  const untold = () => app.db.lookup((sql) => findUnindexedProspects(sql, 10_000));

  test('is told of unlocks on the other shard, however many wait before them', async () => {
    expect(Math.min(kept.length, lost.length)).toBeGreaterThan(500);
    const { id } = await app.customer();
    for (const ids of [lost, kept.slice(0, 20)]) await app.db.transaction((sql) => insertUnlocks(sql, id, ids));
    await sweepJobs(contextOf(app), {});
    expect(new Set(await untold())).toEqual(new Set(lost));
  });

  test('is whole again once an operator has asked the cluster to try again', async () => {
    expect(await shards(), 'the cluster does not start it by itself').toContain('UNASSIGNED ALLOCATION_FAILED');
    await ask('POST', '_cluster/reroute?retry_failed=true');
    await expect.poll(shards, patience).toEqual(['STARTED', 'STARTED']);
    await expect
      .poll(async () => (await inject(app.fastify, 'GET', '/readyz')).body.checks.catalog, {
        timeout: 60_000,
        interval: 300,
      })
      .toBe('up');
    await sweepJobs(contextOf(app), {});
    expect(await untold()).toEqual([]);
    expect((await runImport(app, [person()])).people).toBe(people.length + 1);
  });
});
