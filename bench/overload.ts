import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import type { TestCustomer } from '../test/setup/factories.ts';
import { makeCustomers } from './fair.ts';
import { fillContacts } from './people.ts';
import { startServer, type Server } from './run.ts';

const customers = 8;
const contactsEach = 20_000;
/** Times what the service can do. */
const factor = 5;
/** Longest wait for a connection, and how many may wait: so few that the queue is full all the time. */
const queue = { DATABASE_QUEUE_MS: '1000', DATABASE_QUEUE_LENGTH: '40' };
/** Filtered and sorted without an index. */
const search = { filters: { job_title: { contains: 'e' } }, order_by: { job_title: 'ASC' } };

interface Seen {
  status: number;
  ms: number;
}

/**
 * How the service fares at five times what it can do, from many customers, and how soon all is as before.
 * @param seconds of the overload
 */
export async function benchOverload(seconds: number): Promise<void> {
  const database = await openThrowawayPostgres();
  await migrate(database.ownerUrl);
  const senders = await makeCustomers(database.serviceUrl, customers);
  const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  for (const { id } of senders) await fillContacts(owner, id, contactsEach);
  await owner.end({ timeout: 1 });
  const environment = {
    DATABASE_URL: database.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'error',
    RATE_LIMITS: 'off',
    ...queue,
  };
  const service = await startServer(['src/cli.ts', 'serve', '--json'], environment);
  const send = (i: number) => sendSearch(service, senders[i % senders.length]!);

  await closedLoop(send, 12, 3); // opens the connections
  const alone = await closedLoop(send, 1, 5);
  const full = await closedLoop(send, 12, 5);
  const rate = factor * (full.length / 5);
  const before = await residentMemory(service);
  const memory = watchMemory(service);
  const seen = await openLoop(send, rate, seconds);
  const most = await memory.stop();
  await sleep(5_000);
  const after = await closedLoop(send, 1, 5);

  process.stdout.write(
    `\n${customers} customers of ${contactsEach} contacts, ${Math.round(rate)} requests a second for ${seconds} s\n`,
  );
  print('one at a time, before', alone);
  print('as many as it can do', full);
  print('overload, accepted', of(seen, 200));
  print('overload, refused', of(seen, 503));
  print('one at a time, 5 s after', after);
  const others = seen.length - of(seen, 200).length - of(seen, 503).length;
  process.stdout.write(`  neither: ${others}   memory: ${before} MiB before, ${most} MiB at most\n`);
  await service.stop();
  await database.close();
}

const of = (seen: Seen[], status: number): Seen[] => seen.filter((one) => one.status === status);

async function sendSearch({ url }: Server, { key }: TestCustomer): Promise<Seen> {
  const begun = performance.now();
  const answer = await fetch(`${url}/api/ext/contacts/list`, {
    method: 'POST',
    headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(search),
  });
  await answer.arrayBuffer();
  return { status: answer.status, ms: performance.now() - begun };
}

/** So many callers, each of which sends when its request before was answered. */
async function closedLoop(send: (i: number) => Promise<Seen>, callers: number, seconds: number): Promise<Seen[]> {
  const end = performance.now() + seconds * 1_000;
  const seen: Seen[] = [];
  const call = async (i: number) => {
    while (performance.now() < end) seen.push(await send(i));
  };
  await Promise.all(Array.from({ length: callers }, (_, i) => call(i)));
  return seen;
}

/** So many requests a second, whether or not those before were answered. */
async function openLoop(send: (i: number) => Promise<Seen>, rate: number, seconds: number): Promise<Seen[]> {
  const sent: Promise<Seen>[] = [];
  const begun = performance.now();
  while (performance.now() < begun + seconds * 1_000) {
    const due = ((performance.now() - begun) / 1_000) * rate;
    while (sent.length < due) sent.push(send(sent.length));
    await sleep(5);
  }
  return Promise.all(sent);
}

/** Memory in use, in MiB. */
async function residentMemory({ pid }: Server): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024);
}

/** Looks at the memory once a second, until it is told to stop. */
function watchMemory(service: Server): { stop: () => Promise<number> } {
  let most = 0;
  const look = async () => void (most = Math.max(most, await residentMemory(service)));
  const timer = setInterval(() => void look(), 1_000);
  return {
    stop: async () => {
      clearInterval(timer);
      await look();
      return most;
    },
  };
}

function print(name: string, seen: Seen[]): void {
  const times = seen.map(({ ms }) => ms).toSorted((a, b) => a - b);
  const at = (share: number) => (times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0).toFixed(0);
  process.stdout.write(
    `  ${name.padEnd(26)}${String(seen.length).padStart(6)} requests   p50 ${at(0.5).padStart(5)} ms   p99 ${at(0.99).padStart(5)} ms\n`,
  );
}
