import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase, type SharedDatabase } from '../../src/database/db.ts';
import { contactSource, fromOf } from '../../src/filters/columns.ts';
import { compileFilter, filteredColumns, type FilteredRecord } from '../../src/filters/matches.ts';
import { parseFilters } from '../../src/filters/parse.ts';
import { readRules, rulesFilter } from '../../src/filters/rules.ts';
import { toSql } from '../../src/filters/to-sql.ts';
import type { Filter } from '../../src/filters/tree.ts';
import type { FilterFields } from '../../src/schemas/filters.ts';
import { compareTexts } from '../../src/text/code-points.ts';
import { createDatabase, type TestDatabase } from '../setup/database.ts';
import { filtersOf, rulesOf } from './arbitraries.ts';
import { passes } from './evaluator.ts';
import { makeContacts, makeWorld, type RandomWorld } from './world.ts';

// The database, the compiled filter and the tests' own model must agree on every record.

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));

type Row = FilteredRecord & { id: string };

let database: TestDatabase;
let db: SharedDatabase;
let random: RandomWorld;
let rows: Row[];

beforeAll(async () => {
  database = await createDatabase();
  db = openDatabase(parseConfig({}), database.url);
  random = await makeWorld(database.ownerUrl, seed, 200);
  rows = await readRows(random.customerId);
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const readRows = (customerId: string): Promise<Row[]> =>
  db.search(
    (sql) => sql<Row[]>`
      select ${sql.unsafe(filteredColumns(contactSource))}
      from ${fromOf(sql, contactSource, customerId)}
      where c.customer_id = ${customerId}`,
  );

const idsByDatabase = async (filter: Filter, customerId = random.customerId): Promise<string[]> => {
  const found = await db.search(
    (sql) => sql<{ id: string }[]>`
      select c.id
      from ${fromOf(sql, contactSource, customerId)}
      where c.customer_id = ${customerId}
        and ${toSql(sql, contactSource, customerId, filter)}`,
  );
  return found.map(({ id }) => id).toSorted();
};

const idsByCompiled = (filter: Filter, among = rows): string[] =>
  among
    .filter(compileFilter(contactSource, filter))
    .map(({ id }) => id)
    .toSorted();

/** All fields that rules can use. */
const { list_id: _lists, search: _search, ...types } = contactSource.fields.types;
const fields: FilterFields = { ...contactSource.fields, types };

describe(`compiled filters (SEED=${seed})`, () => {
  test('pass exactly the contacts that the database and the model select', async () => {
    let matched = 0;
    await fc.assert(
      fc.asyncProperty(filtersOf(fields, random.ids), async (filters) => {
        const filter = parseFilters(contactSource.fields, filters);
        const meant = random.contacts.filter((contact) => passes(random.world, contact, filters));
        const ids = meant.map(({ id }) => id).toSorted();
        expect(await idsByDatabase(filter)).toEqual(ids);
        expect(idsByCompiled(filter)).toEqual(ids);
        if (ids.length > 0 && ids.length < rows.length) matched += 1;
      }),
      { numRuns: 600 },
    );
    expect(matched).toBeGreaterThan(100);
  });

  test('of rules pass exactly the contacts that the database selects', async () => {
    let matched = 0;
    await fc.assert(
      fc.asyncProperty(rulesOf(fields, random.ids), async (given) => {
        const { faults } = readRules(contactSource.fields, given);
        const wrong = new Set(faults.map(({ path }) => Number(path.split('/')[2])));
        const rules = given.flatMap((rule, i) => (wrong.has(i) ? [] : [{ logic_operator: 'AND' as const, ...rule }]));
        const filter = rulesFilter(contactSource.fields, rules);
        const ids = await idsByDatabase(filter);
        expect(idsByCompiled(filter)).toEqual(ids);
        if (ids.length > 0 && ids.length < rows.length) matched += 1;
      }),
      { numRuns: 800 },
    );
    expect(matched).toBeGreaterThan(100);
  });
});

test('a custom field may have the name of an inherited property', async () => {
  const { customerId } = await makeContacts(database.ownerUrl, ['a', 'b'], 'job_title');
  const custom = ['{"constructor": "Ada", "__proto__": 7, "toString": true}', '{}'];
  await db.transaction((sql) =>
    Promise.all(
      custom.map(
        (json, i) => sql`
          update contacts
          set custom_fields = ${json}::text::jsonb,
            folded = folded || ${i === 0 ? '{"custom_fields.constructor": "ada"}' : '{}'}::text::jsonb
          where customer_id = ${customerId}
            and job_title = ${['a', 'b'][i]!}`,
      ),
    ),
  );
  const contacts = await readRows(customerId);
  for (const [key, value] of [
    ['constructor', 'Ada'],
    ['__proto__', '7'],
    ['toString', 'true'],
    ['valueOf', ''],
  ])
    for (const operator of ['equals', 'is_empty', 'greater_or_equal', 'contains'] as const) {
      const rule = { field: `custom_fields.${key}`, operator, value: value!, logic_operator: 'AND' as const };
      const filter = rulesFilter(contactSource.fields, [rule]);
      expect(idsByCompiled(filter, contacts)).toEqual(await idsByDatabase(filter, customerId));
    }
});

test('texts are compared by code point, like their UTF-8 bytes', () => {
  const units = fc.constantFrom('a', 'b', 'é', '\ud7ff', '\ue000', '\ufffd', '\uffff', '\u{10000}', '😀', '\u{10ffff}');
  const text = fc.array(units, { maxLength: 4 }).map((some) => some.join(''));
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(Math.sign(compareTexts(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
    { numRuns: 2_000 },
  );
});

test('a filter that only the database can evaluate is rejected', () => {
  const of = (filter: Filter) => () => compileFilter(contactSource, filter);
  expect(of({ kind: 'member', lists: 'any', byHandOnly: [] })).toThrow(/record/);
  expect(of({ kind: 'search', field: 'search', words: ['a'] })).toThrow(/column/);
  expect(of({ kind: 'in', field: 'list_id', values: [random.ids[0]!] })).toThrow(/column/);
});
