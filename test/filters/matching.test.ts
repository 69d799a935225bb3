import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Sql } from '../../src/database/db.ts';
import { contactSource, type Source } from '../../src/filters/columns.ts';
import { countClauses, pageClauses } from '../../src/filters/page-clauses.ts';
import { nextCursor, parseRecordQuery, type ListRequest } from '../../src/filters/parse.ts';
import { readLongTexts } from '../../src/queries/crm/record-pages.ts';
import { resolveLists } from '../../src/queries/crm/list-members.ts';
import { indexed, type GivenFilters } from '../../src/schemas/filters.ts';
import { filtersOf, ordersOf, type Keys } from './arbitraries.ts';
import { comparator, passes, type WireRecord } from './evaluator.ts';
import { makeContacts, storeWorld, type Kind } from './world.ts';
import { seed } from '../setup/seed.ts';

const { db, ownerUrl, random, kinds } = await storeWorld(seed);

const company = `json_build_object('id', co.id, 'company_name', coalesce(co.company_name, ''), 'industry', coalesce(co.industry, '')) as company`;

/** Select list with all fields that records can be ordered by, as responses show them. */
function projection(sql: Sql, { alias, fields, columns }: Source) {
  const own = Object.keys(fields.types).filter(
    (name) => columns[name] && !name.includes('.') && !['company_id', 'list_id'].includes(name),
  );
  const one = (name: string) =>
    name === 'last_verified' ? `${columns[name]!.value} as last_verified` : `${alias}.${name}`;
  return sql.unsafe([...own.map(one), ...(alias === 'c' ? [company] : [])].join(', '));
}

/** Reads a page the way the service does. */
const readPage = (
  source: Source,
  request: ListRequest,
  customerId = random.customerId,
): Promise<{ ids: string[]; next: string | undefined }> =>
  db.search(async (sql) => {
    const listing = await readLongTexts(db, await resolveLists(db, parseRecordQuery(source, customerId, request)));
    const page = pageClauses(sql, listing);
    const rows = await sql<WireRecord[]>`
      select ${projection(sql, source)}
      from ${page.from}
      where ${page.where}
      order by ${page.orderBy}
      limit ${page.limit}`;
    return { ids: rows.map(({ id }) => id), next: nextCursor(listing, rows) };
  });

const count = (source: Source, filters: GivenFilters): Promise<number> =>
  db.search(async (sql) => {
    const query = await resolveLists(db, parseRecordQuery(source, random.customerId, { filters }));
    const { from, where } = countClauses(sql, query);
    const [row] = await sql<{ count: number }[]>`select count(*)::integer as count from ${from} where ${where}`;
    return row!.count;
  });

/** Reads all pages by number, up to the first empty page. */
async function byNumber(source: Source, request: ListRequest, limit: number): Promise<string[]> {
  const ids: string[] = [];
  for (let page = 1; ; page += 1) {
    const { ids: more } = await readPage(source, { ...request, paginate: { page, limit } });
    if (more.length === 0) return ids;
    ids.push(...more);
  }
}

/** Reads all pages, each by the cursor of the page before. */
async function byCursor(source: Source, request: ListRequest, limit: number, customerId?: string): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const paginate = { limit, ...(cursor === undefined ? {} : { cursor }) };
    const page = await readPage(source, { ...request, paginate }, customerId);
    ids.push(...page.ids);
    expect(page.next !== undefined).toBe(page.ids.length === limit);
    if (page.next === undefined) return ids;
    cursor = page.next;
  }
}

const expected = ({ records, world }: Kind, filters: GivenFilters, keys: Keys): string[] =>
  records
    .filter((record) => passes(world, record, filters))
    .sort(comparator(keys))
    .map(({ id }) => id);

const newestFirst: Keys = [{ field: 'created_at', direction: 'DESC' }];

describe.each(kinds)(`%s (SEED=${seed})`, (_, kind) => {
  const { source } = kind;

  test('filters select the records of the model, and the count is the same', async () => {
    let matched = 0;
    await fc.assert(
      fc.asyncProperty(filtersOf(source.fields, random.ids), async (filters) => {
        const ids = expected(kind, filters, newestFirst);
        expect((await byCursor(source, { filters }, 100)).sort()).toEqual(ids.toSorted());
        expect(await count(source, filters)).toBe(ids.length);
        if (ids.length > 0 && ids.length < kind.records.length) matched += 1;
      }),
      { numRuns: 150 },
    );
    expect(matched).toBeGreaterThan(30);
  });

  test('pages by number and by cursor contain every match once, in every order', async () => {
    await fc.assert(
      fc.asyncProperty(
        filtersOf(source.fields, random.ids),
        ordersOf(source.fields),
        fc.constantFrom(7, 23, 60),
        async (filters, keys, limit) => {
          const ids = expected(kind, filters, keys);
          const request = { filters, order_by: keys };
          expect(await byNumber(source, request, limit)).toEqual(ids);
          expect(await byCursor(source, request, limit)).toEqual(ids);
        },
      ),
      { numRuns: 30 },
    );
  });

  test.each([...indexed(source.fields), 'id'].flatMap((field) => [[field, 'ASC'] as const, [field, 'DESC'] as const]))(
    'pages by %s %s contain every match once, in order, also with ties',
    async (field, direction) => {
      const check = async (filters: GivenFilters, limit: number) => {
        const ids = expected(kind, filters, [{ field, direction }]);
        const request = { filters, order_by: { [field]: direction } };
        expect(await byNumber(source, request, limit)).toEqual(ids);
        expect(await byCursor(source, request, limit)).toEqual(ids);
      };
      await check({}, 1);
      await fc.assert(
        fc.asyncProperty(filtersOf(source.fields, random.ids), fc.constantFrom(1, 2, 5, 17, 100), check),
        {
          numRuns: 8,
        },
      );
    },
  );
});

test.each(['last_name', 'profnet_url'].flatMap((field) => [[field, 'ASC'] as const, [field, 'DESC'] as const]))(
  'paging works for texts that are too long for a cursor: %s %s',
  async (field, direction) => {
    const long = 'x'.repeat(300);
    const names = ['a', long, `${long}y`, `${long}z`, 'y'].flatMap((name) => [name, name]);
    const { customerId, contacts } = await makeContacts(ownerUrl, names, field);
    const ids = contacts.sort(comparator([{ field, direction }])).map(({ id }) => id);
    for (const limit of [1, 3])
      expect(await byCursor(contactSource, { order_by: { [field]: direction } }, limit, customerId)).toEqual(ids);
  },
);
