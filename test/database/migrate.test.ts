import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import postgres from 'postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase, type SharedDatabase } from '../../src/database/db.ts';
import { migrate, type Migrated } from '../../src/database/migrate.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { checkSchema, ourMigrations, readMigrations } from '../../src/database/migrations.ts';
import { asSuperuser, createDatabase, type TestDatabase } from '../setup/database.ts';

const ours = join(import.meta.dirname, '..', '..', 'sql', 'migrations');

let database: TestDatabase;
let owner: postgres.Sql;
let db: SharedDatabase;

/** Creates a database for a test. Returns a function that drops it. */
async function useDatabase(content: 'migrated' | 'nothing'): Promise<() => Promise<void>> {
  database = await createDatabase(content);
  owner = postgres(database.ownerUrl, { max: 1, fetch_types: false, onnotice: () => {} });
  db = openDatabase(parseConfig({}), database.url);
  return async () => {
    await db.close();
    await owner.end();
    await database.drop();
  };
}

/** Runs the migrations in `count` processes, which all begin when the last of them is ready. */
async function migrateInProcesses(count: number, folder?: string): Promise<Migrated[]> {
  const module = JSON.stringify(join(import.meta.dirname, '..', '..', 'src', 'database', 'migrate.ts'));
  const program = `
    const { migrate } = await import(${module});
    console.log('ready');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    console.log(JSON.stringify(await migrate(${JSON.stringify(database.ownerUrl)}, ${JSON.stringify(folder)})));
    process.exit();`;
  const children = Array.from({ length: count }, () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    return { child, lines: createInterface(child.stdout)[Symbol.asyncIterator]() };
  });
  await Promise.all(children.map(({ lines }) => lines.next()));
  for (const { child } of children) child.stdin.write('go');
  const results = await Promise.all(children.map(({ lines }) => lines.next()));
  return results.map(({ value }) => JSON.parse(value ?? '') as Migrated);
}

describe('an empty database', () => {
  beforeEach(() => useDatabase('nothing'));

  test('migrations of eight processes at the same time are applied once each', async () => {
    const names = (await readdir(ours)).sort();
    const all = await migrateInProcesses(8);
    expect(all.flatMap(({ applied }) => applied)).toEqual(names);
    expect(new Set(all.map(({ version }) => version))).toEqual(new Set([names.at(-1)]));
  });

  test('a database in another encoding than UTF8 is refused before anything is created', async () => {
    const name = `${new URL(database.ownerUrl).pathname.slice(1)}_ascii`;
    await asSuperuser(
      (sql) => sql`
        create database ${sql(name)} owner sales_owner template template0 encoding 'SQL_ASCII' locale_provider libc locale 'C'`,
    );
    const url = new URL(name, database.ownerUrl).href;
    await expect(migrate(url)).rejects.toThrow(/must have the encoding UTF8, this one has SQL_ASCII/);
    const ascii = postgres(url, { max: 1, fetch_types: false });
    expect(await ascii`select from pg_tables where schemaname = 'public'`).toHaveLength(0);
    await ascii.end();
    await asSuperuser((sql) => sql`drop database ${sql(name)}`);
  });

  describe('a folder of migrations', () => {
    let folder: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'migrations-'));
      await writeFile(
        join(folder, '1_table.sql'),
        '-- oldest release: 1.0.0\ncreate table things (id integer);\ninsert into things values (1), (2);\n',
      );
      await writeFile(
        join(folder, '2_broken.sql'),
        '-- oldest release: 1.0.0\ninsert into things values (3);\nselect no_such_column from things;\n',
      );
    });
    afterAll(() => rm(folder, { recursive: true }));

    test('is applied up to the file that fails, which is rolled back', async () => {
      await expect(migrate(database.ownerUrl, folder)).rejects.toThrow(/no_such_column/);
      expect(await owner`select id from things order by id`).toEqual([{ id: 1 }, { id: 2 }]);
      expect(await owner`select name from schema_migrations`).toEqual([{ name: '1_table.sql' }]);
    });

    test('builds indexes concurrently, statement by statement, while other migrators wait', async () => {
      await writeFile(
        join(folder, '2_broken.sql'),
        '-- no-transaction\n-- oldest release: 1.0.0\n-- of a large table;\ndrop index concurrently if exists things_id;\ncreate index concurrently things_id\n  on things (id);\n',
      );
      const all = await migrateInProcesses(4, folder);
      expect(all.flatMap(({ applied }) => applied)).toEqual(['1_table.sql', '2_broken.sql']);
      expect(await owner`select indexname::text from pg_indexes where indexname = 'things_id'`).toHaveLength(1);
    });

    test('of this program states no release newer than this one', async () => {
      const stated = (await readMigrations(ourMigrations)).map(({ oldestRelease }) => oldestRelease ?? '0.0.0');
      expect(
        stated.filter((release) => release.localeCompare(packageJson.version, 'en', { numeric: true }) > 0),
      ).toEqual([]);
    });

    test('fills a column in steps, each in a transaction of its own', async () => {
      await writeFile(
        join(folder, '2_broken.sql'),
        '-- no-transaction\n-- oldest release: 1.0.0\nalter table things add column step xid8;\n' +
          '-- repeat\nupdate things set step = pg_current_xact_id() where ctid = (select ctid from things where step is null limit 1);\n',
      );
      await migrate(database.ownerUrl, folder);
      expect(await owner`select count(distinct step)::integer as steps, count(*)::integer as rows from things`).toEqual(
        [{ steps: 2, rows: 2 }],
      );
    });

    test('does not make others wait behind it for a table that a long transaction uses', async () => {
      await writeFile(
        join(folder, '2_broken.sql'),
        '-- oldest release: 1.0.0\nalter table things add column more text;\n',
      );
      await owner`create table things (id integer)`;
      await writeFile(join(folder, '1_table.sql'), '-- oldest release: 1.0.0\nselect 1;\n');
      const [reader, other] = [connect(), connect()];
      let migrating: Promise<Migrated> | undefined;
      await reader.begin(async (tx) => {
        await tx`select from things`;
        migrating = migrate(database.ownerUrl, folder);
        await expect.poll(() => waitingFor('things')).toBe(true);
        // Waits behind the migration, which gives up before this timeout.
        await other.begin(async (second) => {
          await second`set local lock_timeout = '5s'`;
          await second`select from things`;
        });
      });
      expect((await migrating)?.version).toBe('2_broken.sql');
      await Promise.all([reader.end(), other.end()]);
    });

    const connect = () => postgres(database.ownerUrl, { max: 1, fetch_types: false, onnotice: () => {} });
    const waitingFor = async (table: string) =>
      (await owner`select from pg_locks where relation = ${table}::regclass and not granted`).length > 0;
  });
});

