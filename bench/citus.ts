import { totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { distribute, migrate } from '../src/database/migrate.ts';
import { generatePeople } from '../src/commands/generate-people.ts';
import { logins } from '../src/database/embedded-postgres.ts';
import { indexRecords } from '../src/jobs/workers.ts';
import { hashPassword } from '../src/accounts/users.ts';
import { SearchCluster } from '../test/search-cluster/cluster.ts';
import { cloneDatabase, onNodes, startCitus, type CitusCluster } from '../test/setup/citus.ts';
import { runCli } from '../test/setup/cli.ts';
import { contactBody, type TestCustomer } from '../test/setup/factories.ts';
import { makeCustomers } from './fair.ts';
import { parentOf, timeOfServer } from './processors.ts';
import { fillForQuestions } from './questions-data.ts';
import { inTurn, loadEach, median, startServer, type EachOptions, type Load, type Server } from './run.ts';
import { grant } from './sizing.ts';

const customers = 20;
const callers = 8;
const people = 5_000;
const password = 'a password for the bench';
/** Number of prospects that one job unlocks. */
const unlocked = 100;

type Request = EachOptions['requests'][number];

/** The contacts of all customers, in random order. Each is taken once, so that each can be deleted. */
type Contacts = { customer: TestCustomer; id: string }[];

/** One of the two databases, with the service on it. */
interface Subject {
  url: string;
  service: Server;
  /** Starts the worker, which only jobs need. */
  startWorker: () => Promise<Server>;
  /** Main processes of the PostgreSQL servers that have the database, the coordinator first. */
  postmasters: number[];
  contacts: Contacts;
}

/** Processor time of one request (µs) by process, and how fast requests were answered. */
interface Figures {
  service: number;
  /** Of one PostgreSQL, or of the coordinator. */
  first: number;
  workers: number;
  load: Omit<Load, 'failed' | 'requests'>;
}

/** What is measured: does something with a subject, and returns how often and how fast. */
type Case = (subject: Subject) => Promise<Load>;

/**
 * Requests to a database that is distributed over a coordinator and two workers, and to its original on one PostgreSQL
 * server of the same version on the same machine: processor time of all processes, rate and latency.
 * @param contacts number of contacts of all customers together
 */
export async function benchCitus(contacts: number, rounds: number): Promise<void> {
  const sharedBuffers = `${Math.floor(totalmem() / 16 / 1024 ** 2)}MB`;
  const cluster = await startCitus({
    settings: { shared_buffers: sharedBuffers, max_connections: '300', max_wal_size: '4GB' },
  });
  const search = await SearchCluster.start({ heap: '1g' });
  const started: Server[] = [];
  try {
    const known = await fillOne(cluster, 'one', contacts);
    await copyToCitus(cluster, 'one', 'distributed');
    const postmasters = await readPostmasters(cluster);
    const one = await open(cluster, search.url, 'one', known, postmasters.slice(0, 1));
    const citus = await open(cluster, search.url, 'distributed', known, postmasters);
    started.push(one.service, citus.service);
    process.stdout.write(
      `${contacts.toLocaleString('en')} contacts of ${customers} customers, ${callers} callers, median of ${rounds} rounds\n${head}`,
    );
    for (const [name, run] of Object.entries(cases)) {
      await run(one);
      await run(citus);
      const figures = await inTurn(rounds, { one: () => measure(one, run), citus: () => measure(citus, run) });
      print(name, figures.one, figures.citus);
    }
    await measureJobs(one, citus, rounds);
  } finally {
    for (const server of started) await server.stop();
    await search.stop();
    await cluster.stop();
  }
}

const addressOf = ({ nodes }: CitusCluster, login: string, database: string): string =>
  nodes[0]!.replace('postgres@', `${login}@`) + database;

/** Creates a database on the coordinator that Citus does not know, with customers of unequal size. */
async function fillOne(cluster: CitusCluster, name: string, contacts: number): Promise<TestCustomer[]> {
  await onNodes(cluster.nodes.slice(0, 1), 'postgres', (sql) =>
    sql.unsafe(`create database ${name} owner ${logins.owner}`),
  );
  const ownerUrl = addressOf(cluster, logins.owner, name);
  await migrate(ownerUrl);
  const made = await makeCustomers(addressOf(cluster, logins.service, name), customers);
  const owner = postgres(ownerUrl, { max: 1, onnotice: () => {} });
  const shares = made.map((_, i) => 1 / (i + 1));
  const all = shares.reduce((sum, share) => sum + share, 0);
  await fillForQuestions(
    owner,
    made.map(({ id }, i) => ({ id, contacts: Math.ceil((contacts * shares[i]!) / all) })),
  );
  await owner`update users set password_hash = ${await hashPassword(password)}, email = id || '@example.com', email_folded = id || '@example.com'`;
  for (const { id } of made) await grant(owner, id);
  await owner`
    insert into lists (customer_id, id, name, owner_id) select customer_id, ${listId}, 'a list', id from users`;
  const db = openDatabase(parseConfig({ STATEMENT_TIMEOUT_MS: '600000' }), addressOf(cluster, logins.service, name));
  await indexRecords({ db, stopping: new AbortController().signal }, 3_600_000);
  await db.close();
  await owner`vacuum (freeze, analyze)`.catch(() => {});
  await owner.end({ timeout: 1 });
  return made;
}

/** Id of the list that each customer has. */
const listId = '00000000-0000-7000-8000-00000000000a';

async function copyToCitus(cluster: CitusCluster, from: string, to: string): Promise<void> {
  const [coordinator, ...workers] = cluster.nodes as [string, ...string[]];
  await onNodes([coordinator], 'postgres', (sql) =>
    sql.unsafe(`create database ${to} template ${from} owner ${logins.owner}`),
  );
  await cloneDatabase(workers, 'template0', to);
  await onNodes(cluster.nodes, to, (sql) => sql`create extension citus`);
  const port = (node: string): number => Number(new URL(node).port);
  await onNodes([coordinator], to, async (sql) => {
    await sql`select citus_set_coordinator_host('127.0.0.1', ${port(coordinator)}::int)`;
    for (const node of workers) await sql`select citus_add_node('127.0.0.1', ${port(node)}::int)`;
  });
  await distribute(addressOf(cluster, logins.superuser, to));
  await onNodes([coordinator], to, (sql) => sql`vacuum (freeze, analyze)`);
}

/** Returns the main process of each node's PostgreSQL. */
async function readPostmasters({ nodes }: CitusCluster): Promise<number[]> {
  const pids: number[] = [];
  await onNodes(nodes, 'postgres', async (sql) => {
    const [row] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
    pids.push(await parentOf(row.pid));
  });
  return pids;
}

async function open(
  cluster: CitusCluster,
  search: string,
  database: string,
  known: TestCustomer[],
  postmasters: number[],
): Promise<Subject> {
  const environment = {
    DATABASE_URL: addressOf(cluster, logins.service, database),
    ELASTICSEARCH_URL: search,
    ELASTICSEARCH_INDEX: `bench-${database}`,
    ELASTICSEARCH_REPLICAS: '0',
    LOG_LEVEL: 'error',
    RATE_LIMITS: 'off',
    OVERLOAD_MS: '0',
    DATABASE_QUEUE_MS: '60000',
    REQUEST_TIMEOUT_MS: '60000',
  };
  const lines = [...generatePeople(people, 5)].map((one) => `${JSON.stringify(one)}\n`).join('');
  const { code, stderr } = await runCli(['catalog', 'import', '-'], environment, lines);
  if (code !== 0) throw new Error(stderr);
  const service = await startServer(['src/cli.ts', 'serve', '--json'], { ...environment, PORT: '0' });
  const startWorker = () => startServer(['src/cli.ts', 'work', '--json'], environment);
  const contacts: Contacts = [];
  await onNodes([addressOf(cluster, logins.superuser, '')], database, async (sql) => {
    // In the same order for both databases.
    const rows = await sql<{ customer_id: string; id: string }[]>`
      select customer_id, id from contacts order by md5(id::text) limit 20000`;
    for (const { customer_id, id } of rows)
      contacts.push({ customer: known.find((customer) => customer.id === customer_id)!, id });
  });
  return { url: service.url, service, startWorker, postmasters, contacts };
}

/** Sends so many requests. Each `make` gets a contact, and its customer. */
const send =
  (count: number, make: (one: Contacts[number], i: number) => Request): Case =>
  ({ url, contacts }) =>
    loadEach({
      base: url,
      callers,
      requests: contacts.splice(0, count).map((one, i) => {
        const request = make(one, i);
        contacts.push(...(request.method === 'DELETE' ? [] : [one]));
        return { ...request, headers: { authorization: `X-API-Key ${one.customer.key}` } };
      }),
    });

const ask =
  (path: string, body: object): ((one: Contacts[number]) => Request) =>
  () => ({
    method: 'POST',
    path: `/api/ext${path}`,
    body,
  });
const contact = (id: string): string => `/api/ext/contacts/${id}`;
const newContact = (i: number) =>
  contactBody({
    first_name: `Ada ${i}`,
    work_email: `ada${i}@example.com`,
    job_title: 'Engineer',
    industry: 'Software',
  });

const cases: Record<string, Case> = {
  'a key is checked': send(1_000, () => ({ method: 'GET', path: contact('no-id'), status: 400 })),
  'GET a contact': send(1_000, ({ id }) => ({ method: 'GET', path: contact(id) })),
  'a page of contacts': send(500, ask('/contacts/list', {})),
  'a page, three filters': send(
    500,
    ask('/contacts/list', { filters: { location_country: 'de', job_title: 'senior engineer', score: { gte: 50 } } }),
  ),
  'a search': send(300, (_, i) => ask('/contacts/list', { filters: { search: `p${i % 1000}@` } })(_)),
  'a count': send(300, ask('/contacts/metadata', { filters: { location_country: 'de' } })),
  'a page of a list': send(300, ask('/contacts/list', { filters: { list_id: listId } })),
  'a page of jobs': send(300, ask('/service-handler/list', {})),
  'POST a contact': send(400, (_, i) => ({ method: 'POST', path: '/api/ext/contacts', body: newContact(i) })),
  'PATCH a contact': send(400, ({ id }, i) => ({
    method: 'PATCH',
    path: contact(id),
    body: { job_title: `Title ${i}`, industry: 'Software' },
  })),
  'add a contact to a list': send(300, ({ id }) =>
    ask('/list-contact-details/add-contacts', { list_id: listId, contact_ids: [id] })({} as never),
  ),
  'DELETE a contact': send(300, ({ id }) => ({ method: 'DELETE', path: contact(id) })),
  'create 100 in a batch': send(20, (_, i) =>
    ask('/contacts/batch/create', { items: Array.from({ length: 100 }, (_item, n) => newContact(i * 100 + n)) })(_),
  ),
  'create a product': send(300, (_, i) =>
    ask('/products', { name: `Product ${i} ${Math.random()}`, price: 1, unit: 'piece' })(_),
  ),
  login: send(60, ({ customer }) => ({
    method: 'POST',
    path: '/api/auth/login',
    body: { email: `${customer.adminId}@example.com`, password },
  })),
};

async function measure(subject: Subject, run: Case, worker?: Server): Promise<Figures> {
  const read = async () => ({
    service: (await subject.service.cpu()) + ((await worker?.cpu()) ?? 0),
    nodes: await Promise.all(subject.postmasters.map(timeOfServer)),
  });
  const before = await read();
  const { requests, ...load } = await run(subject);
  const after = await read();
  const [first, ...others] = after.nodes.map((time, i) => (time - before.nodes[i]!) / requests);
  const workers = others.reduce((sum, time) => sum + time, 0);
  return { service: (after.service - before.service) / requests, first: first!, workers, load };
}

async function measureJobs(one: Subject, citus: Subject, rounds: number): Promise<void> {
  const workers = { one: await one.startWorker(), citus: await citus.startWorker() };
  await unlockAll(one);
  await unlockAll(citus);
  const figures = await inTurn(rounds, {
    one: () => measure(one, unlockAll, workers.one),
    citus: () => measure(citus, unlockAll, workers.citus),
  });
  print(`a job, ${unlocked} unlocks`, figures.one, figures.citus);
  await Promise.all([workers.one.stop(), workers.citus.stop()]);
}

/** One job for each customer, and its work. */
async function unlockAll({ url, contacts }: Subject): Promise<Load> {
  const all = [...new Map(contacts.map(({ customer }) => [customer.id, customer])).values()];
  const start = performance.now();
  const times = await Promise.all(all.map((customer) => unlock(url, customer)));
  const sorted = times.toSorted((a, b) => a - b);
  const rate = all.length / ((performance.now() - start) / 1_000);
  return { requests: all.length, rate, p50: median(sorted), p99: sorted.at(-1)!, failed: 0 };
}

async function unlock(url: string, { key }: TestCustomer): Promise<number> {
  const start = performance.now();
  const headers = { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' };
  const call = async (path: string, body?: object) => {
    const answer = await fetch(`${url}/api/ext/service-handler${path}`, {
      headers,
      ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    });
    return (await answer.json()) as { id: string; status: string };
  };
  const { id } = await call('/unlock-contacts', { filters: {}, total_records: unlocked, sync_crm: true });
  for (;;) {
    const { status } = await call(`/${id}`);
    if (status === 'COMPLETED') return performance.now() - start;
    if (!['PENDING', 'PROCESSING'].includes(status)) throw new Error(`the job ${id} is ${status}`);
    await sleep(200);
  }
}

const head = `${''.padEnd(26)}µs of CPU a request                                         ratio  requests/s        p50 ms            p99 ms
${''.padEnd(26)}service postgres   one   service coordin. workers distr.                one   distr.      one   distr.      one   distr.
`;

function print(name: string, one: Figures[], citus: Figures[]): void {
  const of = (figures: Figures[], what: (one: Figures) => number) => median(figures.map(what));
  const all = ({ service, first, workers }: Figures) => service + first + workers;
  const columns = (values: number[], width: number, digits = 0) =>
    values.map((value) => value.toFixed(digits).padStart(width)).join('');
  const pair = (what: (one: Figures) => number, digits: number) => columns([of(one, what), of(citus, what)], 9, digits);
  const parts = (figures: Figures[], names: ('service' | 'first' | 'workers')[]) =>
    columns([...names.map((part) => of(figures, (each) => each[part])), of(figures, all)], 8);
  const ratio = columns([of(citus, all) / of(one, all)], 8, 2);
  const speed = pair(({ load }) => load.rate, 0) + pair(({ load }) => load.p50, 1) + pair(({ load }) => load.p99, 1);
  const [before, after] = [parts(one, ['service', 'first']), parts(citus, ['service', 'first', 'workers'])];
  process.stdout.write(`  ${name.padEnd(24)}${before}  ${after}${ratio}  ${speed}\n`);
}
