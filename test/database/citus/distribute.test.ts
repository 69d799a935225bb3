import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openCatalog } from '../../../src/catalog/open.ts';
import { parseConfig } from '../../../src/process/config.ts';
import { openDatabase } from '../../../src/database/db.ts';
import { distribute, migrate } from '../../../src/database/migrate.ts';
import { ourMigrations } from '../../../src/database/migrations.ts';
import { placementOf } from '../../../src/database/citus.ts';
import { loadDemo } from '../../../src/commands/load-demo.ts';
import { logins } from '../../../src/database/embedded-postgres.ts';
import { findKeyStates, recordKeyUse } from '../../../src/queries/accounts/api-keys.ts';
import { listEvents, recordFailedLogin } from '../../../src/queries/accounts/customers.ts';
import { createSession, findSessions, findAccountByEmail } from '../../../src/queries/accounts/users.ts';
import { commandLine } from '../../../src/schemas/accounts.ts';
import type { TokenHash } from '../../../src/access/credentials.ts';
import {
  blankDatabase,
  cloneDatabase,
  closeForClones,
  dropDatabase,
  hasCitusProgram,
  needCitus,
  onNodes,
  startCitus,
  type CitusCluster,
} from '../../setup/citus.ts';
import { nodeEnvironment, runCli, type Run } from '../../setup/cli.ts';

/** Reads all tables of a database: the number of rows of each, and a hash of them. */
async function readTables(sql: postgres.Sql): Promise<Record<string, string>> {
  const tables = await sql<{ name: string }[]>`
    select tablename::text as name from pg_tables where schemaname = 'public' order by tablename`;
  const contents = tables.map(async ({ name }) => {
    const columns = await sql<{ attname: string }[]>`
      select attname from pg_attribute where attrelid = ${name}::regclass and attnum > 0 and not attisdropped order by attnum`;
    const asText = sql.unsafe(`row(${columns.map(({ attname }) => `t.${attname}`).join(', ')})::text`);
    const [row] = await sql<[{ rows: string }]>`
      select count(*) || ' ' || md5(coalesce(string_agg(text, ' ' order by text collate "C"), '')) as rows
      from (select ${asText} as text from ${sql(name)} t) rows`;
    return [name, row.rows] as const;
  });
  return Object.fromEntries(await Promise.all(contents));
}

const readForeignKeys = (sql: postgres.Sql) => sql`
  select conrelid::regclass::text as table, conname, pg_get_constraintdef(oid) as definition
  from pg_constraint
  where contype = 'f' and connamespace = 'public'::regnamespace and conname !~ '_\\d{6}$'
  order by 1, 2`;

/** Returns where Citus has each table. Tables that Citus does not know are local. */
async function readPlacements(sql: postgres.Sql): Promise<Record<string, string>> {
  const rows = await sql<{ name: string; type: string }[]>`
    select tablename::text as name, coalesce(citus_table_type, 'local') as type
    from pg_tables
    left join citus_tables on table_name = tablename::regclass
    where schemaname = 'public' and tablename !~ '_\\d{6}$'
    order by 1`;
  return Object.fromEntries(rows.map(({ name, type }) => [name, type]));
}

