import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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

describe.skipIf(backupPrograms === undefined)(`a base backup with WAL, taken under load ${needBackupPrograms}`, () => {
  let server: Server;
  let production: Production;
  let BACKUPS: string;
  let BACKUP: string;
  /** Positions in the WAL, each with the number of requests that were acknowledged before it. */
  const positions: { lsn: string; acknowledged: number }[] = [];

  beforeAll(async () => {
    server = await newServer();
    BACKUPS = await newFolder(server.cluster.user);
    await followAsServer(['backup-login', 'archive'], server, { BACKUPS });
    await restart(server);
    await followAsServer(['archive-check'], server);
    production = await startProduction(server);
    await production.load.more(20);
    const importing = commandLine(production, 'catalog', 'import', production.largeFile);
    const taking = followAsServer(['backup'], server, { ...asBackup, BACKUPS }, newestBackup);
    const taken = new AbortController();
    void taking.finally(() => taken.abort());
    while (!taken.signal.aborted) await notePosition();
    BACKUP = await taking;
    await notePosition();
    await importing;
  });

  afterAll(() => stopProduction(production));

  async function notePosition(): Promise<void> {
    const acknowledged = production.load.acknowledged.length;
    const [row] = await server.superuser<[{ lsn: string }]>`select pg_current_wal_flush_lsn()::text as lsn`;
    positions.push({ lsn: row.lsn, acknowledged });
  }

  /** Waits until all WAL up to now is in the archive. */
  async function archiveAll(): Promise<void> {
    const [row] = await server.superuser<[{ file: string }]>`select pg_walfile_name(pg_switch_wal()) as file`;
    await expect.poll(() => readdir(join(BACKUPS, 'wal')), { timeout: 30_000 }).toContain(row.file);
  }

  test('alone holds everything that was acknowledged before its end', async () => {
    const restored = await restoreBase(server, { BACKUPS: '/nowhere', BACKUP });
    const manifest = await readFile(join(BACKUP, 'backup_manifest'), 'utf8');
    const [{ 'End-LSN': end }] = (JSON.parse(manifest) as { 'WAL-Ranges': [{ 'End-LSN': string }] })['WAL-Ranges'];
    const within = positions.filter(({ lsn }) => positionOf(lsn) <= positionOf(end));
    expect(within.length).toBeGreaterThan(0);
    const { acknowledged } = production.load;
    expect(await missingFrom(restored, acknowledged.slice(0, within.at(-1)!.acknowledged))).toEqual([]);
  });

  test('restores any later moment, and the service goes on from there', async () => {
    const { load, largeFile } = production;
    const { go } = await freezeInsideJob(production);
    const before = [...load.acknowledged];
    const [{ now: UNTIL }] = await server.superuser<[{ now: string }]>`select clock_timestamp()::text as now`;
    const passedAt = performance.now();
    go();
    await load.more(20);
    await load.stop();
    await archiveAll();
    const restored = await restoreBase(server, { BACKUPS, BACKUP, UNTIL });
    const after = load.acknowledged.filter(({ sentAt }) => sentAt > passedAt);
    await expectSound(production, restored, { before, after });
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

/** Returns a position in the WAL, such as `16/B374D848`, as a number. */
const positionOf = (lsn: string): bigint => {
  const [high, low] = lsn.split('/').map((half) => BigInt(`0x${half}`)) as [bigint, bigint];
  return (high << 32n) + low;
};
