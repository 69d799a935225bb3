import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generatePeople } from '../../src/commands/generate-people.ts';
import { countUnindexed } from '../../src/queries/jobs/unlocks.ts';
import { grantCredits } from '../../src/queries/jobs/credits.ts';
import { jobTypes } from '../../src/schemas/jobs.ts';
import { unlockedInCluster, unlockedInPostgres } from '../catalog/damage.ts';
import { recount } from '../queries/memberships/recount.ts';
import { SearchCluster } from '../search-cluster/cluster.ts';
import { runAlone } from '../setup/alone.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { need, noNodes } from '../setup/elasticsearch.ts';
import { contactBody, make, makeList, type TestCustomer } from '../setup/factories.ts';
import { startNameServer } from '../setup/name-server.ts';
import { audit } from './audit.ts';
import { HurtCatalog } from './catalog.ts';
import { Caller, emptyJournal, type Client, type Journal } from './clients.ts';
import { Importer } from './importer.ts';
import { breakTurns, doHarm, unhurt, type Damage } from './faults.ts';
import { askedTooOften, startMailServers, type MailServers } from './mail.ts';
import { Tenacious } from './rig.ts';

/** The types of jobs that spend credits. */
const spending = jobTypes.filter((type) => type !== 'undo');

runAlone();

// Chaos test. Clients send retries and duplicates to two servers, while workers, servers, database connections and the
// search cluster are killed and frozen. Afterwards an audit checks all data. `make chaos` runs it for longer.
const seconds = Number(process.env['CHAOS_SECONDS'] ?? 20);
/** A safeguard of the service to remove, to show that this test fails without it. */
const without = process.env['CHAOS_WITHOUT'];
/** Minimum numbers of started jobs, imported files, killed workers and catalog damages for a meaningful audit. */
const enough = { starts: seconds / 3, imports: seconds / 10, workerKills: seconds / 15, harms: seconds < 300 ? -1 : 0 };
/** Maximum length of the run in seconds, if a busy machine needs longer to reach `enough`. */
const longestSeconds = 5 * seconds;
/** Milliseconds within which all jobs must end after the last fault. A longer run leaves more jobs that wait. */
const recovery = 150_000 + 1_500 * seconds;

