import { stat } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';
import { backupPrograms, needBackupPrograms } from '../setup/postgres-programs.ts';
import {
  commandLine,
  countPeople,
  countUnlocks,
  expectSound,
  freezeInsideJob,
  startProduction,
  stopProduction,
  untilJobsEnd,
  type Production,
} from './production.ts';
import { startServerProcess } from '../setup/server-process.ts';
import { asBackup, followAsServer, followHandbook, newFolder, newServer, type Server, newestDump } from './rig.ts';

const isMissing = backupPrograms === undefined || noElasticsearch;

describe.skipIf(isMissing)(`a dump, taken under load ${needBackupPrograms || need}`, () => {
  let production: Production;
  let search: Record<string, string>;
  let restored: Server;
  let before: Production['load']['acknowledged'];
  let dumpedAt: number;
  let dumpMode: number;

  beforeAll(async () => {
    search = await ownCatalog();
    const server = await newServer();
    production = await startProduction(server, search);
    const BACKUPS = await newFolder(server.cluster.user);
    await followAsServer(['backup-login'], server);
    const { load } = production;
    await load.more(20);
    const { go } = await freezeInsideJob(production);
    before = [...load.acknowledged];
    const DUMP = await followAsServer(['backup'], server, { ...asBackup, BACKUPS }, newestDump);
    dumpedAt = performance.now();
    dumpMode = (await stat(DUMP)).mode & 0o777;
    go();
    await load.more(40);
    await load.stop();
    await untilJobsEnd(server);
    await stopProduction(production);
    // The restored database then knows an index that does not exist any more.
    await commandLine(production, 'catalog', 'reindex');
    restored = await newServer();
    await followHandbook(['restore-dump'], restored, { DUMP });
  });
  afterAll(() => dropCatalog(search));

  test('is complete after a restore, and a reindex repairs a search index that is newer', async () => {
    expect(dumpMode, 'nobody else may read the dump').toBe(0o600);
    const { load, customerId } = production;
    const api = await startServerProcess(restored.url, search);
    const count = async (which: { all_contacts?: true }) => countPeople(load, api.url, which);
    const netNew = (await count({ all_contacts: true })) - (await countUnlocks(restored, customerId));
    expect(await count({}), 'the index knows unlocks that do not exist any more').toBeLessThan(netNew);
    await followHandbook(['command', 'addresses', 'after-restore-search'], restored, search);
    expect(await count({})).toBe(netNew);
    await api.stop();
    const after = load.acknowledged.filter(({ sentAt }) => sentAt > dumpedAt);
    await expectSound(production, restored, { before, after });
  });
});
