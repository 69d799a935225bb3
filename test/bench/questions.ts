import { totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseConfig } from '../../src/config.ts';
import { openDatabase, type Database } from '../../src/database/db.ts';
import { migrate } from '../../src/database/migrate.ts';
import { openEmbeddedPostgres } from '../../src/embedded-postgres/server.ts';
import { indexRecords } from '../../src/jobs/index-records.ts';
import { countContacts, createContact, listContacts } from '../../src/queries/contacts.ts';
import { milliseconds } from './companies.ts';
import { fillForQuestions } from './questions-data.ts';
import { median } from './run.ts';

type Ask = (db: Database, customerId: string) => Promise<unknown>;

const list =
  (filters: Record<string, unknown>, order_by?: Record<string, string>): Ask =>
  (db, id) =>
    listContacts(db, id, { filters, ...(order_by ? { order_by } : {}) });
const count =
  (filters: Record<string, unknown>): Ask =>
  (db, id) =>
    countContacts(db, id, { filters });

const questions: Record<string, Ask> = {
  'newest 25': list({}),
  'equal, common value': list({ location_country: 'DE' }),
  'three common filters': list({ location_country: 'de', industry: 'software', score: { gte: 50 } }),
  'custom_fields.external_id equal': list({ 'custom_fields.external_id': 'ext-4001' }),
  'equal, a value that nobody has': list({ job_title: 'Astronaut' }),
  'equal, a value common elsewhere': list({ industry: 'Shipping' }),
  '100 values': list({ 'custom_fields.external_id': Array.from({ length: 100 }, (_, i) => `ext-${i * 7}`) }),
  'search, one word, one match': list({ search: 'p4001@' }),
  'search, two words, few match': list({ search: 'grace p4001' }),
  'search, nobody': list({ search: 'xyzzy' }),
  'search, company name': list({ search: 'nordic textiles' }),
  'search, Japanese': list({ search: '田中太郎' }),
  'contains on last name': list({ last_name: { contains: 'ldtonius' } }),
  'contains on company name': list({ 'company.company_name': { contains: 'works 234' } }),
  'contains, punctuation only': list({ job_title: { contains: '%_%' } }),
  alternatives: list({ _or: [{ last_name: 'nobody' }, { search: 'xyzzy' }, { 'custom_fields.external_id': 'ext-5' }] }),
  'search, by last name': list({ search: 'p4001' }, { last_name: 'ASC' }),
  'count, search, nobody': count({ search: 'xyzzy' }),
  'count, equal, one in eleven': count({ location_country: 'DE' }),
};

/** PostgreSQL's cache: about a quarter of the memory of the machine, as docs/operating.md says. */
const sharedBuffers = `${Math.floor(totalmem() / 4 / 1024 ** 2)}MB`;

/**
 * Filters of contacts: milliseconds of one caller, for customers with different numbers of contacts in one database,
 * before the contacts have search terms and after. Also the rate of creates.
 */
export async function benchQuestions(sizes: number[], others: number, rounds: number): Promise<void> {
  const server = await openEmbeddedPostgres('', { throwaway: true, settings: { shared_buffers: sharedBuffers } });
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const db = openDatabase(parseConfig({ STATEMENT_TIMEOUT_MS: '600000' }), server.serviceUrl);
  const contacts = [...sizes, ...Array.from({ length: others }, () => 50_000)];
  const customers = await owner<{ id: string }[]>`
    insert into customers (business_name) select 'Customer ' || n from generate_series(1, ${contacts.length}::int) n returning id`;
  await fillForQuestions(
    owner,
    customers.map(({ id }, i) => ({ id, contacts: contacts[i]! })),
  );
  await owner`vacuum analyze contacts, companies`;
  const asked = customers.slice(0, sizes.length).map(({ id }) => id);
  const before = await measure(db, asked, rounds);
  const context = { db, stopping: new AbortController().signal };
  const took = await milliseconds(() => indexRecords(context, 24 * 3_600_000));
  process.stdout.write(`  terms were added in ${Math.round(took / 1000)} s\n`);
  await owner`vacuum analyze contacts, companies`;
  await sleep(1_000);
  const after = await measure(db, asked, rounds);
  process.stdout.write(`  ${''.padEnd(34)}${sizes.map((size) => size.toLocaleString('en').padStart(24)).join('')}\n`);
  for (const name of Object.keys(questions)) {
    const columns = asked.map((_, i) => `${shown(before[name]![i]!)} → ${shown(after[name]![i]!)}`.padStart(24));
    process.stdout.write(`  ${name.padEnd(34)}${columns.join('')}\n`);
  }
  const creates = await createsPerSecond(db, asked[0]!, 2_000);
  process.stdout.write(`  creates one by one: ${Math.round(creates.rate)}/s, p99 ${shown(creates.p99)} ms\n`);
  await db.close();
  await owner.end({ timeout: 1 });
  await server.close();
}

const shown = (ms: number): string => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));

/** Medians in milliseconds of each question, for each customer. */
async function measure(db: Database, customers: string[], rounds: number): Promise<Record<string, number[]>> {
  const medians: Record<string, number[]> = {};
  for (const [name, ask] of Object.entries(questions)) {
    medians[name] = [];
    for (const id of customers) {
      await ask(db, id);
      const times: number[] = [];
      for (let i = 0; i < rounds; i += 1) times.push(await milliseconds(() => ask(db, id)));
      medians[name].push(median(times));
    }
  }
  return medians;
}

/** Creates contacts by one caller after the other. */
async function createsPerSecond(db: Database, customerId: string, number: number) {
  const times: number[] = [];
  for (let i = 0; i < number; i += 1) {
    const fields = {
      first_name: `Grace ${i}`,
      last_name: `Hopper ${i % 77}`,
      work_email: `grace${i}@navy.example`,
      job_title: 'Rear Admiral',
      industry: 'Software',
      location_locality: 'Arlington',
      phone_numbers: [],
      custom_fields: { external_id: `new-${i}`, plan: 'gold' },
    };
    times.push(await milliseconds(() => db.transaction((sql) => createContact(sql, customerId, fields))));
  }
  const total = times.reduce((sum, one) => sum + one, 0);
  return { rate: (number * 1_000) / total, p99: times.toSorted((a, b) => a - b)[Math.floor(number * 0.99)]! };
}
