import { afterAll, describe, expect, test } from 'vitest';
import { sweepJobs } from '../../src/jobs/workers.ts';
import { findUnindexedProspects, findUnlockingCustomers, insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { unlocks } from './unlocking.ts';
import { contextOf } from './working.ts';

describe.skipIf(noElasticsearch)(`unlocking from the Elasticsearch catalog ${need}`, async () => {
  const environment = noElasticsearch ? {} : await ownCatalog();
  const app = await startApp(environment);
  unlocks(app);
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(environment);
  });

  test('the sweep indexes unindexed unlocks in the cluster', async () => {
    const ada = person();
    await app.catalog.prepare();
    await writePeople(app.catalog, [ada]);
    const { id } = await app.customer();
    const countNetNew = async () => {
      await app.catalog.refresh();
      return app.catalog.count({ criteria: [], netNewFor: id });
    };
    const before = await countNetNew();
    await app.db.transaction((sql) => insertUnlocks(sql, id, [ada._id]));
    await sweepJobs(contextOf(app), {});
    expect(await app.db.lookup((sql) => findUnindexedProspects(sql, 10))).toEqual([]);
    expect((await app.db.lookup((sql) => findUnlockingCustomers(sql, [ada._id]))).get(ada._id)).toEqual([id]);
    expect(await countNetNew()).toBe(before - 1);
  });
});
