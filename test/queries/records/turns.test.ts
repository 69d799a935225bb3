import { expect, test } from 'vitest';
import type { Transaction } from '../../../src/database/db.ts';
import { areOthersWaiting, enqueueTurn, findWithoutTurn, mergeTurns } from '../../../src/queries/records/turns.ts';
import { removeIdempotencyRecords } from '../../../src/jobs/workers.ts';
import { migrate } from '../../../src/database/migrate.ts';
import { queues } from '../../../src/database/queues.ts';
import { lowestId } from '../../../src/database/connection.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, unique } from '../../setup/factories.ts';
import { contextOf } from '../../jobs/working.ts';

const app = await startApp();

const jobs = async (customerId: string): Promise<number> =>
  (await app.owner`select from pgboss.job where name = 'count-lists' and data ->> 'customerId' = ${customerId}`).count;
const enqueue = (sql: Transaction, customerId: string) => enqueueTurn(sql, 'count-lists', customerId);

test('a job is not enqueued when its transaction rolls back', async () => {
  const undone = app.db.transaction(async (sql) => {
    await enqueue(sql, 'undone');
    throw new Error('undone');
  });
  await expect(undone).rejects.toThrow('undone');
  expect(await jobs('undone')).toBe(0);
});

test('a turn reads few messages of a queue, however many wait', async () => {
  const { db, owner, customer } = await startApp();
  const { id } = await customer();
  await owner`
    insert into pgboss.job (name, data, singleton_key, group_id, policy)
    select 'unlock', jsonb_build_object('customerId', i), i::text, i::text, 'short'
    from generate_series(1, 20_000) as i`;
  await db.transaction(async (sql) => {
    for (let i = 0; i < 3; i += 1) await enqueueTurn(sql, 'unlock', id);
    const read = async () =>
      Number(
        (
          await sql`
          select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) as rows
          from pg_stat_xact_user_tables
          where schemaname = 'pgboss' and relname = 'job_common'`
        )[0]!['rows'],
      );
    const before = await read();
    await mergeTurns(sql, 'unlock', id);
    expect(await areOthersWaiting(sql, 'unlock', id)).toBe(true);
    expect(await findWithoutTurn(sql, 'unlock', [id, lowestId])).toEqual([lowestId]);
    expect((await read()) - before).toBeLessThan(20);
  });
  const waiting = await owner`select from pgboss.job where name = 'unlock' and group_id = ${id}`;
  expect(waiting).toHaveLength(1);
});

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
