import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { runCli } from '../setup/cli.ts';
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

vi.setConfig({ testTimeout: 900_000, hookTimeout: 900_000 });

const isMissing = backupPrograms === undefined || noElasticsearch;

describe.skipIf(isMissing)(`a dump, taken under load ${needBackupPrograms || need}`, () => {
  let production: Production;
  let search: Record<string, string>;
  let restored: Server;
  let before: Production['load']['acknowledged'];
  let dumpedAt: number;
  let dumpMode: number;
  /** What a follower of the feed had read before the dump, and its cursors then and after the dump. */
  let read: string[];
  let cursors: { before: string; after: string };

  beforeAll(async () => {
    search = await ownCatalog();
    const server = await newServer();
    production = await startProduction(server, search);
    const BACKUPS = await newFolder(server.cluster.user);
    await followAsServer(['backup-login'], server);
    const { load } = production;
    await load.more(20);
    const seen = await load.follow();
    const { go } = await freezeInsideJob(production);
    before = [...load.acknowledged];
    const DUMP = await followAsServer(['backup'], server, { ...asBackup, BACKUPS }, newestDump);
    dumpedAt = performance.now();
    dumpMode = (await stat(DUMP)).mode & 0o777;
    go();
    await load.more(40);
    await load.stop();
    await untilJobsEnd(server);
    const lost = await load.follow(seen.cursor);
    read = seen.ids;
    cursors = { before: seen.cursor, after: lost.cursor };
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

  test('has a feed that goes on at cursors from before the dump without a gap, and answers 410 to later ones', async () => {
    const { load } = production;
    const { url, stop } = await startServerProcess(restored.url, search);
    const followed = await load.follow(cursors.before, url);
    const contacts = await restored.owner<{ id: string }[]>`select id from contacts`;
    expect([...read, ...followed.ids].toSorted()).toEqual(contacts.map(({ id }) => id).toSorted());
    expect(await load.follow(followed.cursor, url)).toMatchObject({ status: 200, ids: [] });
    expect((await load.follow(cursors.after, url)).status).toBe(410);
    await stop();
  });

  test('moves a database from before release 1.0.0, which is refused, with all its data', async () => {
    const { server } = production;
    await server.owner`update schema_migrations set oldest_release = null`;
    const contents = await contentsOf(server);
    const refused = await runCli(['migrate'], { DATABASE_URL: server.ownerUrl });
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^error: The database is from before release 1\.0\.0/);
    // A database with connections cannot be renamed, and the test has one.
    await server.superuser`
      select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = 'sales_data_api'`;
    const DUMP = join(await newFolder(undefined), 'data.dump');
    await followHandbook(['command', 'addresses', 'move'], server, { DUMP });
    expect(await contentsOf(server)).toEqual(contents);
    expect(await commandLine(production, 'migrate')).toMatchObject({ applied: [] });
  });
});

/** Returns the number of rows of each table, and a hash of their values, which does not depend on the order of columns. */
async function contentsOf({ owner }: Server): Promise<Record<string, unknown>> {
  const tables = await owner<{ name: string }[]>`
    select tablename::text as name from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations'`;
  const contents: Record<string, unknown> = {};
  for (const { name } of tables)
    [contents[name]] = await owner`
      select count(*)::integer as rows, md5(string_agg(row, '' order by row)) as hash
      from (select to_jsonb(t)::text as row from ${owner(name)} t) as rows`;
  return contents;
}
