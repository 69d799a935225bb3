import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { generatePeople } from '../../src/commands/generate-people.ts';
import { audit } from '../chaos/audit.ts';
import { runCli } from '../setup/cli.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { Load, type Acknowledged } from './load.ts';
import { followHandbook, newFolder, type Server } from './rig.ts';

const people = 3_000;

/** A service in operation: its database server, its processes, and clients that keep it busy. */
export interface Production {
  server: Server;
  customerId: string;
  key: string;
  /** File with more people, to import. */
  largeFile: string;
  /** Variables of the search cluster. Empty if PostgreSQL stores the catalog. */
  search: Record<string, string>;
  api: ServerProcess;
  worker: ServerProcess;
  load: Load;
}

/**
 * Sets up the service as the handbook says, imports people, and starts clients that create contacts and start unlock
 * jobs.
 */
export async function startProduction(server: Server, search: Record<string, string> = {}): Promise<Production> {
  const shown = await followHandbook(
    ['command', 'roles', 'secrets', 'addresses', 'first-customer'],
    server,
    {},
    '$CUSTOMER $KEY',
  );
  const [customerId, key] = shown.split(' ') as [string, string];
  const grant = ['credits', 'grant', '--customer', customerId, '--pool', 'subscription', '--amount', '1000000'];
  await commandLine({ server, search }, ...grant);
  const folder = await newFolder(undefined);
  await commandLine({ server, search }, 'catalog', 'import', await writePeople(join(folder, 'people.ndjson'), people));
  const largeFile = await writePeople(join(folder, 'more.ndjson'), 2 * people);
  const [api, worker] = await startProcesses(server, search);
  return { server, customerId, key, largeFile, search, api, worker, load: new Load(api.url, key, 4) };
}

async function writePeople(file: string, count: number): Promise<string> {
  await writeFile(file, [...generatePeople(count, 3)].map((person) => `${JSON.stringify(person)}\n`).join(''));
  return file;
}

/** Starts `serve` and `work` on a server. */
export const startProcesses = (
  { url }: Server,
  search: Record<string, string>,
): Promise<[ServerProcess, ServerProcess]> =>
  Promise.all([startServerProcess(url, search), startServerProcess(url, search, ['src/cli.ts', 'work', '--json'])]);

/** Runs a command of the service with `--json` and returns its result. */
export async function commandLine(
  { server, search }: Pick<Production, 'server' | 'search'>,
  ...words: string[]
): Promise<Record<string, unknown>> {
  const environment = { DATABASE_URL: server.url, MIGRATION_DATABASE_URL: server.ownerUrl, ...search };
  const { code, stdout, stderr } = await runCli([...words, '--json'], environment);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Record<string, unknown>;
}

/** Stops the clients and the processes of the service. */
export async function stopProduction({ load, api, worker }: Production): Promise<void> {
  await load.stop();
  await Promise.all([api.stop(), worker.stop()]);
}

/** Stops the worker in the middle of a job that has charged some of its credits, until `go` is called. */
export async function freezeInsideJob({ server, load, worker }: Production): Promise<{ go: () => void }> {
  for (;;) {
    const body = { filters: {}, total_records: 1_000, sync_crm: true };
    const { reply } = await load.send('/service-handler/unlock-contacts', body, randomUUID());
    const state = async () => {
      const [row] = await server.owner<{ charged: number; ended: boolean }[]>`
        select charged::integer as charged, finished_at is not null as ended from jobs where id = ${reply.id!}`;
      return row!;
    };
    for (let now = await state(); now.charged === 0; now = await state()) {
      if (now.ended) throw new Error('no people are left to unlock');
      await sleep(5);
    }
    process.kill(worker.pid, 'SIGSTOP');
    if (!(await state()).ended) return { go: () => process.kill(worker.pid, 'SIGCONT') };
    process.kill(worker.pid, 'SIGCONT');
  }
}

/**
 * Checks a restored database: rights, schema, ledger, stored answers and acknowledged writes. Then starts the service
 * on it, lets its jobs end, and checks the ledger again.
 * @param before requests that were acknowledged before the moment of the backup
 * @param after requests that were sent after it
 */
