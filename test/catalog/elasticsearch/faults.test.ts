import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { importPeople } from '../../../src/catalog/import-people.ts';
import { generatePeople } from '../../../src/commands/generate-people.ts';
import { SearchCluster } from '../../search-cluster/cluster.ts';
import { runAlone } from '../../setup/alone.ts';
import { startApp, type TestApp } from '../../setup/app.ts';
import { needNodes, noNodes } from '../../setup/elasticsearch.ts';
import { inject, type TestCustomer } from '../../setup/factories.ts';
import { person, writePeople } from '../people.ts';

runAlone();

const patience = 180_000;

/** Pause of each caller between two searches (ms), so that the nodes that recover get processor time. */
const pauseMs = 20;

/** Cluster settings: the cluster drops a lost node sooner than by default. */
const impatient = Object.fromEntries(
  ['follower_check', 'leader_check'].flatMap((check) => [
    [`cluster.fault_detection.${check}.timeout`, '3s'],
    [`cluster.fault_detection.${check}.retry_count`, '2'],
  ]),
);

describe.skipIf(noNodes)(`three nodes of Elasticsearch ${needNodes}`, () => {
  let cluster: SearchCluster;
  let app: TestApp;
  let customer: TestCustomer;
  const constant = Array.from({ length: 60 }, (_, i) => person({ last_name: 'Constant', score: i }));

  beforeAll(async () => {
    cluster = await SearchCluster.start({ nodes: 3, heap: '384m', settings: impatient });
    app = await startApp({
      ELASTICSEARCH_URL: cluster.url,
      ELASTICSEARCH_SHARDS: '3',
      ELASTICSEARCH_REPLICAS: '1',
      ELASTICSEARCH_TIMEOUT_MS: '6000',
      ELASTICSEARCH_BULK_TIMEOUT_MS: '10000',
    });
    customer = await app.customer();
    await app.catalog.prepare();
    await writePeople(app.catalog, constant);
    await app.catalog.finish();
    await cluster.healthy();
  }, patience);

  afterAll(() => cluster.stop());

  const search = () =>
    customer.post('/prospect/list', { filters: { last_name: ['constant'] }, paginate: { limit: 50 } });
  const expected = constant
    .toReversed()
    .slice(0, 50)
    .map(({ _id }) => _id);

  /**
   * Searches again and again. Returns a function that stops this and returns how many searches succeeded, and all wrong
   * results. A 503 is none.
   */
  function keepSearching(callers: number): () => Promise<{ succeeded: number; wrong: unknown[] }> {
    const stop = new AbortController();
    let succeeded = 0;
    const wrong: unknown[] = [];
    const caller = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        const { status, body } = await search();
        const ids = Array.isArray(body) ? body.map(({ _id }: { _id: string }) => _id) : body;
        const isWrong = status !== 201 || JSON.stringify(ids) !== JSON.stringify(expected);
        if (!isWrong) succeeded += 1;
        else if (status !== 503 || body.code !== 'unavailable') wrong.push([status, ids]);
        await sleep(pauseMs);
      }
    };
    const all = Promise.all(Array.from({ length: callers }, caller));
    return async () => {
      stop.abort();
      await all;
      return { succeeded, wrong };
    };
  }

  /** Imports people and calls `hurt` when some of them are written. Returns all their ids. */
  async function loadWhile(seed: number, hurt: () => Promise<void> | void): Promise<string[]> {
    const people = [...generatePeople(4_000, seed)];
    const lines = people.map((one) => `${JSON.stringify(one)}\n`);
    const chunks = Array.from({ length: 20 }, (_, i) => Buffer.from(lines.slice(i * 200, (i + 1) * 200).join('')));
    let hurting: Promise<void> | undefined;
    const report = await importPeople(app.db, app.catalog, {
      chunks: Readable.from(chunks),
      format: 'ndjson',
      onBad: (line, fault) => expect.fail(`line ${line}: ${fault}`),
      onProgress: ({ loaded }) => void (hurting ??= loaded > 0 ? Promise.resolve(hurt()) : undefined),
    });
    await hurting;
    expect(hurting, '`hurt` was called during the import').toBeDefined();
    expect(report).toMatchObject({ loaded: 4_000, bad: 0 });
    return people.map(({ _id }) => _id);
  }

  /** Every caller gets the right answers again, although nobody has done anything. */
  async function expectRecovered(): Promise<void> {
    const statuses = async () => (await Promise.all(Array.from({ length: 12 }, search))).map(({ status }) => status);
    await expect.poll(statuses, { timeout: 120_000, interval: 500 }).toEqual(Array(12).fill(201));
  }

  async function allFound(ids: string[]): Promise<void> {
    for (let from = 0; from < ids.length; from += 1_000) {
      // A read that meets the frozen node fails once, at its time limit.
      const found = () => app.catalog.find(ids.slice(from, from + 1_000)).catch(() => []);
      await expect.poll(found, { timeout: 60_000 }).toHaveLength(Math.min(1_000, ids.length - from));
    }
  }

  test(
    'when a node is killed during searches and an import, searches recover by themselves and no person is lost',
    { timeout: patience },
    async () => {
      const stop = keepSearching(4);
      const ids = await loadWhile(1, () => cluster.kill(1));
      await expectRecovered();
      const { succeeded, wrong } = await stop();
      expect(wrong).toEqual([]);
      expect(succeeded).toBeGreaterThan(20);
      await allFound(ids);
    },
  );

  test(
    'while the whole cluster is frozen, prospect calls alone return 503, in bounded time, and they recover by themselves',
    { timeout: patience },
    async () => {
      await cluster.revive();
      for (const node of [0, 1, 2]) cluster.freeze(node);
      const startedAt = performance.now();
      const answers = await Promise.all(Array.from({ length: 20 }, search));
      expect(performance.now() - startedAt).toBeLessThan(30_000);
      for (const { status, headers, body } of answers) {
        expect([status, body.code]).toEqual([503, 'unavailable']);
        expect(Number(headers['retry-after'])).toBeGreaterThan(0);
      }
      for (const path of ['metadata', 'filters'])
        expect((await customer.post(`/prospect/${path}`, path === 'filters' ? { source: 'all' } : {})).status).toBe(
          503,
        );
      expect((await customer.post('/contacts/list', {})).status).toBe(200);
      await expect
        .poll(() => inject(app.fastify, 'GET', '/readyz'), { timeout: 10_000 })
        .toMatchObject({ status: 200, body: { checks: { catalog: 'degraded' } } });
      for (const node of [0, 1, 2]) cluster.thaw(node);
      await expect.poll(async () => (await search()).status, { timeout: 60_000, interval: 100 }).toBe(201);
      await expect
        .poll(async () => (await inject(app.fastify, 'GET', '/readyz')).body.checks.catalog, { timeout: 60_000 })
        .toBe('up');
    },
  );
});

test('a search cluster that refuses connections causes 503 at once', async () => {
  const app = await startApp({ ELASTICSEARCH_URL: 'http://127.0.0.1:1' });
  const customer = await app.customer();
  const startedAt = performance.now();
  for (let i = 0; i < 8; i += 1) {
    const { status, headers } = await customer.post('/prospect/list', {});
    expect([status, headers['retry-after']]).toEqual([503, '1']);
  }
  expect(performance.now() - startedAt).toBeLessThan(7_000); // the client's own pauses before retries take 8 to 16 s
  expect((await inject(app.fastify, 'GET', '/readyz')).status).toBe(200);
});
