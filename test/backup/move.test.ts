import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runCli } from '../setup/cli.ts';
import { backupPrograms, needBackupPrograms } from '../setup/postgres-programs.ts';
import { expectSound, freezeInsideJob, startProduction, stopProduction, type Production } from './production.ts';
import { followHandbook, newFolder, newServer, type Server } from './rig.ts';

describe.skipIf(backupPrograms === undefined)(`a database from before release 1.0.0 ${needBackupPrograms}`, () => {
  let server: Server;
  let production: Production;
  let contents: Record<string, unknown>;

  beforeAll(async () => {
    server = await newServer();
    production = await startProduction(server);
    const { load, worker } = production;
    await load.more(20);
    await freezeInsideJob(production);
    await worker.stop('SIGKILL');
    await stopProduction(production);
    await server.owner`update schema_migrations set oldest_release = null`;
    contents = await contentsOf(server);
  });

  test('is refused, and moved by the commands of the handbook with all its data and jobs', async () => {
    const refused = await runCli(['migrate'], { DATABASE_URL: server.ownerUrl });
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^error: The database is from before release 1\.0\.0/);

    // A database with connections cannot be renamed, and the test has one.
    await server.superuser`
      select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = 'sales_data_api'`;
    const DUMP = join(await newFolder(undefined), 'data.dump');
    await followHandbook(['command', 'addresses', 'move'], server, { DUMP });

    expect(await contentsOf(server)).toEqual(contents);
    await expectSound(production, server, { before: production.load.acknowledged, after: [] });
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
