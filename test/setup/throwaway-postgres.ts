import { chmod, mkdtemp, readdir, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive, killServer } from '../../src/database/embedded-cluster.ts';
import { openEmbeddedPostgres, type EmbeddedPostgres } from '../../src/database/embedded-postgres.ts';

const prefix = 'sales-data-api-throwaway-';

/** Settings of a server whose data nobody needs after a crash. */
const throwawaySettings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_connections: '300',
};

/** Starts PostgreSQL in a temporary folder that `close` deletes. Also deletes the folders of processes that were killed. */
export async function openThrowawayPostgres(settings: Record<string, string> = {}): Promise<EmbeddedPostgres> {
  for (const name of await readdir(tmpdir())) {
    const maker = new RegExp(String.raw`^${prefix}(\d+)-`).exec(name)?.[1];
    if (maker !== undefined && !isAlive(Number(maker))) await discard(join(tmpdir(), name)).catch(() => undefined); // may belong to another user
  }
  const home = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));
  await chmod(home, 0o755); // the server may have to run as another user
  const server = await openEmbeddedPostgres(home, { ...throwawaySettings, ...settings }).catch(
    async (error: unknown) => {
      await discard(home);
      throw error;
    },
  );
  return { ...server, close: () => discard(home) };
}

async function discard(home: string): Promise<void> {
  const data = await realpath(join(home, 'postgres')).catch(() => home);
  await killServer({ data });
  for (const path of [data, home]) await rm(path, { recursive: true, force: true, maxRetries: 5 });
}
