import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { migrate } from '../../src/database/migrate.ts';
import { runCli } from '../setup/cli.ts';
import { createDatabase } from '../setup/database.ts';
import { drawSchema, schemaFile } from '../setup/schema-picture.ts';

/*
 * A dump of each release, with the demo customer and one import, named by its version. Before the version is raised, add its own,
 * without psql's commands (`grep -v '^\\'`) and packed (`gzip -9n`):
 *   pg_dump --no-owner --inserts --rows-per-insert=200 --exclude-table-data='pgboss.job*'
 */

const changes = await readFile(join(import.meta.dirname, '..', '..', 'CHANGELOG.md'), 'utf8');
const releases = [...changes.matchAll(/^## (\S+)$/gm)].map(([, version]) => version!);
const before = releases.filter((version) => version !== packageJson.version);

test('each release in the change log has a dump here', async () => {
  expect(releases[0]).toBe(packageJson.version);
  const dumps = (await readdir(import.meta.dirname)).filter((name) => name.endsWith('.sql.gz'));
  expect(dumps).toEqual(before.map((version) => `${version}.sql.gz`).toSorted());
});

describe('a database of release', () => {
  test.each(before)(
    '%s is upgraded: its schema is that of a new database, and its records and credits are kept',
    async (version) => {
      const database = await createDatabase('nothing');
      const sql = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
      try {
        await sql.unsafe(gunzipSync(await readFile(join(import.meta.dirname, `${version}.sql.gz`))).toString());
        await sql`set search_path = public`;
        const count = () => sql`
        select
          (select count(*)::integer from contacts) as contacts, (select count(*)::integer from companies) as companies,
          (select count(*)::integer from opportunities) as opportunities, (select count(*)::integer from imports) as imports,
          (select count(*)::integer from jobs) as jobs, (select count(*)::integer from prospects) as prospects`;
        const [had] = await count();
        expect(Object.values(had!).every((rows) => rows > 0)).toBe(true);
        expect((await migrate(database.ownerUrl)).applied).not.toEqual([]);
        expect(await drawSchema(sql)).toBe(await readFile(schemaFile, 'utf8'));
        expect((await count())[0]).toEqual(had);
        const { stdout } = await runCli(['credits', 'check', '--json'], { DATABASE_URL: database.url });
        expect(JSON.parse(stdout)).toMatchObject({ customers: 1, faults: [] });
      } finally {
        await sql.end();
        await database.drop();
      }
    },
  );
});
