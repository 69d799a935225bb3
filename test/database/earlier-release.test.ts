import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/database/db.ts';
import { migrate } from '../../src/database/migrate.ts';
import { ourMigrations } from '../../src/database/migrations.ts';
import { parseConfig } from '../../src/process/config.ts';
import { addToJournal, readTotals } from '../../src/queries/records/journal.ts';
import { findEnd, oldest, readEvents } from '../../src/queries/records/feed.ts';
import { runCli } from '../setup/cli.ts';
import { createDatabase, type TestDatabase } from '../setup/database.ts';
import { startServerProcess } from '../setup/server-process.ts';

// What release 1.0.0 leaves under way is kept by the migrations that change its form.

interface Earlier {
  database: TestDatabase;
  owner: postgres.Sql;
  /** Creates a customer in the tables as they were. */
  makeCustomer: () => Promise<string>;
  /** Applies the other migrations. Returns their names. */
  upgrade: () => Promise<string[]>;
}

/** Creates a database with the migrations before this number. */
async function databaseBefore(number: string): Promise<Earlier> {
  const database = await createDatabase('nothing');
  const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  const folder = await mkdtemp(join(tmpdir(), 'migrations-'));
  onTestFinished(async () => {
    await owner.end();
    await database.drop();
    await rm(folder, { recursive: true });
  });
  for (const name of await readdir(ourMigrations))
    if (name < number) await cp(join(ourMigrations, name), join(folder, name));
  await migrate(database.ownerUrl, folder);
  const makeCustomer = async () => {
    const [row] = await owner<{ id: string }[]>`insert into customers (business_name) values ('Busy') returning id`;
    return row!.id;
  };
  return { database, owner, makeCustomer, upgrade: async () => (await migrate(database.ownerUrl)).applied };
}

test('events of an earlier release get positions behind those given, and places in them stay good', async () => {
  const { database, owner, makeCustomer, upgrade } = await databaseBefore('0047');
  const ids = [
    '0192f0c8-5a10-7000-8000-00000000a400',
    '0192f0c8-5a10-7000-8000-00000000b400',
    '0192f0c8-5a10-7000-8000-00000000c400',
  ];
  const [busy, quiet] = [await makeCustomer(), await makeCustomer()];
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
  await upgrade();

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
});

test(
  'jobs and imports of an earlier release that are under way are completed, and charged once',
  { timeout: 60_000 },
  async () => {
    const { database, owner, makeCustomer, upgrade } = await databaseBefore('0053');
    const customer = await makeCustomer();
    await owner`
    insert into credit_balances (customer_id, pool, available, reserved, entries)
    values (${customer}, 'subscription', 0, 0, 0), (${customer}, 'verification', 0, 8, 5)`;
    const entries: [kind: string, amount: number, available: number, reserved: number, job: string | null][] = [
      ['grant', 9, 9, 0, null],
    ];
    const jobs: Record<string, string> = {};
    let available = 9;
    for (const name of ['waiting', 'leased', 'resting']) {
      const [{ id }] = await owner<[{ id: string }]>`
      insert into jobs (customer_id, type, sync_crm, request, pool, total, cost, reserved)
      values (${customer}, 'verify_email', false, '{}', 'verification', 3, 1, 3)
      returning id`;
      jobs[name] = id;
      await owner`
      insert into job_inputs (customer_id, job_id, position, item, address, contact_ids, is_duplicate)
      select ${customer}, ${id}, i, ${`${name} no address `} || i, null, '{}', false
      from generate_series(1, 3) as i`;
      available -= 3;
      entries.push(['reserve', 3, available, 9 - available, id]);
    }
    // A worker died after the first item of one job, and another one rests after an error.
    await owner`
    update jobs
    set
      status = 'PROCESSING', started_at = now(), succeeded = 1, charged = 1, progress = '{"position": 1}',
      lease = gen_random_uuid(), leased_until = now() + interval '10 seconds', served_at = now()
    where id = ${jobs['leased']!}`;
    await owner`
    insert into job_results (customer_id, job_id, position, item, status, charged, result)
    values (${customer}, ${jobs['leased']!}, 1, 'leased no address 1', 'succeeded', 1, '{"status": "invalid"}')`;
    entries.push(['charge', 1, 0, 8, jobs['leased']!]);
    await owner`
    update jobs
    set
      status = 'PROCESSING', started_at = now(), failures = 2, lease = gen_random_uuid(),
      leased_until = now() + interval '4 seconds', served_at = now()
    where id = ${jobs['resting']!}`;
    for (const [i, [kind, amount, balance, reserved, job]] of entries.entries())
      await owner`
      insert into credit_entries (customer_id, pool, number, kind, amount, balance_after, reserved_after, job_id)
      values (${customer}, 'verification', ${i + 1}, ${kind}, ${amount}, ${balance}, ${reserved}, ${job})`;
    await owner`
    insert into pgboss.job (name, data, singleton_key, policy, state, started_on, heartbeat_on, heartbeat_seconds)
    select
      'verify', ${owner.json({ customerId: customer })}, ${customer} || suffix, 'short', state::pgboss.job_state,
      case when state = 'active' then now() end, case when state = 'active' then now() end, 10
    from (values ('', 'created'), (' later', 'active')) as message (suffix, state)`;

    expect((await upgrade())[0]).toBe('0053_jobs_by_attempt.sql');
    const worker = await startServerProcess(database.url, {}, ['src/cli.ts', 'work', '--json']);
    const states = async () =>
      (
        await owner<{ state: string }[]>`
        select status || ' ' || succeeded || ' ' || charged || ' ' || refunded as state from jobs order by id`
      ).map(({ state }) => state);
    await expect.poll(states, { timeout: 40_000 }).toEqual(Array(3).fill('COMPLETED 3 3 0'));
    const { stdout } = await runCli(['credits', 'check', '--json'], { DATABASE_URL: database.url });
    expect(JSON.parse(stdout)).toMatchObject({ faults: [] });
    expect(await worker.stop()).toBe(0);
  },
);