describe.skipIf(noNodes)(`jobs under injected faults ${need}`, () => {
  let cluster: SearchCluster;
  let app: TestApp;
  let superuser: postgres.Sql;
  let clients: Client[];
  let prospects: string[];
  let folder: string;
  let catalog: HurtCatalog;
  let domains: string[];
  let mail: MailServers;
  let workers: Tenacious[] = [];
  let servers: Tenacious[] = [];

  beforeAll(async () => {
    cluster = await SearchCluster.start({ heap: '512m' });
    const search = {
      ELASTICSEARCH_URL: cluster.url,
      ELASTICSEARCH_REPLICAS: '0',
      ELASTICSEARCH_TIMEOUT_MS: '1500',
      ELASTICSEARCH_BULK_TIMEOUT_MS: '5000',
    };
    const names = await startNameServer();
    mail = await startMailServers(names);
    domains = [...mail.domains, names.name({}), names.name('silent'), names.name('servfail')];
    app = await startApp(search);
    superuser = postgres(app.superuserUrl, { max: 1, onnotice: () => {} });
    // To see the test fail: `CHAOS_WITHOUT=unlocks_pkey make chaos` lets two jobs charge for the same prospect, and
    // with `CHAOS_WITHOUT=turns` two workers verify the same emails.
    if (without && without !== 'turns')
      await app.owner`alter table ${app.owner(without.split('_')[0]!)} drop constraint ${app.owner(without)}`;
    const people = [...generatePeople(6_000, 7)];
    folder = await mkdtemp(join(tmpdir(), 'chaos-'));
    const importing = { ...search, DATABASE_URL: app.url };
    catalog = await HurtCatalog.import(app.config, importing, people, join(folder, 'people.ndjson'));
    prospects = people.map(({ _id }) => _id);
    clients = await Promise.all(
      [app.customer(), app.customer(), app.customer()].map(async (one) => furnish(app, await one, domains)),
    );
    const verification = {
      VERIFY_DNS_SERVERS: names.address,
      VERIFY_DNS_TIMEOUT_MS: '300',
      VERIFY_SMTP: 'on',
      VERIFY_SMTP_PORT: `${mail.port}`,
      VERIFY_SMTP_TIMEOUT_MS: '1500',
      VERIFY_DOMAIN_CONNECTIONS: '10',
      VERIFY_DOMAIN_INTERVAL_MS: '0',
      VERIFY_PRIVATE_ADDRESSES: 'on',
    };
    const environment = {
      ...search,
      ...verification,
      DATABASE_URL: app.url,
      LOG_LEVEL: 'error',
      OVERLOAD_MS: '0',
      RATE_LIMITS: 'off',
      PORT: '0',
    };
    servers = [1, 2].map(() => new Tenacious(['test/setup/dying-server.ts'], environment));
    workers = [1, 2].map(() => new Tenacious(['src/cli.ts', 'work', '--json'], environment));
  }, 240_000);

  afterAll(async () => {
    await Promise.all([...servers, ...workers].map((one) => one.stop()));
    await superuser?.end({ timeout: 1 });
    await cluster?.stop();
    await rm(folder, { recursive: true });
  }, 120_000);

  test(
    `for ${seconds} s: nothing is lost, nothing is done twice, and the audit finds no fault`,
    async () => {
      const journal = emptyJournal();
      const { workersKilledAt, ...damage } = await liveThrough(journal);
      await expect.poll(() => unfinished(app), { timeout: recovery, interval: 500 }).toBe(0);
      await settleDown();
      process.stdout.write(
        `chaos: ${JSON.stringify({ ...counts(journal), ...damage, ...catalog.damage, asked: mail.asked.length, ...(await done(app)) })}\n`,
      );
      expect(await audit(app.owner)).toEqual({});
      expect(await askedTooOften(app.owner, mail.asked, workersKilledAt)).toEqual([]);
      expect(await unlockedInCluster(app)).toEqual(await unlockedInPostgres(app));
      expect(journal.surprises).toEqual([]);
      expect(journal.started.size).toBeGreaterThan(enough.starts);
      expect(journal.imports).toBeGreaterThan(enough.imports);
      expect([...journal.types].sort(), 'job types that were started').toEqual(spending.toSorted());
      expect([...journal.started].filter(([, ids]) => ids.size > 1)).toEqual([]);
      expect(await orphans(app, journal)).toEqual([]);
      for (const { customerId } of clients) {
        const books = await recount(app.owner, customerId);
        expect(books.contacts.kept).toBe(books.contacts.real);
        expect(books.companies.kept).toBe(books.companies.real);
        expect(await netNew(app, customerId)).toBe(prospects.length - (await unlocked(app, customerId)));
      }
      expect(journal.capped, 'starts that a spend cap refused').toBeGreaterThan(0);
      expect(damage.workerKills).toBeGreaterThan(enough.workerKills);
      // An import that is interrupted can take a minute: in a short run there may be time only for the deletion of the
      // index.
      const { deletions, ...others } = catalog.damage;
      expect(deletions, 'the index was deleted').toBeGreaterThan(0);
      expect(Math.min(...Object.values(others)), 'count of each other damage').toBeGreaterThan(enough.harms);
    },
    longestSeconds * 1_000 + recovery + 120_000,
  );

  async function liveThrough(journal: Journal): Promise<Damage> {
    const stopping = new AbortController();
    const world = { servers, journal, prospects, domains };
    const callers = clients.flatMap((client) => [
      ...[1, 2, 3].map(() => new Caller(client, world).work(stopping.signal)),
      new Importer(client, world).work(stopping.signal),
    ]);
    const victims = { workers, servers, cluster, superuser, database: new URL(app.url).pathname.slice(1) };
    const damage = unhurt();
    const harm = Promise.all([
      doHarm(victims, damage, seconds, stopping.signal),
      catalog.suffer([seconds * 50, seconds * 100], stopping.signal),
    ]);
    const breaking = without === 'turns' ? breakTurns(superuser, stopping.signal) : undefined;
    await sleep(seconds * 1_000);
    const deadline = performance.now() + (longestSeconds - seconds) * 1_000;
    while (!(isEnough(journal, damage) && catalog.damage.deletions > 0) && performance.now() < deadline)
      await sleep(100);
    stopping.abort();
    await Promise.all([harm, breaking, ...callers]);
    return damage;
  }

  const isEnough = ({ started, types, imports, capped }: Journal, { workerKills }: Damage): boolean =>
    started.size > enough.starts &&
    imports > enough.imports &&
    types.size === spending.length &&
    workerKills > enough.workerKills &&
    capped > 0;

  /**
   * Waits until all workers run, the sweep has indexed the unlocks that could not be written at once, and the catalog is
   * refreshed. No job runs any more, so the data does not change during the audit.
   */
  async function settleDown(): Promise<void> {
    await Promise.all(workers.map((worker) => worker.ready()));
    await expect.poll(() => app.db.search(countUnindexed), { timeout: recovery, interval: 500 }).toBe(0);
    await app.catalog.refresh();
  }
});

