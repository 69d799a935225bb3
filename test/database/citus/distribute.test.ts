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

  /** Migrations of a later release: a new table with a foreign key, and a column that is filled in steps. */
  const laterMigrations = {
    '9998_notes.sql': `-- oldest release: 1.0.0
create table notes (
  customer_id uuid not null,
  id uuid not null default uuidv7(),
  contact_id uuid not null,
  primary key (customer_id, id)
);
-- place: notes
alter table notes add constraint notes_contact_fkey
  foreign key (customer_id, contact_id) references contacts (customer_id, id);
alter table contacts add column label text;
`,
    '9999_fill.sql': `-- no-transaction
-- oldest release: 1.0.0
-- repeat
with batch as (
  select customer_id, id from contacts where label is distinct from upper(first_name) order by customer_id, id limit 20
)
update contacts c set label = upper(first_name) from batch where c.customer_id = batch.customer_id and c.id = batch.id;
drop index concurrently if exists notes_contact;
create index concurrently notes_contact on notes (customer_id, contact_id);
`,
  };

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
      const [user] = await owner<{ email: string }[]>`select email from users limit 1`;
      const [key] = await owner<{ key_hash: TokenHash }[]>`select key_hash from api_keys limit 1`;
      const token = Buffer.alloc(32, 7) as unknown as TokenHash;
      await cluster.kill('worker2');
      onTestFinished(() => cluster.restart('worker2'));
      const [state] = await db.credentials((sql) => findKeyStates(sql, [key!.key_hash]));
      expect(state).toMatchObject({ refusal: null });
      await db.transaction((sql) => recordKeyUse(sql, [state!.id]));
      const account = (await db.lookup((sql) => findAccountByEmail(sql, user!.email)))!;
      await db.transaction((sql) => createSession(sql, account, token, commandLine));
      expect(await db.credentials((sql) => findSessions(sql, [token]))).toMatchObject([{ user_id: account.id }]);
    });

    test('takes migrations of a later release, whose new table stands where such a database has its tables', async () => {
      const later = await mkdtemp(join(tmpdir(), 'migrations-'));
      onTestFinished(() => rm(later, { recursive: true }));
      await cp(ourMigrations, later, { recursive: true });
      for (const [name, text] of Object.entries(laterMigrations)) await writeFile(join(later, name), text);
      expect((await migrate(ownerUrl, later)).applied).toEqual(Object.keys(laterMigrations));
      expect((await readPlacements(owner))['notes']).toBe('distributed');
      expect(await owner`select from contacts where label is distinct from upper(first_name)`).toEqual([]);
      const [contact] = await owner`select customer_id, id from contacts limit 1`;
      const note = (id: string) =>
        owner`insert into notes (customer_id, contact_id) values (${contact!['customer_id']}, ${id})`.execute();
      await note(contact!['id'] as string);
      await expect(note(contact!['customer_id'] as string)).rejects.toThrow(/notes_contact_fkey/);
    });
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

  test('changes nothing if it is killed before it commits, and then runs again', async () => {
    onTestFinished(await useDatabase());
    const keys = await readForeignKeys(owner);
    for (const part of ['create_distributed_table(', 'add constraint "%fkey"']) {
      await killAt(start(), part);
      // Waits until the server has noticed: until then the tables are locked.
      expect(await readTables(owner)).toEqual(before);
      expect(await readForeignKeys(owner)).toEqual(keys);
      expect(await owner`select from pg_dist_partition`).toHaveLength(0);
    }
    expect(await distribute(ownerUrl)).toContain('contacts');
    expect(await readTables(owner)).toEqual(before);
  });
});
