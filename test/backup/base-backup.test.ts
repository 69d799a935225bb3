import { cp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { backupPrograms, needBackupPrograms } from '../setup/postgres-programs.ts';
import {
  commandLine,
  expectSound,
  freezeInsideJob,
  missingFrom,
  startProduction,
  stopProduction,
  type Production,
} from './production.ts';
import {
  asBackup,
  followAsServer,
  newestBackup,
  newFolder,
  newServer,
  restart,
  restoreBase,
  type Server,
} from './rig.ts';

vi.setConfig({ testTimeout: 900_000, hookTimeout: 900_000 });

describe.skipIf(backupPrograms === undefined)(`a base backup with WAL, taken under load ${needBackupPrograms}`, () => {
  let server: Server;
  let production: Production;
  let BACKUPS: string;
  let BACKUP: string;
  /** What was acknowledged before the backup began. */
  let before: Production['load']['acknowledged'];

  beforeAll(async () => {
    server = await newServer();
    BACKUPS = await newFolder(server.cluster.user);
    await followAsServer(['backup-login', 'archive'], server, { BACKUPS });
    await restart(server);
    await followAsServer(['archive-check'], server);
    production = await startProduction(server);
    await production.load.more(20);
    const importing = commandLine(production, 'catalog', 'import', production.largeFile);
    before = [...production.load.acknowledged];
    BACKUP = await followAsServer(['backup'], server, { ...asBackup, BACKUPS }, newestBackup);
    await importing;
  });

  afterAll(() => stopProduction(production));

  /** Waits until all WAL up to now is in the archive. */
  async function archiveAll(): Promise<void> {
    const [row] = await server.superuser<[{ file: string }]>`select pg_walfile_name(pg_switch_wal()) as file`;
    await expect.poll(() => readdir(join(BACKUPS, 'wal'))).toContain(row.file);
  }

  test('alone holds everything that was acknowledged before it began', async () => {
    const restored = await restoreBase(server, { BACKUPS: '/nowhere', BACKUP });
    expect(await missingFrom(restored, before)).toEqual([]);
  });

  test('restores any later moment, and the service goes on from there', async () => {
    const { load, largeFile } = production;
    const { go } = await freezeInsideJob(production);
    const earlier = [...load.acknowledged];
    const [{ now: UNTIL }] = await server.superuser<[{ now: string }]>`select clock_timestamp()::text as now`;
    const passedAt = performance.now();
    go();
    await load.more(20);
    await load.stop();
    await archiveAll();
    const restored = await restoreBase(server, { BACKUPS, BACKUP, UNTIL });
    const after = load.acknowledged.filter(({ sentAt }) => sentAt > passedAt);
    await expectSound(production, restored, { before: earlier, after });
    // The restored progress of the import is that of the restored people.
    await commandLine({ ...production, server: restored }, 'catalog', 'import', largeFile);
    const people = async (one: Server) =>
      (await commandLine({ ...production, server: one }, 'catalog', 'status')).people;
    expect(await people(restored)).toBe(await people(server));
  });

  test('restores everything in the archive, also after old backups and their WAL were removed', async () => {
    await archiveAll();
    const older = [1, 2, 3, 4, 5, 6].map((day) => `base-2001010${day}T000000Z`);
    for (const name of older)
      await cp(BACKUP, await newFolder(server.cluster.user, join(BACKUPS, name)), { recursive: true });
    const oldWal = '000000010000000000000000.gz';
    await writeFile(join(BACKUPS, 'wal', oldWal), '');
    await followAsServer(['backup'], server, { ...asBackup, BACKUPS });
    expect(await readdir(BACKUPS)).not.toContain(older[0]);
    expect(await readdir(BACKUPS)).toEqual(expect.arrayContaining(older.slice(1)));
    const wal = await readdir(join(BACKUPS, 'wal'));
    expect(wal).not.toContain(oldWal);
    expect(wal, 'the archive is compressed').toContainEqual(expect.stringMatching(/^[\dA-F]{24}\.gz$/));
    const restored = await restoreBase(server, { BACKUPS, BACKUP });
    expect(await missingFrom(restored, production.load.acknowledged)).toEqual([]);
  });
});
