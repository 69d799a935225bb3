import postgres from 'postgres';
import { expect, test } from 'vitest';
import { migrate } from '../../src/database/migrate.ts';
import { atEnd } from '../setup/at-end.ts';
import { createDatabase } from '../setup/database.ts';
import { migrationsBefore } from '../setup/earlier-migrations.ts';

test('what waits for the endpoints of an earlier release is still to be sent, and what was skipped stays skipped', async () => {
  const database = await createDatabase('nothing');
  atEnd(() => database.drop());
  const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  await migrate(database.ownerUrl, await migrationsBefore('0054'));
  const [{ id: customer }] = await owner<[{ id: string }]>`
    insert into customers (business_name) values ('Receiver') returning id`;
  const endpoint = async (name: string, more: object) => {
    const row = {
      customer_id: customer,
      url: 'https://receiver.example.com/',
      types: ['contact.created'],
      bulk: false,
      description: name,
      secret: Buffer.from('secret'),
      first_position: 2,
      position: 10,
      ...more,
    };
    const [{ id }] = await owner<[{ id: string }]>`insert into webhook_endpoints ${owner(row)} returning id`;
    return id;
  };
  const id = await endpoint('waits', {
    set_aside: 2,
    retry_at: '2026-03-02',
    failures_in_row: 3,
    failing_since: '2026-03-01',
  });
  await endpoint('was inactive', {
    gaps: owner.json([
      [12, 15],
      [15, 16],
      [20, 20],
    ]),
  });
  await endpoint('replays', { replay_position: 0, replay_end: 8 });
  await endpoint('inactive', { active: false, inactive_from: 14, gaps: owner.json([[11, 12]]) });
  await endpoint('has all', { active: false, inactive_from: 9 });
  for (const [position, attempts, day] of [
    [4, 9, '03'],
    [7, 1, '02'],
  ] as const)
    await owner`
      insert into webhook_retries
      values (${customer}, ${id}, ${position}, uuidv7(), 'contact.created', '{}', ${attempts}, ${`2026-03-${day}`})`;
  await owner`
    insert into webhook_deliveries (customer_id, endpoint_id, event_id, type, attempt, ok, status, error, ms, sent_at)
    values (${customer}, ${id}, uuidv7(), 'contact.created', 1, false, 500, 'status', 9, now())`;
  await migrate(database.ownerUrl);

  const rows = await owner`
    select description, ahead, pending, next_at::date::text as next, replay_end from webhook_endpoints order by id`;
  expect(rows.map((row) => Object.values(row))).toEqual([
    ['waits', '{[11,)}', 2, '2026-03-02', null],
    ['was inactive', '{[11,13),[17,)}', 0, null, null],
    ['replays', '{[3,9),[11,)}', 0, null, '8'],
    ['inactive', '{[11,12),[13,15)}', 0, null, null],
    ['has all', '{}', 0, null, null],
  ]);
  const deliveries = await owner`
    select position, attempt, due_at::date::text as due, ok from webhook_deliveries where endpoint_id = ${id} order by 1`;
  expect(deliveries.map((row) => Object.values(row))).toEqual([
    ['4', 10, '2026-03-03', null],
    ['7', 2, '2026-03-02', null],
    [null, 1, null, false],
  ]);
  await owner.end();
});
