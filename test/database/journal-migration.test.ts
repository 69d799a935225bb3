import postgres from 'postgres';
import { expect, test } from 'vitest';
import { openDatabase } from '../../src/database/db.ts';
import { migrate } from '../../src/database/migrate.ts';
import { parseConfig } from '../../src/process/config.ts';
import { addToJournal, readTotals } from '../../src/queries/records/journal.ts';
import { findEnd, oldest, readEvents } from '../../src/queries/records/feed.ts';
import { atEnd } from '../setup/at-end.ts';
import { createDatabase } from '../setup/database.ts';
import { migrationsBefore } from '../setup/earlier-migrations.ts';

test('events of an earlier release get positions behind those given, and places in them stay good', async () => {
  const database = await createDatabase('nothing');
  atEnd(() => database.drop());
  const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  await migrate(database.ownerUrl, await migrationsBefore('0047'));
  const ids = [
    '0192f0c8-5a10-7000-8000-00000000a400',
    '0192f0c8-5a10-7000-8000-00000000b400',
    '0192f0c8-5a10-7000-8000-00000000c400',
  ];
  const [busy, quiet] = (await Promise.all(
    ['Busy', 'Quiet'].map(async (name) => {
      const [{ id }] = await owner<[{ id: string }]>`
        insert into customers (business_name) values (${name}) returning id`;
      return id;
    }),
  )) as [string, string];
  const event = (name: string) => ['contact.created', { id: '0192f0c8-5a10-7000-8000-000000000001', name }] as const;
  // The first four events were truncated. Positions 5 to 7 were given, one row waits.
  await owner`
    insert into events (customer_id, number, id, source, types, size, entries, last_position, previous_id)
    values
      (${busy}, 10, ${ids[0]!}, 'api', '{contact.created}', 2, ${owner.json([event('a'), event('b')])}, 6, ${ids[2]!}),
      (${busy}, 12, ${ids[1]!}, 'import', '{contact.created}', 1, ${owner.json([event('c')])}, 7, ${ids[0]!}),
      (${busy}, 13, ${ids[2]!}, 'page', '{contact.created}', 2, ${owner.json([event('d'), event('e')])}, null, null)`;
  await owner`insert into event_heads (customer_id, position, last_id) values (${busy}, 7, ${ids[1]!})`;
  await owner`
    insert into counters
    values (${busy}, 'contacts', 1, 4), (${busy}, 'contacts', 2, 3), (${busy}, 'companies', 1, 2), (${quiet}, 'contacts', 0, 9)`;
  await migrate(database.ownerUrl);

  const db = openDatabase(parseConfig({}), database.url);
  const names = async (after: Parameters<typeof readEvents>[2]['after'], customer = busy) =>
    (await readEvents(db, customer, { after, limit: 100 })).events.map(({ data }) => data['name']);
  expect(await names(oldest)).toEqual(['a', 'b', 'c', 'd', 'e']);
  expect(await names({ position: 4, id: ids[2]! })).toEqual(['a', 'b', 'c', 'd', 'e']);
  // The second event of the first row: its id has the index in the last ten bits.
  expect(await names({ position: 6, id: '0192f0c8-5a10-7000-8000-00000000a401' })).toEqual(['c', 'd', 'e']);
  expect(await names({ position: 7, id: ids[1]! })).toEqual(['d', 'e']);
  await expect(names({ position: 3, id: ids[2]! })).rejects.toMatchObject({ code: 'cursor_expired' });
  expect(await findEnd(db, busy)).toMatchObject({ position: 9 });
  expect(await names({ position: 0, id: null }, quiet)).toEqual([]);
  const totals = (customer: string) => db.lookup((sql) => readTotals(sql, customer));
  expect([await totals(busy), await totals(quiet)]).toEqual([
    { contacts: 7, companies: 2 },
    { contacts: 9, companies: 0 },
  ]);
  for (const customer of [busy, quiet])
    await db.transaction(async (sql) =>
      addToJournal(sql, customer, [{ type: 'contact.created', data: { name: 'new' } }], { contacts: 1, companies: 0 }),
    );
  expect(await names({ position: 7, id: ids[1]! })).toEqual(['d', 'e', 'new']);
  expect(await names({ position: 0, id: null }, quiet)).toEqual(['new']);
  expect([await totals(busy), await totals(quiet)]).toEqual([
    { contacts: 8, companies: 2 },
    { contacts: 10, companies: 0 },
  ]);
  await db.close();
  await owner.end();
});
