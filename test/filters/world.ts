import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import postgres from 'postgres';
import { openDatabase, type SharedDatabase } from '../../src/database/db.ts';
import { companySource, contactSource, foldRecord, type Source } from '../../src/filters/columns.ts';
import { parseConfig } from '../../src/process/config.ts';
import { searchColumnsOf } from '../../src/filters/to-sql.ts';
import type { SearchColumns } from '../../src/filters/to-sql.ts';
import { verificationStatuses } from '../../src/schemas/verification.ts';
import { atEnd } from '../setup/at-end.ts';
import { createDatabase } from '../setup/database.ts';
import { customValues } from './arbitraries.ts';
import type { WireRecord, World } from './evaluator.ts';
import { emails, externalIds, folded, instants, longTexts, texts } from './pools.ts';

/** The database of a test file with random records, and the kinds of records in it. */
export interface Stored {
  db: SharedDatabase;
  random: RandomWorld;
  kinds: [string, Kind][];
}

/** A kind of records, and the random ones of this kind. */
export interface Kind {
  source: Source;
  records: WireRecord[];
  world: World;
}

/** Stores 160 random contacts, and their companies, before the tests of the file. They are dropped after the tests. */
export async function storeWorld(seed: number): Promise<Stored> {
  const database = await createDatabase();
  const db = openDatabase(parseConfig({}), database.url);
  atEnd(async () => {
    await db.close();
    await database.drop();
  });
  const random = await makeWorld(database.ownerUrl, seed, 160);
  const contacts = { source: contactSource, records: random.contacts, world: random.world };
  const companies = { source: companySource, records: random.companies, world: random.companyWorld };
  const kinds: Stored['kinds'] = [
    ['contacts', contacts],
    ['companies', companies],
  ];
  return { db, random, kinds };
}

/** Random records of one customer: stored in the database, and kept here as responses show them. */
export interface RandomWorld {
  customerId: string;
  contacts: WireRecord[];
  companies: WireRecord[];
  world: World;
  companyWorld: World;
  /** Ids of contacts, companies, users and lists, and one id that does not exist. */
  ids: string[];
}

