import { expect, onTestFinished, test } from 'vitest';
import { startWorkers } from '../../src/jobs/workers.ts';
import { begin, contextOf, ended, jobRow } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { asSuperuser } from '../setup/database.ts';
import { contactBody, make } from '../setup/factories.ts';
import { startNameServer } from '../setup/name-server.ts';

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

// Without a name server a verification would wait.
const app = await startApp({ VERIFY_DNS_SERVERS: (await startNameServer()).address });
const name = new URL(app.url).pathname.slice(1);
await asSuperuser(async (sql) => {
  for (const [setting, value] of Object.entries(unusual))
    await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
  await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${name}`;
});

test('values are read and written alike, and jobs are done, whatever the settings of the database', async () => {
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
  const workers = await startWorkers({ ...contextOf(app), url: app.url });
  onTestFinished(() => workers.stop());
  const job = await begin(app, customer, 1);
  await ended(app, job);
  expect(await jobRow(app, job)).toMatchObject({ status: 'COMPLETED' });
});
