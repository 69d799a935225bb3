import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generatePeople } from '../../src/commands/generate-people.ts';
import { paidJobTypes } from '../../src/schemas/jobs.ts';
import { writePeople } from '../catalog/people.ts';
import { loopback, makeEndpoint, startReceiver, status, verify, type Receiver } from '../jobs/webhooks/receivers.ts';
import { recount } from '../queries/memberships/recount.ts';
import { runAlone } from '../setup/alone.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { contactBody, grant, make, makeList, type TestCustomer } from '../setup/factories.ts';
import { freePorts } from '../setup/free-port.ts';
import { startNameServer } from '../setup/name-server.ts';
import { audit } from './audit.ts';
import { Client } from './client.ts';
import { doHarm, noHarm, pauseInsideJobs } from './faults.ts';
import { Tenacious } from './rig.ts';
import { spend, type Told, type World } from './spender.ts';
import { Writer } from './writer.ts';

runAlone();

// Chaos test. Clients of two customers start jobs that spend credits, and those of a third one change records in every way,
// with retries and duplicates, through two servers. Servers, workers, database connections and followers of the feed are
// killed meanwhile; the followers resume at their saved cursors. At the end one worker is frozen for longer than it may
// keep its work. Then an audit checks all data. `make chaos` runs it for longer.
const seconds = Number(process.env['CHAOS_SECONDS'] ?? 20);
/** A constraint to remove, to show that this test fails without it: `CHAOS_WITHOUT=unlocks_pkey make chaos`. */
const without = process.env['CHAOS_WITHOUT'];
/** Maximum length of the run in seconds, if a busy machine needs longer until everything has happened. */
const longestSeconds = 10 * seconds;
/** Milliseconds within which all work must end after the last fault. A longer run leaves more that waits. */
const recovery = 300_000 + 3_000 * seconds;

let app: TestApp;
let superuser: postgres.Sql;
let spenders: { customer: TestCustomer; client: Client; world: World }[];
let writing: TestCustomer;
let receiver: Receiver;
let secret: string;
let folder: string;
let servers: Tenacious[] = [];
let workers: Tenacious[] = [];
let followers: Tenacious[] = [];

const fileOf = (n: number) => join(folder, `follower-${n}.db`);

beforeAll(async () => {
  const names = await startNameServer();
  const domains = [
    names.name({ mx: [[10, 'mail.test']] }),
    names.name({}),
    names.name('silent'),
    names.name('servfail'),
  ];
  app = await startApp(loopback);
  superuser = postgres(app.superuserUrl, { max: 1, onnotice: () => {} });
  if (without) await app.owner`alter table ${app.owner(without.split('_')[0]!)} drop constraint ${app.owner(without)}`;
  const people = [...generatePeople(6_000, 7)];
  await app.catalog.prepare();
  await writePeople(app.catalog, people);
  await app.catalog.finish();
  const environment = {
    ...loopback,
    DATABASE_URL: app.url,
    WEBHOOK_SECRET_KEY: app.config.WEBHOOK_SECRET_KEY!,
    VERIFY_DNS_SERVERS: names.address,
    VERIFY_DNS_TIMEOUT_MS: '300',
    LOG_LEVEL: 'error',
    OVERLOAD_MS: '0',
    RATE_LIMITS: 'off',
  };
  const ports = await freePorts(2);
  servers = ports.map((port) => new Tenacious(['test/setup/dying-server.ts'], { ...environment, PORT: `${port}` }));
  workers = [1, 2].map(() => new Tenacious(['src/cli.ts', 'work', '--json'], environment));
  const prospects = people.map(({ _id }) => _id);
  spenders = [await furnish({ domains, prospects }), await furnish({ domains, prospects })];
  writing = await app.customer();
  receiver = await startReceiver((response, received, request) => {
    const luck = randomInt(100);
    if (luck < 3) request.socket.destroy();
    else setTimeout(() => status(luck < 8 ? 500 : 200)(response, received, request), luck);
  });
  ({ secret } = await makeEndpoint(app, writing.id, receiver.url, { bulk: true }));
  folder = await mkdtemp(join(tmpdir(), 'chaos-'));
  await Promise.all([...servers, ...workers].map((one) => one.ready()));
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  const follow = (n: number) => ['--no-warnings', 'test/chaos/follower.ts', fileOf(n), writing.key, ...urls];
  followers = [0, 1].map((n) => new Tenacious(follow(n), {}));
}, 300_000);

