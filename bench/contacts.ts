import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { findContacts } from '../src/queries/crm/contacts.ts';
import { contactBody, makeCustomer, type TestCustomer } from '../test/setup/factories.ts';
import { fillContacts } from './people.ts';
import { alternate, inTurn, load, median, startServer, type Load, type Request, type Server } from './run.ts';

const callers = 32;
/** Seconds of load before each case, so that every server's code is compiled and its statements are prepared. */
const warmUp = 1;

/**
 * Contacts over HTTP against the same statements in a bare Fastify, without and with the key's look-up, and the raw driver
 * in a loop.
 * @param sizes how many contacts the customer has
 */
export async function benchContacts(sizes: number[], rounds: number, seconds: number): Promise<void> {
  for (const size of sizes) await benchAt(size, rounds, seconds);
}

async function benchAt(size: number, rounds: number, seconds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const customer = await makeCustomer(app);
  const writers = [customer, ...(await Promise.all(Array.from({ length: 7 }, () => makeCustomer(app))))];
  const ids = await fill(server.ownerUrl, customer.id, size);
  const servers = await startServers(server.serviceUrl, customer);

  process.stdout.write(`\n${size.toLocaleString('en')} contacts, ${callers} callers, ${rounds} × ${seconds} s each\n`);
  process.stdout.write(head);
  for (const [name, requests] of Object.entries(casesOf(ids, writers)))
    printCase(name, await measure(servers, requests, rounds, seconds));
  const raw = await alternate(rounds, {
    raw: () => loop(seconds, (i) => db.lookup((sql) => findContacts(sql, customer.id, [ids[i % ids.length]!]))),
  });
  process.stdout.write(`  findContacts in a loop, no HTTP: ${Math.round(raw.raw)}/s\n`);

  for (const { target } of Object.values(servers)) await target.stop();
  await app.close();
  await db.close();
  await server.close();
}

/** Gives the customer so many contacts; answers the ids of some. */
async function fill(ownerUrl: string, customerId: string, size: number): Promise<string[]> {
  const owner = postgres(ownerUrl, { max: 1, onnotice: () => {} });
  await fillContacts(owner, customerId, size);
  await owner`vacuum analyze contacts`;
  const rows = await owner<{ id: string }[]>`
    select id from contacts tablesample bernoulli (${Math.min(100, 40_000 / size)}) limit 200`;
  await owner.end({ timeout: 1 });
  return rows.map(({ id }) => id);
}

const casesOf = (ids: string[], writers: TestCustomer[]): Record<string, Request[]> => ({
  'GET /contacts/:id': ids.map((id) => ({ method: 'GET', path: `/contacts/${id}` })),
  'a page of 25': [{ method: 'POST', path: '/contacts/list', body: {} }],
  'a page, three filters': [{ method: 'POST', path: '/contacts/list', body: { filters: threeFilters } }],
  // Of several customers, because the writes of one wait for each other.
  create: writers.map(({ id, key }) => ({
    method: 'POST',
    path: '/contacts',
    body: contactBody(),
    headers: { authorization: `X-API-Key ${key}`, 'x-customer': id },
  })),
});

/** One contact in 154 passes them. */
const threeFilters = { location_country: 'de', industry: 'software', score: { gte: 50 } };

/** A server, and a case of load on it. */
interface Subject {
  target: Server;
  load(requests: Request[], seconds: number): Promise<Load>;
}

/** What is measured is how fast answers are, not when they are refused: on a busy machine a second passes soon. */
const patience = {
  OVERLOAD_MS: '0',
  DATABASE_QUEUE_MS: '60000',
  REQUEST_TIMEOUT_MS: '60000',
  RATE_LIMIT_DEFAULT: '1000000000',
};

type Subjects = Record<'service' | 'keyed' | 'bare', Subject>;

async function startServers(url: string, { id, key }: TestCustomer): Promise<Subjects> {
  const headers = { authorization: `X-API-Key ${key}` };
  const subject = (target: Server, prefix: string): Subject => ({
    target,
    load: (requests, seconds) => load(`${target.url}${prefix}`, requests, callers, seconds, headers),
  });
  const environment = { DATABASE_URL: url, PORT: '0', LOG_LEVEL: 'warn', ...patience };
  return {
    service: subject(await startServer(['src/cli.ts', 'serve', '--json'], environment), '/api/ext'),
    keyed: subject(await startServer(['bench/bare-server.ts', url, id, 'keyed']), ''),
    bare: subject(await startServer(['bench/bare-server.ts', url, id]), ''),
  };
}

/** Requests a second, and the server's processor time for one (µs). */
interface Figures {
  rate: number;
  cpu: number;
}

type Measured = Record<keyof Subjects, Figures>;

/** The medians of some rounds of one case on all servers in turn. */
async function measure(servers: Subjects, requests: Request[], rounds: number, seconds: number): Promise<Measured> {
  const { service, keyed, bare } = servers;
  for (const each of [service, keyed, bare]) await each.load(requests, warmUp);
  const once = (subject: Subject) => () => figures(subject, requests, seconds);
  const results = await inTurn(rounds, { service: once(service), keyed: once(keyed), bare: once(bare) });
  const medians = (all: Figures[]): Figures => ({
    rate: median(all.map(({ rate }) => rate)),
    cpu: median(all.map(({ cpu }) => cpu)),
  });
  return { service: medians(results.service), keyed: medians(results.keyed), bare: medians(results.bare) };
}

async function figures({ target, load }: Subject, requests: Request[], seconds: number): Promise<Figures> {
  const before = await target.cpu();
  const { rate, requests: answered } = await load(requests, seconds);
  return { rate, cpu: ((await target.cpu()) - before) / answered };
}

/** The rate's ratios are what is aimed at, from below 1; those of the processor time are a cost, from above. */
const head = `${''.padEnd(24)}requests/s                    ratio to        µs of CPU a request     ratio to
${''.padEnd(24)}service   keyed     bare      keyed   bare     service keyed   bare    keyed   bare
`;

function printCase(name: string, { service, keyed, bare }: Measured): void {
  const columns = (values: number[], digits: number, width: number) =>
    values.map((value) => value.toFixed(digits).padEnd(width)).join('');
  const part = (of: keyof Figures, width: number) =>
    columns([service[of], keyed[of], bare[of]], 0, width) +
    columns([service[of] / keyed[of], service[of] / bare[of]], 2, 8);
  process.stdout.write(`  ${name.padEnd(22)}${part('rate', 10)} ${part('cpu', 8)}`.trimEnd() + '\n');
}

/** Statements a second by as many callers as the load has. */
async function loop(seconds: number, work: (i: number) => Promise<unknown>): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let done = 0;
  const caller = async () => {
    while (performance.now() < end) await work((done += 1));
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return done / seconds;
}
