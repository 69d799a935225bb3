import { expect, test } from 'vitest';
import { removeIdempotencyRecords } from '../../../src/jobs/workers.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, unique } from '../../setup/factories.ts';
import { contextOf } from '../../jobs/working.ts';

const app = await startApp();

test('the service may use the queue and cannot alter its tables', async () => {
  const alter = (text: string) => app.db.transaction((sql) => sql.unsafe(text));
  await expect(alter('create table pgboss.mine ()')).rejects.toThrow(/permission denied/);
  await expect(alter('alter table pgboss.queue add column mine text')).rejects.toThrow(/must be owner/);
});

test('only idempotency records older than a day are removed', async () => {
  const customer = await app.customer();
  const [old, young] = [unique('old'), unique('young')];
  for (const key of [old, young]) await customer.post('/contacts', contactBody(), { 'idempotency-key': key });
  await app.owner`update idempotency_records set created_at = now() - interval '24 hours 1 second' where key = ${old}`;
  await removeIdempotencyRecords(contextOf(app), {});
  const kept = await app.owner`select key from idempotency_records where customer_id = ${customer.id}`;
  expect(kept.map(({ key }) => key)).toEqual([young]);
});
