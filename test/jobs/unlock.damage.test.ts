import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { namesOf } from '../../src/catalog/elasticsearch/indexes.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { jobBatches, startWorkers } from '../../src/jobs/workers.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { askCluster, indexesBehind, runImport, unlockedInCluster, unlockedInPostgres } from '../catalog/damage.ts';
import { person } from '../catalog/people.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { customerWith } from './calls.ts';
import { booksOf, ended, startSelected, startUnlock } from './spending.ts';
import { contextOf } from './working.ts';

const many = 600;

describe.skipIf(noElasticsearch)(`unlock jobs while the catalog is damaged ${need}`, () => {
  let environment: Record<string, string> = {};
  let app: TestApp;
  const people = Array.from({ length: many }, (_, i) => person({ score: i % 101, work_email: `p${i}@x.example` }));
  beforeAll(async () => {
    environment = await ownCatalog();
    app = await startApp({ ...environment });
    await runImport(app, people);
  });
  afterAll(() => dropCatalog(environment));

  const idsOf = (some: Prospect[]): string[] => some.map(({ _id }) => _id);
  const ask = (method: string, path: string, body?: object) =>
    askCluster(environment['ELASTICSEARCH_URL']!, method, path, body);
  const index = async (): Promise<string> =>
    (await indexesBehind(environment['ELASTICSEARCH_URL']!, namesOf(app.config).people))[0]!;

  /**
   * One damage after which the search fails, and one after which people are unlocked and not indexed. What the operator does
   * about it is in docs/catalog.md, "Repair". Returns that.
   */
  const damages: Record<string, () => Promise<() => Promise<unknown>>> = {
    'blocked for writes': async () => {
      const name = await index();
      const block = (write: true | null) => ask('PUT', `${name}/_settings`, { 'index.blocks.write': write });
      await block(true);
      return () => block(null);
    },
    deleted: async () => {
      await ask('DELETE', await index());
      return () => runImport(app, people);
    },
  };
  for (const [name, hurt] of Object.entries(damages))
    test(`an index ${name} makes the jobs wait; when it is mended they complete, and no paid prospect is net-new`, async () => {
      const customer = await customerWith(app, { subscription: many });
      // Both jobs start before the damage and run after it.
      const second = await startSelected(customer, idsOf(people.slice(0, 200)));
      const first = await startUnlock(customer, { filters: {}, total_records: 400 });
      const mend = await hurt();
      // No sweep runs: the jobs themselves must index what they have unlocked.
      const unlock = { handle: takeTurn('unlock', jobBatches), atOnce: 2 };
      const workers = await startWorkers({ ...contextOf(app), url: app.url }, { unlock });
      onTestFinished(() => workers.stop());
      const waits = async (): Promise<boolean> => {
        const [{ count }] = await app.owner<[{ count: number }]>`
          select count(*)::integer as count from jobs
          where id in (${first}, ${second}) and finished_at is null and due_at is not null and failures = 0`;
        return count === 2;
      };
      await expect.poll(waits, { interval: 20, timeout: 60_000 }).toBe(true);
      await mend();
      const jobs = [await ended(customer, first), await ended(customer, second)];
      expect(jobs.map(({ status }) => status)).toEqual(['COMPLETED', 'COMPLETED']);
      const unlocked = jobs.reduce((sum, { succeeded }) => sum + succeeded, 0);
      expect(await app.catalog.count({ criteria: [], netNewFor: customer.id })).toBe(many - unlocked);
      expect(await booksOf(app, customer)).toEqual({ balance: many - unlocked, reserved: 0 });
      expect(await unlockedInCluster(app)).toEqual(await unlockedInPostgres(app));
    });
});
