import { totalmem } from 'node:os';
import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type Database } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import type { Outcome } from '../src/queries/records/batches.ts';
import { contactWrites } from '../src/queries/crm/record-batches.ts';
import { blank, contactRow, patchedContact } from '../src/queries/crm/contacts.ts';
import { withDeferredWrites } from '../src/queries/records/deferred-writes.ts';
import { createList } from '../src/queries/crm/lists.ts';
import { dbOf, makeCustomer, type TestCustomer } from '../test/setup/factories.ts';
import { copy as copyOut, figures, readPages, timed, type Figures } from './exports.ts';
import { listsWithRules, ruleset } from './lists.ts';
import { inTurn, median, startServer, type Server } from './run.ts';
import { addTotals } from '../test/setup/journal.ts';

/** Number of records that one measurement writes, and that one export reads. */
const written = 10_000;
const exported = 50_000;
const batchSize = 1_000;
/** Number of callers that send batches at the same time. */
const callers = 2;

type Item = Record<string, unknown>;

/**
 * Batches of 1,000 contacts, and an export, over HTTP. Compares them with the same statements in a loop without HTTP,
 * and with PostgreSQL's `COPY` of the same rows. All runs beside a customer's contacts that have search terms.
 * @param contacts how many contacts that customer has
 */
export async function benchBulk(contacts: number, rounds: number): Promise<void> {
  const sharedBuffers = `${Math.floor(totalmem() / 4 / 1024 ** 2)}MB`; // as docs/operating.md says
  const server = await openThrowawayPostgres({ shared_buffers: sharedBuffers });
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const [plain, listed, other] = [await makeCustomer(app), await makeCustomer(app), await makeCustomer(app)];
  const owner = postgres(server.ownerUrl, { max: callers, onnotice: () => {} });
  await fill(owner, [
    [plain.id, contacts],
    [other.id, exported],
  ]);
  await makeLists(dbOf(app), listed);
  const service = await startServer(['src/cli.ts', 'serve', '--json'], {
    DATABASE_URL: server.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'warn',
    OVERLOAD_MS: '0',
    RATE_LIMITS: 'off',
  });

  const people = numbers(contacts + exported);
  const known: string[] = [];
  const create = (customer: TestCustomer, write: Write) => () =>
    measure(service, async () => {
      const ids = await inBatches(numbered(people), (items) => write(customer, 'create', items));
      if (customer === plain) known.push(...ids);
    });
  const change = (write: Write) => () =>
    measure(service, () =>
      inBatches(
        known.splice(0, written).map((id) => ({ id, job_title: `Title ${id.slice(-5)}` })),
        (items) => write(plain, 'update', items),
      ),
    );
  const [bare, http] = [inLoop(dbOf(app)), overHttp(service)];
  const results = await inTurn(rounds, {
    'COPY of new records': () => timed(copyOf(owner, plain.id, numbered(people))),
    'new, loop': create(plain, bare),
    new: create(plain, http),
    'changed, loop': change(bare),
    changed: change(http),
    'new, 13 rule lists, loop': create(listed, bare),
    'new, 13 rule lists': create(listed, http),
    'COPY to export': () => timed(() => copyOut(owner, other.id)),
    'export, loop': () => timed(() => readPages(dbOf(app), other.id)),
    export: () => figures(service, other.key, { format: 'csv' }),
  });
  print(contacts, rounds, results);

  await service.stop();
  await owner.end({ timeout: 1 });
  await app.close();
  await db.close();
  await server.close();
}

/** Sends a batch for a customer. Returns the ids of its records, which must all be written. */
type Write = (customer: TestCustomer, operation: 'create' | 'update', items: Item[]) => Promise<string[]>;

const inLoop =
  (db: Database): Write =>
  async ({ id }, operation, items) => {
    const batch = { operation, match: 'id', isAtomic: false, items } as const;
    return idsOf(
      await db.transaction((sql) =>
        withDeferredWrites(sql, id, (deferred) => contactWrites.write(sql, id, batch, deferred)),
      ),
    );
  };

const overHttp =
  ({ url }: Server): Write =>
  async ({ key }, operation, items) => {
    const answer = await fetch(`${url}/api/ext/contacts/batch/${operation}`, {
      method: 'POST',
      headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ items }),
    });
    if (!answer.ok) throw new Error(`a batch was answered with ${answer.status}: ${await answer.text()}`);
    return idsOf(((await answer.json()) as { data: { results: Outcome[] } }).data.results);
  };

const idsOf = (outcomes: readonly Outcome[]): string[] =>
  outcomes.map((outcome) => {
    if (outcome.status === 'failed') throw new Error(`an item failed: ${JSON.stringify(outcome.error)}`);
    if (outcome.status === 'unchanged') throw new Error('an item changed nothing');
    return outcome.id;
  });

