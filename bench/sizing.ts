import { readFile } from 'node:fs/promises';
import postgres from 'postgres';
import { migrate } from '../src/database/migrate.ts';
import { generatePeople } from '../src/commands/generate-people.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { SearchCluster } from '../test/search-cluster/cluster.ts';
import { runCli } from '../test/setup/cli.ts';
import { contactBody, type TestCustomer } from '../test/setup/factories.ts';
import { makeCustomers } from './fair.ts';
import { fillContacts } from './people.ts';
import { load, startServer, type Request, type Server } from './run.ts';

const contacts = 200_000;
const people = 100_000;
const callers = 64;

/**
 * Prints what docs/operating.md says about sizes: the memory and the connections of each process, at rest and under
 * load, and the disk that contacts and prospects take.
 * @param seconds of load
 */
export async function benchSizing(seconds: number): Promise<void> {
  const database = await openThrowawayPostgres();
  await migrate(database.ownerUrl);
  const cluster = await SearchCluster.start({ heap: '1g' });
  const superuser = postgres(database.superuserUrl, { max: 1, onnotice: () => {} });
  const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  const environment = { DATABASE_URL: database.serviceUrl, LOG_LEVEL: 'error', RATE_LIMITS: 'off', OVERLOAD_MS: '0' };
  const search = { ...environment, ELASTICSEARCH_URL: cluster.url, ELASTICSEARCH_REPLICAS: '0' };
  try {
    const customers = await makeCustomers(database.serviceUrl, 8);
    const empty = await databaseSize(owner);
    await fillContacts(owner, customers[0]!.id, contacts);
    print(`disk of ${contacts} contacts in PostgreSQL (MB)`, ((await databaseSize(owner)) - empty) / 1e6);
    await importPeople(search);
    print(`disk of ${people} people in Elasticsearch (MB)`, await indexSize(cluster.url));
    const serve = await startServer(['src/cli.ts', 'serve', '--json'], { ...search, PORT: '0' });
    const work = await startServer(['src/cli.ts', 'work', '--json'], search);
    await Promise.all(customers.map(({ id }) => grant(owner, id)));
    await report('at rest', { serve, work }, superuser);
    await Promise.all(
      customers.map((one) => load(serve.url, requests, callers / customers.length, seconds, headers(one))),
    );
    await report('under load', { serve, work }, superuser);
    await Promise.all([serve.stop(), work.stop()]);
    const before = await databaseSize(owner);
    await importPeople(environment);
    print(`disk of ${people} people in PostgreSQL (MB)`, ((await databaseSize(owner)) - before) / 1e6);
  } finally {
    await Promise.all([superuser.end({ timeout: 1 }), owner.end({ timeout: 1 })]);
    await cluster.stop();
    await database.close();
  }
}

const post = (path: string, body: object): Request => ({ method: 'POST', path: `/api/ext${path}`, body });
const requests: Request[] = [
  post('/contacts', contactBody()),
  post('/contacts/list', { filters: { search: 'first1' } }),
  post('/contacts/list', {}),
  post('/prospect/list', {}),
  post('/service-handler/unlock-contacts', { filters: {}, total_records: 1, sync_crm: true }),
];

const headers = ({ key }: TestCustomer) => ({ authorization: `X-API-Key ${key}` });

/** Gives a customer a million credits for unlocks. */
export const grant = (owner: postgres.Sql, customerId: string) => owner`
  with granted as (
    insert into credit_balances (customer_id, pool, available, reserved, entries)
    values (${customerId}, 'subscription', 1000000, 0, 1)
    on conflict (customer_id, pool) do update set available = 1000000, entries = 1
  )
  insert into credit_entries (customer_id, pool, number, kind, amount, balance_after, reserved_after)
  values (${customerId}, 'subscription', 1, 'grant', 1000000, 1000000, 0)`;

async function importPeople(environment: Record<string, string>): Promise<void> {
  const lines = [...generatePeople(people, 5)].map((person) => `${JSON.stringify(person)}\n`).join('');
  const { code, stderr } = await runCli(['catalog', 'import', '-'], environment, lines);
  if (code !== 0) throw new Error(stderr);
}

async function databaseSize(owner: postgres.Sql): Promise<number> {
  await owner`checkpoint`.catch(() => undefined);
  const [row] = await owner<[{ size: string }]>`select pg_database_size(current_database()) as size`;
  return Number(row.size);
}

/** Returns the size of all indexes after merging, in MB. */
async function indexSize(url: string): Promise<number> {
  await fetch(`${url}/_forcemerge?max_num_segments=1`, { method: 'POST' });
  const answer = await fetch(`${url}/_stats/store`);
  const { _all } = (await answer.json()) as { _all: { primaries: { store: { size_in_bytes: number } } } };
  return _all.primaries.store.size_in_bytes / 1e6;
}

/** Prints the memory now and at its peak, and the database connections, of each process. */
async function report(when: string, processes: Record<string, Server>, superuser: postgres.Sql): Promise<void> {
  for (const [name, { pid }] of Object.entries(processes)) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    const megabytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) / 1024;
    print(`memory of ${name} ${when} (MiB)`, megabytes('VmRSS'));
    print(`  at most`, megabytes('VmHWM'));
  }
  const rows = await superuser<{ name: string; count: number }[]>`
    select application_name as name, count(*)::integer as count
    from pg_stat_activity
    where application_name like 'sales-data-api%'
    group by application_name`;
  for (const { name, count } of rows) print(`connections ${when}: ${name}`, count);
}

const print = (name: string, value: number): void =>
  void process.stdout.write(`  ${name.padEnd(50)}${value.toFixed(0).padStart(8)}\n`);
