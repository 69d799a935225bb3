import { PgBoss } from 'pg-boss';
import { expect, onTestFinished, test } from 'vitest';
import { withSessionSettings } from '../../src/database/connection.ts';
import { startApp } from '../setup/app.ts';
import { asSuperuser } from '../setup/database.ts';
import { contactBody, make } from '../setup/factories.ts';

/** Settings that a database may have. Each changes how values are read or written. */
const unusual = {
  array_nulls: 'off',
  bytea_output: 'escape',
  client_encoding: 'LATIN1',
  DateStyle: 'German, DMY',
  default_transaction_isolation: 'serializable',
  extra_float_digits: '-15',
  IntervalStyle: 'sql_standard',
  standard_conforming_strings: 'off',
  TimeZone: 'Asia/Kathmandu',
};

const expected = {
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  DateStyle: 'ISO, MDY',
  default_transaction_isolation: 'read committed',
  extra_float_digits: '1',
  IntervalStyle: 'postgres',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
};

const app = await startApp();
const name = new URL(app.url).pathname.slice(1);
await asSuperuser(async (sql) => {
  for (const [setting, value] of Object.entries(unusual))
    await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
  await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${name}`;
});

test('values are read and written alike, whatever the settings of the database', async () => {
  const customer = await app.customer();
  const before = new Date();
  const text = String.raw`O'Neil \ 東京 😀`;
  const id = await make(
    customer,
    '/contacts',
    contactBody({ first_name: text, last_name: 'NULL', other_emails: ['a@x.example'], custom_fields: { text } }),
  );
  const { status, body } = await customer.get(`/contacts/${id}`);
  expect(status).toBe(200);
  expect(body).toMatchObject({ first_name: text, last_name: 'NULL', custom_fields: { text } });
  expect(body.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(Math.abs(Date.parse(body.created_at) - before.getTime())).toBeLessThan(60_000);
  const since = { filters: { created_at: { gte: before.toISOString() } } };
  const found = await customer.post('/contacts/list', since);
  expect(found.body.map((contact: { id: string }) => contact.id)).toEqual([id]);
});

test('the job queue pins the settings of its sessions, and keeps what the URL asks for beside them', async () => {
  const url = `${app.url}?application_name=x&options=-c%20DateStyle=German+-c%20work_mem=5MB`;
  const connectionString = withSessionSettings(url, { role: 'sales_data_api' });
  const boss = new PgBoss({ connectionString, schema: 'pgboss', migrate: false, supervise: false, schedule: false });
  await boss.start();
  onTestFinished(() => boss.stop({ graceful: false }));
  const ask = async (text: string) => (await boss.getDb().executeSql(text)).rows;
  expect(
    await ask(`select name, setting from pg_settings where name in ('${Object.keys(expected).join("', '")}')`),
  ).toEqual(expect.arrayContaining(Object.entries(expected).map(([name, setting]) => ({ name, setting }))));
  expect(await ask(`select current_user::text as role, current_setting('work_mem') as memory`)).toEqual([
    { role: 'sales_data_api', memory: '5MB' },
  ]);
});
