import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type Database } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { generatePeople } from '../src/commands/generate-people.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { syncProspects } from '../src/queries/crm/crm-sync.ts';
import { insertUnlocks } from '../src/queries/jobs/unlocks.ts';
import type { Prospect } from '../src/schemas/prospects.ts';
import { writePeople } from '../test/catalog/people.ts';
import { grant, makeCustomer, type TestCustomer } from '../test/setup/factories.ts';
import { alternate, startServer } from './run.ts';

/** Prospects of one job, and of the catalog on Postgres. */
const [most, people] = [10_000, 50_000];
/** As many as a slice has. */
const batchSize = 250;

/**
 * Unlocking through one worker process, with and without contacts made of the prospects, and beside it the bare statements
 * that write unlocks and contacts, in a loop. Every measurement is a fresh customer's, without lists.
 */
export async function benchUnlock(rounds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const config = parseConfig({ LOG_LEVEL: 'silent', RATE_LIMITS: 'off', OVERLOAD_MS: '0' });
  const db = openDatabase(config, server.serviceUrl);
  const catalog = openCatalog(config, db);
  const app = buildApp({ config, db, catalog });
  await app.ready();
  const everyone = [...generatePeople(people, 1)];
  for (let from = 0; from < people; from += 1_000) await writePeople(catalog, everyone.slice(from, from + 1_000));
  await catalog.finish();
  const best = everyone.toSorted((a, b) => b.score - a.score).slice(0, most);
  const worker = await startServer(['src/cli.ts', 'work', '--json'], {
    DATABASE_URL: server.serviceUrl,
    LOG_LEVEL: 'error',
  });
  const customerWithCredits = async () => {
    const customer = await makeCustomer(app);
    await grant(app, customer.id, 'subscription', most);
    return customer;
  };
  const unlock = (sync_crm: boolean) => async () => unlocksASecond(owner, await customerWithCredits(), sync_crm);
  const rates = await alternate(rounds, {
    'unlock with sync_crm': unlock(true),
    'unlock without': unlock(false),
    'unlocks and contacts in a bare loop': async () => bareASecond(db, (await makeCustomer(app)).id, best),
  });
  for (const [name, rate] of Object.entries(rates))
    process.stdout.write(`  ${name.padEnd(40)}${Math.round(rate)} prospects/s\n`);
  await worker.stop();
  await app.close();
  await catalog.close();
  await db.close();
  await owner.end({ timeout: 1 });
  await server.close();
}

/** By the database's clock, from the job's first turn to its end. */
async function unlocksASecond(owner: postgres.Sql, customer: TestCustomer, sync_crm: boolean): Promise<number> {
  const { body } = await customer.post('/service-handler/unlock-contacts', {
    filters: {},
    total_records: most,
    sync_crm,
  });
  for (;;) {
    const [job] = await owner<{ rate: number | null; status: string }[]>`
      select status, succeeded / extract(epoch from finished_at - started_at)::float8 as rate
      from jobs
      where id = ${body.id}`;
    if (job!.rate !== null && job!.status === 'COMPLETED') return job!.rate;
    if (job!.rate !== null) throw new Error(`the job is ${job!.status}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function bareASecond(db: Database, customerId: string, prospects: Prospect[]): Promise<number> {
  const start = performance.now();
  for (let from = 0; from < prospects.length; from += batchSize) {
    const batch = prospects.slice(from, from + batchSize);
    await db.transaction(async (sql) => {
      await insertUnlocks(
        sql,
        customerId,
        batch.map(({ _id }) => _id),
      );
      await syncProspects(sql, customerId, batch);
    });
  }
  return prospects.length / ((performance.now() - start) / 1000);
}
