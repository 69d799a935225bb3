import { totalmem } from 'node:os';
import type { Database } from '../src/database/db.ts';
import { countContacts, listContacts } from '../src/queries/crm/contacts.ts';
import { contactWrites } from '../src/queries/crm/record-batches.ts';
import type { GivenFilters, GivenOrder } from '../src/schemas/filters.ts';
import { milliseconds } from './dependants.ts';
import { importFile, startService } from './importing.ts';
import { fileOf, type People } from './questions-file.ts';
import { median } from './run.ts';

type Ask = (db: Database, customerId: string) => Promise<unknown>;

const list =
  (filters: GivenFilters, order_by?: GivenOrder): Ask =>
  (db, id) =>
    listContacts(db, id, { filters, ...(order_by ? { order_by } : {}) });
const count =
  (filters: GivenFilters): Ask =>
  (db, id) =>
    countContacts(db, id, { filters });

const questions: Record<string, Ask> = {
  'newest 25': list({}),
  'equal, common value': list({ location_country: 'DE' }),
  'three common filters': list({ location_country: 'de', industry: 'software', 'custom_fields.plan': 'gold' }),
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
  'ordered by job title': list({}, { job_title: 'ASC' }),
  'updated since': list({ updated_at: { gte: '2100-01-01T00:00:00Z' } }),
  'count, search, nobody': count({ search: 'xyzzy' }),
  'count, equal, one in eleven': count({ location_country: 'DE' }),
};

/** PostgreSQL's cache: about a quarter of the memory of the machine, as docs/operating.md says. */
const sharedBuffers = `${Math.floor(totalmem() / 4 / 1024 ** 2)}MB`;

/**
 * Filters of contacts: milliseconds of one caller, for customers with different numbers of contacts and companies in one
 * database, which were loaded by imports. Asks just after the load, and again with fresh statistics. Also the rate of
 * creates.
 * @param others number of further customers, each with 50,000 contacts
 */
export async function benchQuestions(asked: People[], others: number, rounds: number): Promise<void> {
  const service = await startService({ shared_buffers: sharedBuffers });
  for (let i = 0; i < others; i += 1) {
    const { key } = await service.customer();
    await importFile(
      service.serve,
      key,
      { mode: 'create' },
      fileOf({ contacts: 50_000, companies: 2_000, isShipping: true }),
    );
  }
  const ids: string[] = [];
  const first: Medians[] = [];
  for (const people of asked) {
    const { id, key } = await service.customer();
    const { workMs } = await importFile(service.serve, key, { mode: 'create' }, fileOf(people));
    process.stdout.write(
      `  ${named(people)}: imported at ${Math.round((people.contacts * 1_000) / workMs)} records/s\n`,
    );
    ids.push(id);
    first.push(await measure(service.db, id, rounds));
  }
  await service.owner`vacuum analyze`;
  const later: Medians[] = [];
  for (const id of ids) later.push(await measure(service.db, id, rounds));
  process.stdout.write(`\n  ms, just after the load → with fresh statistics\n`);
  process.stdout.write(`  ${''.padEnd(34)}${asked.map((people) => named(people).padStart(24)).join('')}\n`);
  for (const name of Object.keys(questions)) {
    const columns = ids.map((_, i) => `${shown(first[i]![name]!)} → ${shown(later[i]![name]!)}`.padStart(24));
    process.stdout.write(`  ${name.padEnd(34)}${columns.join('')}\n`);
  }
  const creates = await createsPerSecond(service.db, ids[0]!, 2_000);
  process.stdout.write(`  creates one by one: ${Math.round(creates.rate)}/s, p99 ${shown(creates.p99)} ms\n`);
  await service.stop();
}

const named = ({ contacts, companies }: People): string =>
  `${contacts.toLocaleString('en')} / ${companies.toLocaleString('en')}`;

const shown = (ms: number): string => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));

/** The median of each question's times (ms). */
type Medians = Record<string, number>;

async function measure(db: Database, customerId: string, rounds: number): Promise<Medians> {
  const medians: Medians = {};
  for (const [name, ask] of Object.entries(questions)) {
    await ask(db, customerId);
    const times: number[] = [];
    for (let i = 0; i < rounds; i += 1) times.push(await milliseconds(() => ask(db, customerId)));
    medians[name] = median(times);
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
    times.push(await milliseconds(() => db.transaction((sql) => contactWrites.create(sql, customerId, fields))));
  }
  const total = times.reduce((sum, one) => sum + one, 0);
  return { rate: (number * 1_000) / total, p99: times.toSorted((a, b) => a - b)[Math.floor(number * 0.99)]! };
}
