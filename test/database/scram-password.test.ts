import { afterAll, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase } from '../../src/database/db.ts';
import { scramPassword } from '../../src/database/scram-password.ts';
import { runCli } from '../setup/cli.ts';
import { asSuperuser, createDatabase } from '../setup/database.ts';
import { unique } from '../setup/factories.ts';
import { startServerProcess } from '../setup/server-process.ts';

const database = await createDatabase();
const logins: string[] = [];
afterAll(async () => {
  await database.drop();
  await asSuperuser(async (sql) => {
    for (const login of logins) await sql`drop role ${sql(login)}`;
  });
});

/** Creates a login of the database's owner and of the service, and returns the URL of the database without a password. */
async function createLogin(password: string): Promise<string> {
  const login = unique('login');
  await asSuperuser(async (sql) => {
    await sql.unsafe(`create role "${login}" login password '${password}' in role sales_owner, sales_data_api`);
    const [role] = await sql`select rolpassword from pg_authid where rolname = ${login}`;
    expect(role!['rolpassword']).toMatch(/^SCRAM-SHA-256/);
  });
  logins.push(login);
  const url = new URL(database.url);
  return `postgres://${login}@${url.host}${url.pathname}`;
}

const passwords: [what: string, password: string][] = [
  ['a ligature', 'o\ufb01ce'],
  ['a no-break space', 'a\u00a0b'],
  ['a soft hyphen', 'a\u00adb'],
  ['only a soft hyphen', '\u00ad'],
  ['full-width letters', '\uff21\uff22'],
  ['a decomposed letter', 'a\u0308'],
  ['a control character, which SASLprep does not allow', 'o\ufb01ce\u0007'],
  ['an emoji, which SASLprep does not know', 'o\ufb01ce\u{1f600}'],
  ['directions that SASLprep does not allow', '\u05d0a\ufb01'],
  ['letters that stay as they are', 'Zo\u00eb \u65e5\u672c'],
  ['ASCII with a control character', 'a\u0007b'],
];

test.each(passwords)('the database accepts a password with %s', async (_what, password) => {
  const config = parseConfig({ DATABASE_URL: await createLogin(password), DATABASE_PASSWORD: password });
  const db = openDatabase(config, config.DATABASE_URL!);
  expect(await db.lookup((sql) => sql`select 1 as one`)).toEqual([{ one: 1 }]);
  await db.close();
});

test('a password that SASLprep changes serves to migrate, to serve and to work', async () => {
  const password = 'o\ufb01ce\u00a0\u00ad\uff21a\u0308';
  expect(await scramPassword(password)).not.toBe(password);
  const url = await createLogin(password);
  const migration = { MIGRATION_DATABASE_URL: url, MIGRATION_DATABASE_PASSWORD: password };
  const environment = { DATABASE_URL: url, DATABASE_PASSWORD: password, ...migration };
  expect(await runCli(['migrate'], environment)).toMatchObject({ code: 0, stderr: '' });
  const server = await startServerProcess(url, environment, ['src/cli.ts', 'serve', '--with-worker', '--json']);
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  expect(await server.stop()).toBe(0);
});