afterAll(async () => {
  await Promise.all([...servers, ...workers, ...followers].map((one) => one.stop()));
  await superuser?.end({ timeout: 1 });
  await rm(folder, { recursive: true });
}, 120_000);

test(
  `for ${seconds} s of kills: nothing is lost, nothing is done twice, each event comes once and in order, and the audit finds no fault`,
  async () => {
    const told: Told = { jobs: new Set(), types: new Set(), capped: 0, doubles: [] };
    const writers = Array.from({ length: 3 }, () => new Writer(new Client(servers, [writing.key])));
    const harm = noHarm();
    await liveThrough(told, writers, harm);
    await takeOver();

    expect(await audit(app.owner)).toEqual({});
    expect(told.doubles, 'keys that started two jobs').toEqual([]);
    const jobs = await app.owner<{ id: string }[]>`select id from jobs order by id`;
    expect(jobs.map(({ id }) => id)).toEqual([...told.jobs].toSorted());
    for (const { customer, world } of spenders) {
      const [{ unlocks }] = await app.owner<[{ unlocks: number }]>`
        select count(*)::integer as unlocks from unlocks where customer_id = ${customer.id}`;
      const netNew = await app.catalog.count({ criteria: [], netNewFor: customer.id });
      expect(netNew).toBe(world.prospects.length - unlocks);
    }
    for (const { id } of [writing, ...spenders.map(({ customer }) => customer)]) {
      const { contacts, companies } = await recount(app.owner, id);
      expect([contacts.kept, companies.kept]).toEqual([contacts.real, companies.real]);
    }
    const events = await expectFollowed(writers);
    await expectDelivered(events);
    process.stdout.write(
      `chaos: ${JSON.stringify({ jobs: jobs.length, capped: told.capped, events: events.length, ...harm })}\n`,
    );
    expect([...told.types].toSorted(), 'job types that were started').toEqual(paidJobTypes.toSorted());
    const without = Object.keys(harm).filter((name) => harm[name] === 0);
    expect(without, 'faults that never happened').toEqual([]);
  },
  longestSeconds * 1_000 + 3 * recovery,
);

/** Gives a customer credits for some of its requests, and lists with contacts to verify. */
async function furnish(
  given: Pick<World, 'domains' | 'prospects'>,
): Promise<{ customer: TestCustomer; client: Client; world: World }> {
  const customer = await app.customer();
  await grant(app.fastify, customer.id, 'verification', 100_000);
  await grant(app.fastify, customer.id, 'subscription', 4_000);
  const lists = await Promise.all([makeList(app.fastify, customer), makeList(app.fastify, customer)]);
  const contacts: World['contacts'] = [];
  for (const [i, list] of lists.entries())
    for (let n = 0; n < 25; n += 1) {
      const email = `contact${n}@${given.domains[(n + i) % given.domains.length]}`;
      const id = await make(customer, '/contacts', contactBody({ work_email: email, list_ids: [list] }));
      contacts.push({ id, email });
    }
  const capped = await customer.withCaps({
    subscription: { amount: 400, per: 'total' },
    verification: { amount: 100, per: 'day' },
  });
  return { customer, client: new Client(servers, [customer.key, capped.key]), world: { ...given, lists, contacts } };
}

/** Lets all clients work and injects faults, until the time is over and everything has happened. Freezes one worker. */
async function liveThrough(told: Told, writers: Writer[], harm: Record<string, number>): Promise<void> {
  const [stopping, stoppingHarm] = [new AbortController(), new AbortController()];
  const victims = { workers, servers, followers, superuser, database: new URL(app.url).pathname.slice(1) };
  const work = Promise.all([
    ...spenders.flatMap(({ client, world }) => [1, 2].map(() => spend(client, world, told, stopping.signal))),
    ...writers.map((writer) => writer.work(stopping.signal)),
  ]);
  const harming = doHarm(victims, harm, stoppingHarm.signal);
  const begun = performance.now();
  const isOver = (): boolean => {
    const passed = performance.now() - begun;
    const isAll = told.capped > 0 && told.types.size === paidJobTypes.length && Math.min(...Object.values(harm)) > 0;
    return passed > (isAll ? seconds : longestSeconds) * 1_000;
  };
  const ended = async () => {
    while (!isOver() && !stopping.signal.aborted) await sleep(100);
    stoppingHarm.abort();
    await harming;
    await Promise.all([...servers, ...workers, ...followers].map((one) => one.ready()));
    await pauseInsideJobs(superuser, workers);
    workers[0]!.signal('SIGSTOP');
    workers[1]!.signal('SIGCONT');
  };
  const end = ended().finally(() => stopping.abort());
  end.catch(() => undefined);
  try {
    await work;
  } finally {
    stopping.abort(); // if one client meets what it should not, the others stop
    await end;
  }
}