const text = fc.constantFrom(...texts.map(([given]) => given));
const email = fc.constantFrom(...emails.map(([given]) => given));
const instant = fc.constantFrom(...instants.map((one) => new Date(one.toUpperCase()).toISOString()));
const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { freq: 2 });
const hex = (length: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'.split('')), minLength: length, maxLength: length });

/** UUIDs version 7 from only a few different milliseconds, so that many records have the same time of creation. */
const recordId = fc.tuple(fc.constantFrom(0, 1, 2, 77, 86_400_000), hex(3), hex(3), hex(12)).map(([plus, a, b, c]) => {
  const time = (Date.parse('2026-01-01T00:00:00Z') + plus).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${a}-8${b}-${c}`;
});

const longText = fc.constantFrom(...longTexts.map(([given]) => given));

const customFields = fc.dictionary(
  fc.constantFrom('a', "it's", 'ключ'),
  fc.oneof({ weight: 6, arbitrary: customValues }, { weight: 1, arbitrary: longText }),
  { maxKeys: 3 },
);

const both = {
  id: recordId,
  industry: text,
  profnet_url: orNull(text),
  social1_url: orNull(text),
  social2_url: orNull(text),
  location_country: text,
  location_postal_code: orNull(text),
  verification_status: fc.constantFrom(...verificationStatuses),
  last_verified: orNull(instant),
  score: fc.integer({ min: 0, max: 3 }),
  custom_fields: customFields,
  updated_at: instant,
};

const company = fc.record({
  ...both,
  type: text,
  company_name: text,
  domain: orNull(fc.constantFrom('acme.de', 'shop.acme.de', 'acme.com', 'müller.de', 'muller.de')),
  size: text,
  location_locality: orNull(text),
  location_metro: orNull(text),
  location_region: orNull(text),
  location_street_address: orNull(text),
  location_address_line_2: orNull(text),
});

const contact = (companyIds: string[], userIds: string[]) =>
  fc.record({
    ...both,
    first_name: text,
    middle_name: orNull(text),
    last_name: text,
    gender: orNull(text),
    birth_year: orNull(fc.integer({ min: 0, max: 4 })),
    work_email: email,
    personal_email: orNull(email),
    other_emails: orNull(fc.array(email, { maxLength: 2 })),
    job_title: text,
    location_locality: text,
    location_region: text,
    mobile_phone: orNull(text),
    crm_synced_at: orNull(instant),
    removal_requested_at: orNull(instant),
    assigned_to: orNull(fc.constantFrom(...userIds)),
    company_id: orNull(fc.constantFrom(...companyIds)),
  });

// An alias, because an interface cannot be passed as a record of unknown fields.
type Identified = { external_id: string | null };
type CompanyRow = (typeof company extends fc.Arbitrary<infer T> ? T : never) & Identified;
type ContactRow = (ReturnType<typeof contact> extends fc.Arbitrary<infer T> ? T : never) & Identified;

/** Gives some of the records an `external_id`, each another one. */
const identified = <T>(rows: T[]): (T & Identified)[] =>
  rows.map((row, i) => ({ ...row, external_id: i % 2 === 0 ? (externalIds[i / 2] ?? null) : null }));

/** Creates the random records in the database, and records of another customer that no query may return. */
async function makeWorld(ownerUrl: string, seed: number, count: number): Promise<RandomWorld> {
  const customerId = randomUUID();
  const lists = [randomUUID(), randomUUID(), randomUUID()];
  const sql = postgres(ownerUrl, { max: 1, onnotice: () => {} });
  try {
    const userIds = await insertUsers(sql, customerId);
    const companies = identified(fc.sample(company, { numRuns: Math.ceil(count / 4), seed }));
    const companyIds = companies.map(({ id }) => id);
    const contacts = identified(fc.sample(contact(companyIds, userIds), { numRuns: count, seed }));
    const alone = contacts.slice(0, 9).map((one) => ({ ...one, company_id: null, assigned_to: null }));
    await insertRecords(sql, customerId, companies, contacts);
    await insertRecords(sql, randomUUID(), companies.slice(0, 9), alone);
    const members = await insertMembers(sql, { customerId, owner: userIds[0]! }, lists, contacts);
    return {
      customerId,
      companies: companies.map(shown),
      contacts: contacts.map((one) => shownContact(one, companies)),
      world: { lists: members, searched: searchedOfContact },
      companyWorld: { lists: new Map(), searched: ({ company_name }) => [foldedForm(company_name as string)] },
      ids: [...companyIds, ...contacts.slice(0, 20).map(({ id }) => id), ...userIds, ...lists, randomUUID()],
    };
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function insertUsers(sql: postgres.Sql, customerId: string): Promise<string[]> {
  await sql`insert into customers (id, business_name) values (${customerId}, 'Random')`;
  const users = ['ada', 'zoe'].map((name) => {
    const email = `${name}@${customerId}.example`;
    return { customer_id: customerId, email, email_folded: email, name, role: 'member', password_hash: '' };
  });
  return (await sql<{ id: string }[]>`insert into users ${sql(users)} returning id`).map(({ id }) => id);
}

async function insertRecords(
  sql: postgres.Sql,
  customer_id: string,
  companies: CompanyRow[],
  contacts: ContactRow[],
): Promise<void> {
  const encoded = <T extends CompanyRow | ContactRow>(row: T, { folded, terms }: SearchColumns) => ({
    ...row,
    customer_id,
    custom_fields: sql.json(row.custom_fields),
    folded: sql.json(folded),
    terms,
  });
  // Every fourth record looks as if an older program had changed it: it has the terms of a version before.
  const isOld = (i: number) => i % 4 === 3;
  const companyColumns = (row: CompanyRow, i: number): SearchColumns =>
    isOld(i)
      ? { folded: foldRecord(companySource, row), terms: `{${i}}` }
      : searchColumnsOf(companySource, customer_id, row);
  const contactColumns = (row: ContactRow, i: number): SearchColumns =>
    isOld(i)
      ? { folded: foldRecord(contactSource, row), terms: `{${i}}` }
      : searchColumnsOf(contactSource, customer_id, row);
  if (companies.length > 0)
    await sql`insert into companies ${sql(companies.map((row, i) => encoded(row, companyColumns(row, i))))}`;
  await sql`insert into contacts ${sql(contacts.map((row, i) => encoded(row, contactColumns(row, i))))}`;
}

/** Which contacts match the rules of the second and third list. The first has no rules. */
const rulesOfLists: { rules: object[]; matches: (contact: ContactRow) => boolean }[] = [
  { rules: [], matches: () => false },
  {
    rules: [{ field: 'birth_year', operator: 'is_empty', value: '', logic_operator: 'AND' }],
    matches: ({ birth_year }) => birth_year === null,
  },
  {
    rules: [{ field: 'score', operator: 'greater_than', value: '1', logic_operator: 'AND' }],
    matches: ({ score }) => score > 1,
  },
];

/** Adds every contact by hand to none, one or several of the three lists. Returns the lists of each, also by rules. */
async function insertMembers(
  sql: postgres.Sql,
  { customerId, owner }: { customerId: string; owner: string },
  lists: string[],
  contacts: ContactRow[],
): Promise<Map<string, string[]>> {
  const chosen = new Map(contacts.map(({ id }, i) => [id, lists.filter((_, j) => (i >> j) % 2 === 0)]));
  const rows = [...chosen].flatMap(([contact_id, ids]) =>
    ids.map((list_id) => ({ customer_id: customerId, list_id, contact_id })),
  );
  const made = lists.map((id, i) => ({
    customer_id: customerId,
    id,
    name: 'List',
    owner_id: owner,
    rules: sql.json(rulesOfLists[i]!.rules as never),
  }));
  await sql`insert into lists ${sql(made)}`;
  await sql`insert into list_members ${sql(rows)}`;
  const byRule = (contact: ContactRow) => lists.filter((_, j) => rulesOfLists[j]!.matches(contact));
  return new Map(
    contacts.map((contact) => [contact.id, [...new Set([...chosen.get(contact.id)!, ...byRule(contact)])]]),
  );
}

function shown(row: CompanyRow | ContactRow): WireRecord {
  const created_at = new Date(Number.parseInt(row.id.replace('-', '').slice(0, 12), 16)).toISOString();
  return { ...row, created_at, last_verified: row.last_verified ?? created_at };
}

function shownContact({ company_id, ...row }: ContactRow, companies: CompanyRow[]): WireRecord {
  const { company_name = '', industry = '' } = companies.find(({ id }) => id === company_id) ?? {};
  return { ...shown({ ...row, company_id }), company: { id: company_id, company_name, industry } };
}

const foldedForm = (given: string): string => folded.get(given)!;

const searchedOfContact = (contact: WireRecord): string[] => {
  const { company_name } = contact['company'] as { company_name: string };
  const names = ['first_name', 'middle_name', 'last_name', 'work_email', 'personal_email', 'other_emails'];
  return [company_name, ...names.flatMap((name) => (contact[name] ?? []) as string | string[])].map(foldedForm);
};
