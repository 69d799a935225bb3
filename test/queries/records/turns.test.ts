import { expect, test } from 'vitest';
import { removeIdempotencyRecords } from '../../../src/jobs/workers.ts';
import { migrate } from '../../../src/database/migrate.ts';
import { queues } from '../../../src/database/queues.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, unique } from '../../setup/factories.ts';
import { contextOf } from '../../jobs/working.ts';

const app = await startApp();

test('the queue holds what is known of it, and messages of earlier releases get their group', async () => {
  const { owner, ownerUrl } = await startApp();
  const [{ id }] = await owner<[{ id: string }]>`
    insert into pgboss.job (name, data) values ('verify', '{"customerId": "somebody"}') returning id`;
  await owner`select pgboss.create_queue('of-earlier-releases', '{"policy": "short"}')`;
  await migrate(ownerUrl);
  expect(await owner`select group_id from pgboss.job where id = ${id}`).toEqual([{ group_id: 'somebody' }]);
  const names = (await owner<{ name: string }[]>`select name from pgboss.queue order by 1`).map(({ name }) => name);
  expect(names).toEqual([...Object.keys(queues), '__pgboss__send-it'].toSorted());
});

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
