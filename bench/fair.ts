import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { contactBody, grant, makeCustomer, type TestCustomer } from '../test/setup/factories.ts';
import { fillContacts } from './people.ts';
import { startServer, type Server } from './run.ts';

/** What a customer sends, and how. */
type Send = (method: string, path: string, body?: object) => Promise<number>;

/** Sends until it is told to stop. */
type Neighbour = (send: Send, stop: AbortSignal) => Promise<unknown>;

/**
 * How a customer fares who sends a few simple calls each second, while another one sends as much as it can.
 * @param size contacts of the heavy customer
 * @param seconds for each neighbour
 */
export async function benchFair(size: number, seconds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const [heavy, gentle] = (await makeCustomers(server.serviceUrl, 2)) as [TestCustomer, TestCustomer];
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  await fillContacts(owner, heavy.id, size);
  await fillContacts(owner, gentle.id, 1_000);
  await owner.end({ timeout: 1 });
  const environment = {
    DATABASE_URL: server.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'error',
    RATE_LIMITS: 'off',
    VERIFY_DNS_SERVERS: '127.0.0.1:9',
  };
  const service = await startServer(['src/cli.ts', 'serve', '--with-worker', '--json'], environment);
  process.stdout.write(`\n${size.toLocaleString('en')} contacts of the neighbour, ${seconds} s each\n`);
  await watch(service, gentle, 3); // opens the connections
  for (const [name, neighbour] of Object.entries(neighbours)) {
    const stop = new AbortController();
    const sent = tally();
    const busy = neighbour(sender(service, heavy, sent.add), stop.signal);
    await sleep(1_000);
    print(name, await watch(service, gentle, seconds), sent.counts);
    stop.abort();
    await busy;
  }
  await service.stop();
  await server.close();
}

/** Customers with a key each, and credits to verify e-mail addresses. */
export async function makeCustomers(url: string, count: number): Promise<TestCustomer[]> {
  const config = parseConfig({ LOG_LEVEL: 'silent', OVERLOAD_MS: '0' });
  const db = openDatabase(config, url);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const customers: TestCustomer[] = [];
  while (customers.length < count) customers.push(await makeCustomer(app));
  for (const { id } of customers) await grant(app, id, 'verification', 1_000_000);
  await app.close();
  await db.close();
  return customers;
}

/** Twenty-five searches of many words each: no index helps all of them. */
const heavyFilter = {
  _or: Array.from({ length: 24 }, (_, i) => ({
    search: Array.from({ length: 24 }, (_word, word) => String.fromCharCode(97 + ((i + word) % 26))).join(' '),
  })),
};
const rules = [
  { field: 'job_title', operator: 'contains', value: 'engineer' },
  { field: 'last_name', operator: 'ends_with', value: '7', logic_operator: 'OR' },
];

const repeat = (stop: AbortSignal, callers: number, work: () => Promise<unknown>): Promise<unknown> =>
  Promise.all(
    Array.from({ length: callers }, async () => {
      while (!stop.aborted) await work();
    }),
  );

const neighbours: Record<string, Neighbour> = {
  nobody: async () => undefined,
  '64 heavy lists': (send, stop) =>
    repeat(stop, 64, () => send('POST', '/contacts/list', { filters: heavyFilter, order_by: { job_title: 'ASC' } })),
  'fills of lists, and their counts': async (send, stop) => {
    for (let i = 0; i < 10; i += 1) await send('POST', '/list-contact', { name: `Rules ${i}`, rules });
    await repeat(stop, 6, () => send('POST', '/list-contact/list', {}));
  },
  'queued jobs': (send, stop) => {
    const emails = Array.from({ length: 100 }, (_, i) => ({ email: `ada${i}@company${i}.example` }));
    return repeat(stop, 8, () => send('POST', '/service-handler/verify-email', { emails }));
  },
  '64 writers': (send, stop) => repeat(stop, 64, () => send('POST', '/contacts', contactBody())),
};

const calls: [method: string, path: string, body?: object][] = [
  ['POST', '/contacts/list', {}],
  ['POST', '/contacts/list', { filters: { last_name: { starts_with: 'last1' } } }],
  ['POST', '/contacts', contactBody()],
];

interface Seen {
  status: number;
  ms: number;
}

/** The gentle customer's calls, each once a second. */
async function watch(service: Server, customer: TestCustomer, seconds: number): Promise<Seen[]> {
  const send = sender(service, customer, () => undefined);
  const seen: Promise<Seen>[] = [];
  for (let second = 0; second < seconds; second += 1) {
    for (const call of calls) {
      const begun = performance.now();
      seen.push(send(...call).then((status) => ({ status, ms: performance.now() - begun })));
      await sleep(1_000 / calls.length);
    }
  }
  return Promise.all(seen);
}

const sender =
  ({ url }: Server, { key }: TestCustomer, note: (status: number) => void): Send =>
  async (method, path, body) => {
    const answer = await fetch(`${url}/api/ext${path}`, {
      method,
      headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    await answer.arrayBuffer();
    note(answer.status);
    return answer.status;
  };

/** Counts by status. */
function tally(): { counts: Record<number, number>; add: (status: number) => void } {
  const counts: Record<number, number> = {};
  return { counts, add: (status) => void (counts[status] = (counts[status] ?? 0) + 1) };
}

function print(name: string, seen: Seen[], neighbour: Record<number, number>): void {
  const times = seen.map(({ ms }) => ms).toSorted((a, b) => a - b);
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))]!.toFixed(0);
  const failed = seen.filter(({ status }) => status >= 400).length;
  const others = Object.entries(neighbour).map(([status, count]) => `${count} × ${status}`);
  process.stdout.write(
    `  ${name.padEnd(34)}p50 ${at(0.5).padStart(5)} ms   p99 ${at(0.99).padStart(5)} ms   ${failed} of ${seen.length} failed` +
      `   (the neighbour: ${others.join(', ') || 'nothing'})\n`,
  );
}
