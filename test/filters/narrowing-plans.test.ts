import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase, type SharedDatabase } from '../../src/database/db.ts';
import { contactSource } from '../../src/filters/columns.ts';
import {
  candidateCountClauses,
  candidatePageClauses,
  countClauses,
  newestPageClauses,
  pageClauses,
} from '../../src/filters/page-clauses.ts';
import { parseRecordQuery, type ListRequest } from '../../src/filters/parse.ts';
import type { GivenFilters } from '../../src/schemas/filters.ts';
import { record, recorder, type Fragment } from '../../src/filters/sql.ts';
import { indexRecords } from '../../src/jobs/workers.ts';
import { fillForQuestions } from '../../bench/questions-data.ts';
import { createDatabase, type TestDatabase } from '../setup/database.ts';
import { readingsOf, type PlanNode } from '../setup/watched-plans.ts';

// How many rows the questions of `make bench ONLY=questions` read, with the planner's settings of the search lane.

let database: TestDatabase;
let db: SharedDatabase;
let sql: postgres.Sql;
const tenants = [12_000, 6_000, 300].map((contacts) => ({ id: randomUUID(), contacts }));

beforeAll(async () => {
  database = await createDatabase();
  sql = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  db = openDatabase(parseConfig({}), database.url);
  for (const { id } of tenants) await sql`insert into customers (id, business_name) values (${id}, 'Tenant')`;
  await fillForQuestions(sql, tenants);
  await indexRecords({ db, stopping: new AbortController().signal }, 600_000);
  await sql`vacuum analyze contacts, companies`;
}, 300_000);
afterAll(async () => {
  await db.close();
  await sql.end({ timeout: 1 });
  await database.drop();
});

const rowsRead = (statement: Fragment): Promise<{ sequential: string[]; rows: number }> =>
  db.search(async (search) => {
    const { text, parameters } = record(statement);
    const [row] = await search.unsafe(`explain (analyze, format json) ${text}`, parameters as string[]);
    return readingsOf((row!['QUERY PLAN'] as { Plan: PlanNode }[])[0]!.Plan);
  });

const page = (clauses: typeof candidatePageClauses, id: string, request: ListRequest): Fragment => {
  const { from, where, orderBy, limit } = clauses(recorder, parseRecordQuery(contactSource, id, request));
  return recorder`select c.*, co.company_name from ${from} where ${where} order by ${orderBy} limit ${limit}`;
};

/** Number of companies of the first customer. The planner reads so few all: it takes no longer than to look up a term. */
const companies = 12_000 / 25;

/** Filters that few contacts pass or none, and how many rows of contacts and companies they may read. */
const rare: [string, GivenFilters, number][] = [
  ['a custom field', { 'custom_fields.external_id': 'ext-77' }, 20],
  ['a value that nobody has', { job_title: 'Astronaut' }, 0],
  ['a value that is common among others', { industry: 'Shipping' }, 0],
  ['a search for one', { search: 'p4001@' }, 40 + companies],
  ['a search of two words for one', { search: 'p4001 example' }, 1_000 + 3 * companies],
  ['a search for nobody', { search: 'xyzzy plugh' }, 3 * companies],
  ['a search of two words that only company names have, each half of these', { search: 'works group' }, 3 * companies],
  ['a part of a name', { first_name: { contains: 'qqq' } }, 0],
  ['a part of a company', { 'company.company_name': { contains: 'qqq' } }, 0],
  ['punctuation', { job_title: { contains: '%_%' } }, 0],
  ['alternatives', { _or: [{ job_title: 'Astronaut' }, { search: 'xyzzy' }, { external_id: 'none' }] }, companies],
];

describe.each(rare)('%s', (_, filters, most) => {
  test('reads only the contacts that pass, in any order, and to count them', async () => {
    const { id } = tenants[0]!;
    for (const order_by of [undefined, { last_name: 'ASC' }, { job_title: 'DESC' }]) {
      const request = { filters, ...(order_by ? { order_by } : {}) };
      const { sequential, rows } = await rowsRead(page(candidatePageClauses, id, request));
      expect(sequential).not.toContain('contacts'); // there are too few companies here for an index
      expect(rows).toBeLessThanOrEqual(most);
    }
    const { from, where } = candidateCountClauses(recorder, parseRecordQuery(contactSource, id, { filters }));
    const { rows } = await rowsRead(recorder`select count(*) from ${from} where ${where}`);
    expect(rows).toBeLessThanOrEqual(most);
  });

  test('reads the newest contacts in their order', async () => {
    for (const { id } of tenants) {
      const { sequential, rows } = await rowsRead(page(newestPageClauses, id, { filters }));
      expect(sequential).not.toContain('contacts'); // there are too few companies here for an index
      expect(rows).toBeLessThanOrEqual(2 * 5_000);
    }
  });
});

/** Half of the companies have the word `works` in their names, one has `123`, a tenth have `timber`. */
test.each([
  'p4001 works',
  'grace works',
  'grace 123',
  'ada group 123',
  'p40 timber works',
  'xyzzy works',
  'grace xyzzy',
])(
  'a search for %s finds the same contacts as without an index, however many companies have a word',
  async (search) => {
    const { id } = tenants[0]!;
    const query = { filters: { search } };
    const found = async (clauses: typeof candidatePageClauses, request: ListRequest) => {
      const { text, parameters } = record(page(clauses, id, request));
      return (await sql.unsafe(text, parameters as string[])).map((row) => row['id']);
    };
    for (const paginate of [{ limit: 100 }, { limit: 3, page: 2 }])
      expect(await found(candidatePageClauses, { ...query, paginate })).toEqual(
        await found(pageClauses, { ...query, paginate }),
      );
    const counted = async (clauses: typeof candidateCountClauses) => {
      const { from, where } = clauses(recorder, parseRecordQuery(contactSource, id, query));
      const { text, parameters } = record(recorder`select count(*) from ${from} where ${where}`);
      return sql.unsafe(text, parameters as string[]);
    };
    expect(await counted(candidateCountClauses)).toEqual(await counted(countClauses));
  },
);

test('a page that the newest contacts fill reads no more of them than it needs, of a customer of any size', async () => {
  for (const { id } of tenants) {
    const { sequential, rows } = await rowsRead(page(newestPageClauses, id, { filters: { industry: 'Software' } }));
    expect(sequential).toEqual([]);
    expect(rows).toBeLessThanOrEqual(20 * 25);
  }
});

test('several values read only the contacts that have them, of a customer of any size', async () => {
  for (const { id, contacts } of tenants)
    for (const values of [2, 20, 100]) {
      const some = Array.from({ length: values }, (_, i) => `ext-${1 + ((i * 7) % contacts)}`);
      const filters = { 'custom_fields.external_id': some };
      const { rows } = await rowsRead(page(candidatePageClauses, id, { filters }));
      expect(rows).toBeLessThanOrEqual(3 * values);
      const { from, where } = candidateCountClauses(recorder, parseRecordQuery(contactSource, id, { filters }));
      expect((await rowsRead(recorder`select count(*) from ${from} where ${where}`)).rows).toBeLessThanOrEqual(
        2 * values,
      );
    }
});
