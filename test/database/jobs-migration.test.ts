import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { migrate } from '../../src/database/migrate.ts';
import { ourMigrations } from '../../src/database/migrations.ts';
import { atEnd } from '../setup/at-end.ts';
import { runCli } from '../setup/cli.ts';
import { createDatabase } from '../setup/database.ts';
import { startServerProcess } from '../setup/server-process.ts';

/** Migrations of release 1.0.0, and those that follow before 0053. */
async function earlierMigrations(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'migrations-'));
  atEnd(() => rm(folder, { recursive: true }));
  for (const name of await readdir(ourMigrations))
    if (name < '0053') await cp(join(ourMigrations, name), join(folder, name));
  return folder;
}

test(
  'jobs and imports of an earlier release that are under way are completed, and charged once',
  { timeout: 60_000 },
  async () => {
    const database = await createDatabase('nothing');
    atEnd(() => database.drop());
    const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
    await migrate(database.ownerUrl, await earlierMigrations());
    const [{ id: customer }] = await owner<[{ id: string }]>`
    insert into customers (business_name) values ('Busy') returning id`;
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

    const { applied } = await migrate(database.ownerUrl);
    expect(applied[0]).toBe('0053_jobs_by_attempt.sql');
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
    await owner.end();
  },
);