/**
 * Waits until the other worker has taken over the jobs of the frozen one, or for longer than that one may keep its work: it may
 * have stopped inside a transaction. Then wakes it, which must change nothing any more, and waits for the end of all work.
 */
async function takeOver(): Promise<void> {
  receiver.answer = status(200);
  const held = await app.owner<{ turn: string }[]>`select turn from jobs where turn is not null`;
  const turns = held.map(({ turn }) => turn);
  const isHeld = async () => (await app.owner`select from jobs where turn = any(${turns}::uuid[])`).length > 0;
  for (const end = performance.now() + 35_000; performance.now() < end && (await isHeld());) await sleep(200);
  workers[0]!.signal('SIGCONT');
  const unfinished = async () => {
    await app.owner`update webhook_deliveries set due_at = now() where due_at is not null`;
    await app.owner`update webhook_endpoints set next_at = now() where pending > 0`;
    const [row] = await app.owner`
      select
        (select count(*)::integer from jobs where finished_at is null) as jobs,
        (select count(*)::integer from webhook_endpoints where pending > 0) as endpoints`;
    return row;
  };
  await expect.poll(unfinished, { timeout: recovery, interval: 500 }).toEqual({ jobs: 0, endpoints: 0 });
}

interface Logged {
  id: string;
  type: string;
  record: string;
  changed: string | null;
}

/** Compares what the followers got with what the writers did, and their copies with the records. Returns the events. */
async function expectFollowed(writers: Writer[]): Promise<Logged[]> {
  const expected = new Map(writers.flatMap((writer) => [...writer.expected]));
  const changes = [...expected.values()].reduce((sum, { length }) => sum + length, 0);
  const exported = await recordsNow();
  const copies = [0, 1].map((n) => new DatabaseSync(fileOf(n), { readOnly: true }));
  const logs: Logged[][] = [];
  for (const copy of copies) {
    const rows = (text: string) => copy.prepare(text).all() as unknown[];
    const log = () => rows('select id, type, record, changed from log order by number') as Logged[];
    await expect.poll(() => log().length, { timeout: recovery, interval: 500 }).toBe(changes);
    logs.push(log());
    const records = rows('select record from copy') as { record: string }[];
    expect(records.map(({ record }) => shown(JSON.parse(record) as Record<string, unknown>)).toSorted()).toEqual(
      exported,
    );
    copy.close();
  }
  expect(logs[0]!.map(({ id }) => id)).toEqual(logs[1]!.map(({ id }) => id));
  const seen = Map.groupBy(logs[0]!, ({ record }) => record);
  const textOf = ({ type, changed }: Logged): string => (changed === null ? type : `${type} ${changed}`);
  const wrong = [...expected].filter(([id, events]) => events.join(';') !== seen.get(id)?.map(textOf).join(';'));
  expect(wrong.slice(0, 3)).toEqual([]);
  return logs[0]!;
}

/** Every event must have come to the receiver, signed, and at most ten at a time. */
async function expectDelivered(events: Logged[]): Promise<void> {
  const got = () => new Set(receiver.received.map(({ event }) => event.id));
  await expect.poll(() => events.filter(({ id }) => !got().has(id)), { timeout: recovery, interval: 500 }).toEqual([]);
  expect(receiver.maxOpen).toBeLessThanOrEqual(10);
  verify(secret, receiver.received.at(-1)!);
}

/** What a copy and the service are compared by. */
const shown = (record: Record<string, unknown>): string =>
  `id external_id first_name last_name job_title middle_name custom_fields gender company_name industry size location_metro`
    .split(' ')
    .map((name) => JSON.stringify(record[name] ?? null))
    .join();

/** Reads all contacts and companies. */
async function recordsNow(): Promise<string[]> {
  const client = new Client(servers, [writing.key]);
  const records: Record<string, unknown>[] = [];
  for (const path of ['/contacts/list', '/company/list'])
    for (let page = 1, isLast = false; !isLast; page += 1) {
      const { body } = await client.insist('POST', path, { paginate: { limit: 100, page } });
      records.push(...(body as typeof records));
      isLast = body.length < 100;
    }
  return records.map(shown).toSorted();
}
