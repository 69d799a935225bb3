import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/database/db.ts';
import { migrate } from '../../src/database/migrate.ts';
import { ourMigrations } from '../../src/database/migrations.ts';
import { fromStored } from '../../src/files/stored-rows.ts';
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

test('what waits for the endpoints of an earlier release is still to be sent, and what was skipped stays skipped', async () => {
  const { owner, makeCustomer, upgrade } = await databaseBefore('0054');
  const customer = await makeCustomer();
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
  await upgrade();

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
});

test('failed records of an earlier release keep their cells, and imports under way go on behind their last record', async () => {
  const { owner, makeCustomer, upgrade } = await databaseBefore('0055');
  const customer = await makeCustomer();
  const begin = async (layout: object | null, lines: string, more: object): Promise<string> => {
    const state = { status: 'PROCESSING', file_bytes: 1, total: 10, failed: 3, is_automatic: true, dry_run: false };
    const settings = { name: '', object: 'contacts', mode: 'create', ignore_unknown: false, list_ids: [] };
    const row = {
      customer_id: customer,
      ...settings,
      ...state,
      layout: layout && owner.json(layout as never),
      ...more,
    };
    const [{ id }] = await owner<[{ id: string }]>`insert into imports ${owner(row as never)} returning id`;
    await owner`
      insert into import_errors (customer_id, import_id, position, lines) values (${customer}, ${id}, 7, ${lines})`;
    return id;
  };
  const csv = await begin(
    { separator: ';', headers: ['first_name', '_error', 'a "b"'], columns: [], omitted: [1] },
    '"x;\n""y""";;2;is wrong;\r\nAda;"1";5;;"left; out"\r\n;;6;"has more";;further;"2"\r\n',
    { format: 'csv', position: owner.json({ bytes: 99, line: 8 }) },
  );
  const ended = { format: 'ndjson', status: 'COMPLETED', finished_at: '2026-03-01', created: 7 };
  const ndjson = await begin(null, '"{""a"":1}",1,is wrong,\r\n', ended);
  const sheet = { separator: ',', headers: ['a'], columns: [] };
  const converted = await begin(sheet, 'x,3,is wrong,\r\n', { format: 'xlsx', is_converted: true });
  await upgrade();

  const rows = await owner<{ import_id: string; line: number; cells: string; error: string; warning: string }[]>`
    select import_id, line, cells::text as cells, error, warning from import_rows order by import_id, line`;
  const textsOf = (line: number, cells: string) => fromStored(line, cells).cells.map(({ text }) => text);
  expect(
    rows.map(({ import_id, line, cells, error, warning }) => [import_id, line, textsOf(line, cells), error ?? warning]),
  ).toEqual([
    [csv, 2, ['x;\n"y"', '', ''], 'is wrong'],
    [csv, 5, ['Ada', '', '1'], 'left; out'],
    [csv, 6, ['', '', '', 'further', '2'], 'has more'],
    [ndjson, 1, ['{"a":1}'], 'is wrong'],
    [converted, 3, ['x'], 'is wrong'],
  ]);
  const imports = await owner`select id, status, total, done_line, error from imports order by id`;
  expect(imports.map((row) => Object.values(row))).toEqual([
    [csv, 'PROCESSING', null, 7, null],
    [ndjson, 'COMPLETED', 10, 0, null],
    [converted, 'FAILED', null, 0, 'the service was updated during the import: send the file again'],
  ]);
});