/** Gives a customer credits for some of its requests, and lists with contacts to verify. */
async function furnish(app: TestApp, customer: TestCustomer, domains: string[]): Promise<Client> {
  await app.db.transaction(async (sql) => {
    await grantCredits(sql, customer.id, { pool: 'verification', amount: 100_000, note: null });
    await grantCredits(sql, customer.id, { pool: 'subscription', amount: 4_000, note: null });
  });
  const lists = await Promise.all([makeList(app.fastify, customer), makeList(app.fastify, customer)]);
  await customer.post('/list-contact', {
    name: 'Good ones',
    rules: [{ field: 'score', operator: 'greater_than', value: '60' }],
  });
  const contacts: Client['contacts'] = [];
  for (const [i, list] of lists.entries())
    for (let n = 0; n < 25; n += 1) {
      const email = `contact${n}@${domains[(n + i) % domains.length]}`;
      const id = await make(customer, '/contacts', contactBody({ work_email: email, list_ids: [list] }));
      contacts.push({ id, email });
    }
  const capped = await customer.withCaps({
    subscription: { amount: 400, per: 'total' },
    verification: { amount: 100, per: 'day' },
  });
  return { customerId: customer.id, key: customer.key, cappedKey: capped.key, lists, contacts };
}

const counts = ({ started, requests, retries, refused, capped, cancelled, imports }: Journal) => ({
  startsAcknowledged: started.size,
  imports,
  requests,
  retries,
  refused,
  capped,
  cancelled,
});

const one = async (app: TestApp, text: string): Promise<number> =>
  ((await app.owner.unsafe(text)) as unknown as [{ count: number }])[0].count;

const unfinished = (app: TestApp): Promise<number> =>
  one(
    app,
    `select (select count(*) from jobs where finished_at is null)::integer
      + (select count(*) from imports where status in ('PENDING', 'PROCESSING'))::integer as count`,
  );

/** Returns the numbers of jobs, results and credits at the end, for the output. */
async function done({ owner }: TestApp): Promise<object> {
  const [row] = await owner`
    select
      (select count(*)::integer from jobs) as jobs,
      (select count(*)::integer from jobs where status = 'CANCELLED') as "jobsCancelled",
      (select count(*)::integer from job_results) as items,
      (select coalesce(sum(created), 0)::integer from imports) as imported,
      (select count(*)::integer from unlocks) as unlocks,
      (select sum(charged)::integer from jobs) as charged,
      (select count(*)::integer from credit_entries) as "ledgerEntries"`;
  return row!;
}

/**
 * Returns the jobs that no client and no idempotency record knows. A client may miss the response for its key, but the
 * record then exists.
 */
async function orphans(app: TestApp, { started }: Journal): Promise<unknown[]> {
  const known = [...started.values()].flatMap((ids) => [...ids]);
  const rows = await app.owner`
    select j.id
    from jobs j
    where j.id <> all(${known}::uuid[])
      and not exists (
        select from idempotency_records r
        where r.customer_id = j.customer_id
          and j.id::text in (r.body ->> 'id', r.body -> 'data' ->> 'id')
      )`;
  return [...rows];
}

const netNew = (app: TestApp, customerId: string): Promise<number> =>
  app.catalog.count({ criteria: [], netNewFor: customerId });

const unlocked = (app: TestApp, customerId: string): Promise<number> =>
  one(app, `select count(*)::integer as count from unlocks where customer_id = '${customerId}'`);