/** Sends all items in batches, by several callers at once. Returns the results of all batches. */
async function inBatches(items: Item[], send: (items: Item[]) => Promise<string[]>): Promise<string[]> {
  const results: string[] = [];
  const batches = Array.from({ length: Math.ceil(items.length / batchSize) }, (_, i) =>
    items.slice(i * batchSize, (i + 1) * batchSize),
  ).values();
  const caller = async () => {
    for (const batch of batches) results.push(...(await send(batch)));
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return results;
}

async function measure(service: Server, work: () => Promise<unknown>): Promise<Figures> {
  const before = await service.cpu();
  const { ms } = await timed(work);
  return { ms, cpu: (await service.cpu()) - before };
}

function* numbers(from: number): Generator<number, never> {
  for (let n = from; ; n += 1) yield n;
}

/** Returns the next people as items of a batch. */
const numbered = (people: Generator<number, never>): Item[] =>
  Array.from({ length: written }, () => personOf(people.next().value));

/** Returns the person of a number, as the body that creates a contact. Values are unequally frequent, as in life. */
const personOf = (n: number): Item => ({
  first_name: `First${n % 977}`,
  last_name: `Last${n % 7919}`,
  work_email: `person${n}@company${n % 4001}.example`,
  job_title: ['Engineer', 'Analyst', 'Sales Manager', 'Director', 'Clerk'][n % 5],
  industry: ['Software', 'Logistics', 'Retail', 'Energy', 'Banking', 'Food', 'Media'][n % 7],
  location_country: ['DE', 'US', 'FR', 'GB', 'SE', 'PL', 'BR', 'IT', 'ES', 'NL', 'JP'][n % 11],
  location_locality: 'Berlin',
  profnet_url: `https://example.com/in/${n}`,
  phone_numbers: [{ country_code: '+49', number: `30${n}` }],
  custom_fields: { plan: 'gold' },
});

/** Stores contacts of customers as the service would. The index of search terms is built afterwards, which is faster. */
async function fill(owner: postgres.Sql, customers: [id: string, count: number][]): Promise<void> {
  const [index] = await owner<[{ indexdef: string }]>`
    select indexdef from pg_indexes where indexname = 'contacts_terms'`;
  await owner`drop index contacts_terms`;
  let n = 0;
  for (const [id, count] of customers) {
    for (let left = count; left > 0; left -= written)
      await copyOf(
        owner,
        id,
        Array.from({ length: Math.min(left, written) }, () => personOf(n++)),
      )();
    await addTotals(owner, id, { contacts: count });
  }
  await owner.begin(async (sql) => {
    await sql`set local maintenance_work_mem = '1GB'`;
    await sql.unsafe(index.indexdef);
  });
  await owner`vacuum analyze contacts`;
}

/** Returns the function that writes contacts with `COPY`, by as many connections as there are callers. */
function copyOf(owner: postgres.Sql, customerId: string, items: readonly Item[]): () => Promise<void> {
  const rows = items.map((item) => contactRow(customerId, patchedContact(blank, item, null, new Map())));
  const columns = Object.keys(rows[0]!) as (keyof (typeof rows)[number])[];
  const lines = rows.map((row) => `${customerId}\t${columns.map((name) => copied(row[name])).join('\t')}\n`);
  const share = Math.ceil(lines.length / callers);
  const texts = Array.from({ length: callers }, (_, i) => lines.slice(i * share, (i + 1) * share).join(''));
  const copyText = async (text: string) => {
    const target = await owner.unsafe(`copy contacts (customer_id, ${columns.join(', ')}) from stdin`).writable();
    await new Promise<void>((resolve, reject) => {
      target.on('error', reject).on('finish', resolve);
      target.end(text);
    });
  };
  return async () => void (await Promise.all(texts.map(copyText)));
}

/** Returns a value in the text format of COPY. */
const copied = (value: unknown): string => {
  if (value === null || value === undefined) return String.raw`\N`;
  return (typeof value === 'string' ? value : JSON.stringify(value)).replace(/\\/g, String.raw`\\`);
};

async function makeLists(db: Database, { id, adminId }: TestCustomer): Promise<void> {
  for (let i = 0; i < listsWithRules; i += 1)
    await db.transaction((sql) => createList(sql, id, adminId, { name: `List ${i}`, rules: ruleset(i) }));
}

function print(contacts: number, rounds: number, results: Record<string, Figures[]>): void {
  const milliseconds = (name: string): number => median(results[name]!.map(({ ms }) => ms));
  const ratio = (ms: number, name: string): string =>
    results[name] === undefined ? '' : (milliseconds(name) / ms).toFixed(2);
  process.stdout.write(`\nbeside ${contacts.toLocaleString('en')} contacts, ${rounds} rounds\n`);
  process.stdout.write(`${''.padEnd(28)}records/s   of COPY   of the loop   service: µs of CPU a record\n`);
  for (const [name, all] of Object.entries(results)) {
    const [ms, isExport] = [milliseconds(name), name.includes('export')];
    const records = isExport ? exported : written;
    const cpu = name.endsWith('loop') ? undefined : all[0]!.cpu;
    const columns = [
      String(Math.round((records / ms) * 1_000)).padEnd(12),
      ratio(ms, isExport ? 'COPY to export' : 'COPY of new records').padEnd(10),
      (name.endsWith('loop') ? '' : ratio(ms, `${name}, loop`)).padEnd(14),
      cpu === undefined ? '' : (median(all.map((one) => one.cpu!)) / records).toFixed(1),
    ];
    process.stdout.write(`  ${name.padEnd(26)}${columns.join('')}\n`);
  }
}