describe.skipIf(!hasCitusProgram)(`migrate --distribute ${needCitus}`, () => {
  const original = 'template_with_data';
  let cluster: CitusCluster;
  let ownerUrl: string;
  let owner: postgres.Sql;
  let before: Record<string, string>;

  const urlOf = (login: string, name: string) => `${cluster.nodes[0]!.replace('postgres@', `${login}@`)}${name}`;
  const distributeByCommand = (url: string) => runCli(['migrate', '--distribute'], { DATABASE_URL: url });

  beforeAll(async () => {
    cluster = await startCitus();
    await cloneDatabase(cluster.nodes, blankDatabase, original);
    await migrate(urlOf(logins.owner, original));
    const config = parseConfig({});
    const db = openDatabase(config, urlOf(logins.service, original));
    const catalog = openCatalog(config, db);
    await loadDemo({ db, catalog, config });
    await catalog.close();
    await db.close();
    const sql = postgres(urlOf(logins.owner, original), { max: 1, onnotice: () => {} });
    before = await readTables(sql);
    await sql.end();
    await closeForClones(cluster.nodes, original);
  });
  afterAll(() => cluster?.stop());

  /** Clones a migrated database with a customer's data in most tables, which Citus knows but does not distribute yet. */
  async function useDatabase(): Promise<() => Promise<void>> {
    const name = `test_${crypto.randomUUID().replaceAll('-', '')}`;
    await cloneDatabase(cluster.nodes, original, name);
    ownerUrl = urlOf(logins.owner, name);
    owner = postgres(ownerUrl, { max: 4, onnotice: () => {} });
    return async () => {
      await owner.end({ timeout: 1 });
      await dropDatabase(cluster.nodes, name);
    };
  }

  let later: string;
  beforeAll(async () => {
    later = await mkdtemp(join(tmpdir(), 'migrations-'));
    await cp(ourMigrations, later, { recursive: true });
    await writeFile(
      join(later, '9997_notes.sql'),
      `-- oldest release: 1.0.0
create table notes (
  customer_id uuid not null,
  id uuid not null default uuidv7(),
  contact_id uuid not null,
  primary key (customer_id, id)
);
-- place: notes
alter table notes add constraint notes_contact_fkey
  foreign key (customer_id, contact_id) references contacts (customer_id, id);
grant select, insert on notes to sales_data_api;
alter table contacts add column mood text not null default 'calm';
alter table contacts add column label text;
update contacts set mood = 'glad' where first_name < 'M';
`,
    );
    await writeFile(
      join(later, '9999_fill.sql'),
      `-- no-transaction
-- oldest release: 1.0.0
-- repeat
with batch as (
  select customer_id, id from contacts where label is distinct from upper(first_name) order by customer_id, id limit 20
)
update contacts c set label = upper(first_name) from batch where c.customer_id = batch.customer_id and c.id = batch.id;
`,
    );
    await writeFile(
      join(later, '9998_index.sql'),
      '-- no-transaction\n-- oldest release: 1.0.0\ndrop index concurrently if exists notes_contact;\ncreate index concurrently notes_contact\n  on notes (customer_id, contact_id);\n',
    );
  });
  afterAll(() => rm(later, { recursive: true, force: true }));

  /** Expects that migrations of a later release fit, and that a new table stands where such a database has its tables. */
  async function expectLaterMigration(): Promise<void> {
    expect((await migrate(ownerUrl, later)).applied).toEqual(['9997_notes.sql', '9998_index.sql', '9999_fill.sql']);
    expect((await readPlacements(owner))['notes']).toBe('distributed');
    const moods =
      await owner`select mood, count(*)::int, min(first_name) < 'M' as early from contacts group by mood order by mood`;
    expect(moods).toMatchObject([
      { mood: 'calm', early: false },
      { mood: 'glad', early: true },
    ]);
    expect(await owner`select from contacts where label is distinct from upper(first_name)`).toEqual([]);
    const service = postgres(urlOf(logins.service, new URL(ownerUrl).pathname.slice(1)), {
      max: 1,
      connection: { role: 'sales_data_api' },
    });
    onTestFinished(() => service.end());
    const [contact] = await service`select customer_id, id from contacts order by id limit 1`;
    await service`insert into notes (customer_id, contact_id) values (${contact!['customer_id']}, ${contact!['id']})`;
    await expect(
      service`insert into notes (customer_id, contact_id) values (${contact!['customer_id']}, uuidv7())`.execute(),
    ).rejects.toThrow(/notes_contact_fkey/);
  }

  describe('a database that was distributed', () => {
    let keys: unknown;
    let moved: Run;
    beforeAll(async () => {
      const drop = await useDatabase();
      keys = await readForeignKeys(owner);
      moved = await distributeByCommand(ownerUrl);
      return drop;
    });

    test('has each table where it belongs, with every row and foreign key, once, and no second copy', async () => {
      expect(Object.values(before).filter((rows) => !rows.startsWith('0 ')).length).toBeGreaterThan(20);
      expect(moved).toMatchObject({ code: 0, stderr: '' });
      expect(moved.stdout).toContain('distributed contacts\n');
      expect(await readTables(owner)).toEqual(before);
      expect(await readForeignKeys(owner)).toEqual(keys);
      const placements = await readPlacements(owner);
      expect(placements).toEqual(Object.fromEntries(Object.keys(placements).map((name) => [name, placementOf(name)])));
      const secondCopies = await owner`
        select from pg_dist_partition
        where (partmethod = 'h' or repmodel = 't') and pg_relation_size(logicalrelid) > 0`;
      expect(secondCopies).toEqual([]);
      for (const table of ['contacts', 'companies', 'products', 'opportunities', 'activities']) {
        const customersExpected = await owner`
          select distinct result
          from run_command_on_shards(
            ${table}::text::regclass,
            $$select n_distinct from pg_stats where tablename = '%s' and attname = 'customer_id'$$
          )`;
        expect(customersExpected, table).toEqual([{ result: '20' }]);
      }
      expect(await distributeByCommand(ownerUrl)).toMatchObject({
        code: 0,
        stdout: 'Nothing to do: the database is distributed\n',
      });
      expect((await migrate(ownerUrl)).applied).toEqual([]);
    });

    test('lets everybody log in and use their keys while a worker is dead', async () => {
      const url = urlOf(logins.service, new URL(ownerUrl).pathname.slice(1));
      const db = openDatabase(parseConfig({}), url, { distributed: true });
      onTestFinished(() => db.close());
      const [user] = await owner`select email from users limit 1`;
      const [key] = await owner`select key_hash from api_keys limit 1`;
      const hash = key!['key_hash'] as TokenHash;
      const token = Buffer.alloc(32, 7) as unknown as TokenHash;
      await cluster.kill('worker2');
      try {
        const states = await db.credentials((sql) => findKeyStates(sql, [hash]));
        expect(states).toMatchObject([{ refusal: null }]);
        await db.transaction((sql) => recordKeyUse(sql, [states[0]!.id]));
        const account = (await db.lookup((sql) => findAccountByEmail(sql, user!['email'] as string)))!;
        await db.transaction((sql) => createSession(sql, account, token, commandLine));
        expect(await db.credentials((sql) => findSessions(sql, [token]))).toMatchObject([{ user_id: account.id }]);
        await db.transaction((sql) =>
          recordFailedLogin(sql, account.customer_id, {
            userId: account.id,
            reason: 'wrong_password',
            address: '192.0.2.1',
          }),
        );
        expect((await db.lookup((sql) => listEvents(sql, account.customer_id, 10))).length).toBeGreaterThan(1);
      } finally {
        await cluster.restart('worker2');
      }
    });

    test('takes a later migration', () => expectLaterMigration());
  });

  /** Starts the command as a process. */
  function start(): ChildProcess {
    const child = spawn(process.execPath, ['src/cli.ts', 'migrate', '--distribute'], {
      env: { ...nodeEnvironment, DATABASE_URL: ownerUrl },
      stdio: 'ignore',
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    return child;
  }

  /** Waits until the command runs a statement whose text contains `part`, then kills the command. */
  async function killAt(child: ChildProcess, part: string): Promise<void> {
    for (;;) {
      const [seen] = await owner`
        select from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and query like ${`%${part}%`}
          and backend_type = 'client backend'`;
      if (seen) break;
      if (child.exitCode !== null) throw new Error(`The command ended before ${part}`);
    }
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  describe('the command', () => {
    beforeAll(useDatabase);

    test('waits for readers without blocking others, and can be killed meanwhile', async () => {
      await owner.begin(async (reader) => {
        await reader`select from contacts limit 1`;
        await killAt(start(), 'lock table');
      });
      expect(await owner`select from pg_dist_partition`).toHaveLength(0);
    });

    test('changes nothing if it is killed before it commits, and then runs again', async () => {
      const keys = await readForeignKeys(owner);
      for (const part of ['create_distributed_table(', 'add constraint "%fkey"']) {
        await killAt(start(), part);
        // Waits until the server has noticed: until then the tables are locked.
        expect(await readTables(owner)).toEqual(before);
        expect(await readForeignKeys(owner)).toEqual(keys);
        expect(await owner`select from pg_dist_partition`).toHaveLength(0);
      }
      expect((await distribute(ownerUrl)).tables).toContain('contacts');
      expect(await readTables(owner)).toEqual(before);
    });
  });

  test('removes the second copy of the rows later, if it is killed after it has committed', async () => {
    onTestFinished(await useDatabase());
    const child = start();
    await expect
      .poll(() => owner`select from pg_locks where relation = 'contacts'::regclass and mode = 'AccessExclusiveLock'`, {
        timeout: 60_000,
      })
      .not.toHaveLength(0);
    // This reader waits until the tables are distributed. Then the command waits for this reader.
    await owner.begin(async (reader) => {
      await reader`select count(*) from contacts`;
      await killAt(child, 'truncate_local_data_after_distributing_table');
    });
    expect((await distribute(ownerUrl)).tables).toEqual([]);
    expect(
      await owner`select from pg_dist_partition where partmethod = 'h' and pg_relation_size(logicalrelid) > 0`,
    ).toEqual([]);
    expect(await readTables(owner)).toEqual(before);
  });

  describe('refuses, with exit code 1 and nothing changed,', () => {
    beforeAll(useDatabase);

    test('a database without the extension', async () => {
      const refused = await distributeByCommand(urlOf(logins.owner, 'postgres'));
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toMatch(/^error: This database does not have the extension citus\./);
    });

    test('an older schema', async () => {
      const [newest] = await owner`
        delete from schema_migrations where name = (select max(name) from schema_migrations) returning *`;
      const refused = await distributeByCommand(ownerUrl);
      expect(refused).toMatchObject({
        code: 1,
        stdout: '',
        stderr: 'error: The database does not have the current schema: run `migrate` first\n',
      });
      expect(await owner`select from pg_dist_partition`).toHaveLength(0);
      await owner`insert into schema_migrations ${owner(newest!)}`;
    });

    test('a role that Citus cannot use on the workers', async () => {
      await onNodes(cluster.nodes.slice(0, 1), 'postgres', (sql) => sql`alter role sales_data_api nologin`);
      onTestFinished(() =>
        onNodes(cluster.nodes.slice(0, 1), 'postgres', (sql) => sql`alter role sales_data_api login`),
      );
      await expect(distribute(ownerUrl)).rejects.toThrow(/alter role sales_data_api login$/);
    });

    test('a cluster without workers', async () => {
      const name = new URL(ownerUrl).pathname.slice(1);
      await onNodes(cluster.nodes.slice(0, 1), name, async (sql) => {
        // Citus' own upkeep can touch the row of a node at the same moment.
        const removed = async (): Promise<number> => {
          const workers = await sql`select nodename, nodeport from pg_dist_node where groupid > 0`;
          for (const { nodename, nodeport } of workers)
            await sql`select citus_remove_node(${nodename}, ${nodeport})`.catch(() => undefined);
          return workers.length;
        };
        await expect.poll(removed, { timeout: 20_000 }).toBe(0);
      });
      await expect(distribute(ownerUrl)).rejects.toThrow(/^The Citus cluster has no worker/);
    });
  });
});
