import postgres from 'postgres';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { startJob } from '../src/jobs/start-job.ts';
import { planSelectedUnlock } from '../src/jobs/unlocks.ts';
import { startWorkers } from '../src/jobs/workers.ts';
import { logger } from '../src/process/logger.ts';
import { grantCredits } from '../src/queries/jobs/credits.ts';
import { createCustomer } from '../src/queries/accounts/customers.ts';
import { person, writePeople } from '../test/catalog/people.ts';
import { alternate } from './run.ts';

const callers = 10;
const customersInAll = 200;
const startsInTurn = 200;

/** How soon a job begins on an idle system, and how many can be started: at the service's own functions. */
export async function benchJobs(rounds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const config = parseConfig({ LOG_LEVEL: 'warn', DATABASE_QUEUE_MS: '60000' });
  const db = openDatabase(config, server.serviceUrl);
  const catalog = openCatalog(config, db);

  const makeCustomer = () =>
    db.transaction(async (sql) => {
      const { id } = await createCustomer(sql, { business_name: 'Bench', country: null, city: null });
      await grantCredits(sql, id, { pool: 'subscription', amount: 1_000_000_000, note: null });
      return id;
    });
  const start = (customer: string, id: string) =>
    db.transaction(async (sql) => {
      const spender = { customerId: customer, apiKeyId: null };
      return startJob(sql, spender, await planSelectedUnlock(sql, spender, config, { ids: [id] }, []));
    });

  const people = Array.from({ length: startsInTurn }, () => person());
  await catalog.prepare();
  await writePeople(catalog, people);

  const customer = await makeCustomer();
  const workers = await startWorkers({ config, db, catalog, log: logger(config), url: server.serviceUrl });
  for (const { _id } of people) {
    const job = await start(customer, _id);
    await ended(owner, job.id);
  }
  await workers.stop();
  const [latency] = await owner<[{ p50: number; p99: number }]>`
    select percentile_disc(0.5) within group (order by ms) as p50, percentile_disc(0.99) within group (order by ms) as p99
    from (
      select (extract(epoch from min(r.finished_at) - j.created_at) * 1000)::float8 as ms
      from jobs j
      join job_results r on r.customer_id = j.customer_id and r.job_id = j.id
      group by j.id, j.created_at
    ) first_items`;
  print('from start to first item, idle', `p50 ${latency.p50.toFixed(0)} ms`, `p99 ${latency.p99.toFixed(0)} ms`);

  const customers = await Promise.all(Array.from({ length: customersInAll }, makeCustomer));
  const starts = (among: string[]) => () => perSecond(2, (i) => start(among[i % among.length]!, people[0]!._id));
  const rates = await alternate(rounds, { one: starts([customer]), many: starts(customers) });
  print('job starts/s', `one customer ${rates.one.toFixed(0)}`, `${customersInAll} customers ${rates.many.toFixed(0)}`);

  await owner.end({ timeout: 1 });
  await catalog.close();
  await db.close();
  await server.close();
}

/** Looks often, so that the next start finds the system idle, and the looking is no load. */
async function ended(owner: postgres.Sql, id: string): Promise<void> {
  for (;;) {
    const [job] = await owner<
      [{ is_over: boolean }]
    >`select finished_at is not null as is_over from jobs where id = ${id}`;
    if (job.is_over) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** How often a second something can be done by so many callers. */
async function perSecond(seconds: number, act: (i: number) => Promise<unknown>): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let done = 0;
  const caller = async () => {
    while (performance.now() < end) await act((done += 1));
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return done / seconds;
}

const print = (what: string, ...figures: string[]): void =>
  void process.stdout.write(`${what.padEnd(36)} ${figures.join('   ')}\n`);