export async function expectSound(
  { server, search, load, customerId }: Production,
  restored: Server,
  { before, after }: { before: readonly Acknowledged[]; after: readonly Acknowledged[] },
): Promise<void> {
  expect(await missingFrom(restored, before)).toEqual([]);
  expect(await missingFrom(restored, after)).toHaveLength(after.length);
  expect(await rightsOf(restored)).toEqual([
    { role: 'sales_data_api', login: false },
    { role: 'sales_service', login: true },
  ]);
  expect(await commandLine({ server: restored, search }, 'migrate')).toMatchObject({ applied: [] });
  await followHandbook(['command', 'addresses', 'after-restore'], restored);
  expect(await countUnfinishedJobs(restored), 'jobs that were running').toBeGreaterThan(0);
  expect(await schedulesOf(restored)).toEqual(await schedulesOf(server));

  const [api, worker] = await startProcesses(restored, search);
  const [known, unknown] = [before.slice(-20), after.slice(-5)];
  for (const { path, body, key, id, status } of known) {
    const again = await load.send(path, body, key, api.url);
    expect({ ...again, id: again.reply.data?.id ?? again.reply.id }).toMatchObject({ status, id, isReplayed: true });
  }
  for (const { path, body, key, status } of unknown)
    expect(await load.send(path, body, key, api.url)).toMatchObject({ status, isReplayed: false });

  await untilJobsEnd(restored);
  expect(await commandLine({ server: restored, search }, 'credits', 'check')).toMatchObject({ faults: [] });
  expect(await audit(restored.owner)).toEqual({});
  const all = await countPeople(load, api.url, { all_contacts: true });
  expect(await countPeople(load, api.url, {})).toBe(all - (await countUnlocks(restored, customerId)));
  await Promise.all([api.stop(), worker.stop()]);
}

/** Returns the two roles of the service, if they have no more rights than they should. */
const rightsOf = ({ owner }: Server) => owner`
  select rolname as role, rolcanlogin as login
  from pg_roles
  where rolname in ('sales_data_api', 'sales_service')
    and not (rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls)
    and pg_has_role(rolname, 'sales_data_api', 'usage')
    and has_table_privilege(rolname, 'credit_entries', 'select, insert')
    and not has_table_privilege(rolname, 'credit_entries', 'update, delete, truncate')
    and not has_table_privilege(rolname, 'audit_events', 'update, delete, truncate')
    and not has_schema_privilege(rolname, 'public', 'create')
    and (select tableowner from pg_tables where tablename = 'credit_entries') = 'sales_owner'
  order by rolname`;

const schedulesOf = ({ owner }: Server) => owner`select name, cron from pgboss.schedule order by name`;

const countUnfinishedJobs = async ({ owner }: Server): Promise<number> => {
  const [row] = await owner<[{ count: number }]>`
    select count(*)::integer as count from jobs where finished_at is null`;
  return row.count;
};

/** Waits until all jobs have ended, those of a killed worker too. */
export async function untilJobsEnd(server: Server): Promise<void> {
  while ((await countUnfinishedJobs(server)) > 0) await sleep(100);
}

/** Returns those of the acknowledged requests whose contact or job is missing in the database. */
export async function missingFrom({ owner }: Server, acknowledged: readonly Acknowledged[]): Promise<string[]> {
  const rows = await owner<{ id: string }[]>`
    select id from contacts union all select id from jobs`;
  const present = new Set(rows.map(({ id }) => id));
  return acknowledged.filter(({ id }) => !present.has(id)).map(({ id }) => id);
}

/** Returns the number of people that the service counts for the customer: all, or those without its unlocks. */
export async function countPeople(load: Load, url: string, which: { all_contacts?: true }): Promise<number> {
  const { reply } = await load.send('/prospect/metadata', which, randomUUID(), url);
  return reply.pagination!.total_records;
}

/** Returns the number of the customer's unlocks in a database. */
export const countUnlocks = async ({ owner }: Server, customerId: string): Promise<number> => {
  const [row] = await owner<[{ count: number }]>`
    select count(*)::integer as count from unlocks where customer_id = ${customerId}`;
  return row.count;
};