describe('a migrated database', () => {
  beforeEach(() => useDatabase('migrated'));

  test('migrations that were killed just after the last file grant the rights when they run again', async () => {
    await owner`revoke all on schema_migrations from sales_data_api`;
    await owner`drop schema pgboss cascade`;
    expect((await migrate(database.ownerUrl)).applied).toEqual([]);
    expect(await db.lookup(checkSchema)).toEqual({ state: 'current', isSupported: true });
  });

  test('migrations that were edited after they were applied are rejected by name', async () => {
    await owner`update schema_migrations set sha256 = 'another' where name = '0001_accounts.sql'`;
    await expect(migrate(database.ownerUrl)).rejects.toThrow(/^0001_accounts\.sql was edited/);
  });

  test('migrations refuse a database from before release 1.0.0, and change nothing', async () => {
    await owner`delete from schema_migrations`;
    await owner`insert into schema_migrations (name, sha256) values ('0001_accounts.sql', ''), ('0021_large_lists.sql', '')`;
    const rows = () => owner`select to_jsonb(m) as applied from schema_migrations m order by name`;
    const before = await rows();
    await expect(migrate(database.ownerUrl)).rejects.toThrow(
      /^The database is from before release 1\.0\.0.*docs\/operating\.md, "Move a database from before 1\.0\.0"$/,
    );
    expect(await rows()).toEqual(before);
    expect(await db.lookup(checkSchema)).toEqual({ state: 'behind', isSupported: false });
  });

  test.each([
    ['0.9.9', true],
    [packageJson.version, true],
    ['1.10.0', false],
    ['10.0.0', false],
  ])(
    'the schema that a newer program made for releases from %s on is supported by this one: %s',
    async (release, isSupported) => {
      await owner`
        insert into schema_migrations (name, sha256, oldest_release)
        values ('9998_older.sql', '', '0.1.0'), ('9999_future.sql', '', ${release})`;
      expect(await db.lookup(checkSchema)).toEqual({ state: 'ahead', isSupported });
      const tooNew = 'The database is newer than this program: it has 9999_future.sql. Update the program';
      expect(await migrate(database.ownerUrl).catch((error: Error) => error.message)).toEqual(
        isSupported ? { applied: [], version: '9999_future.sql' } : tooNew,
      );
    },
  );

  test('the schema that a newer program made keeps the queues of that program when this one runs `migrate`', async () => {
    await owner`insert into schema_migrations (name, sha256, oldest_release) values ('9999_future.sql', '', '1.0.0')`;
    await owner`update pgboss.queue set retry_limit = 7`;
    await migrate(database.ownerUrl);
    expect(await owner`select distinct retry_limit from pgboss.queue`).toEqual([{ retry_limit: 7 }]);
  });
});
