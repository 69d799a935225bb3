import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Source } from '../../src/filters/columns.ts';
import { isIndexable } from '../../src/filters/narrowing.ts';
import {
  candidateCountClauses,
  candidatePageClauses,
  countClauses,
  newestPageClauses,
  pageClauses,
} from '../../src/filters/page-clauses.ts';
import type { PageClauses } from '../../src/filters/page-clauses.ts';
import { nextCursor, parseRecordQuery, type ListRequest, type RecordQuery } from '../../src/filters/parse.ts';
import { recorder, run } from '../../src/filters/sql.ts';
import { readLongTexts } from '../../src/queries/crm/record-pages.ts';
import { resolveLists } from '../../src/queries/crm/list-members.ts';
import type { GivenFilters } from '../../src/schemas/filters.ts';
import { filtersOf, ordersOf, type Keys } from './arbitraries.ts';
import { comparator, passes, type WireRecord } from './evaluator.ts';
import { storeWorld, type Kind } from './world.ts';
import { seed } from '../setup/seed.ts';

// A page has the same records as the model, for any filter and order, whether it is read by search terms, among the newest
// records or from all. Every fourth record has outdated terms.

const { db, random, kinds } = await storeWorld(seed);

const company = `json_build_object('id', co.id, 'company_name', coalesce(co.company_name, ''), 'industry', coalesce(co.industry, '')) as company`;

/** Select list with all fields that records can be ordered by, as responses show them. */
function projection({ alias, fields, columns }: Source) {
  const own = Object.keys(fields.types).filter(
    (name) => columns[name] && !name.includes('.') && !['company_id', 'list_id'].includes(name),
  );
  const one = (name: string) =>
    name === 'last_verified' ? `${columns[name]!.value} as last_verified` : `${alias}.${name}`;
  return recorder.unsafe([...own.map(one), ...(alias === 'c' ? [company] : [])].join(', '));
}

type Clauses = (sql: typeof recorder, listing: RecordQuery) => PageClauses;

const queryOf = async (source: Source, request: ListRequest): Promise<RecordQuery> =>
  readLongTexts(db, await resolveLists(db, parseRecordQuery(source, random.customerId, request)));

/** Reads a page the way the service does. */
const readPage = (
  source: Source,
  request: ListRequest,
  clauses: Clauses = pageClauses,
): Promise<{ ids: string[]; next: string | undefined }> =>
  db.search(async (sql) => {
    const listing = await queryOf(source, request);
    const page = clauses(recorder, listing);
    const rows = await run<WireRecord>(
      sql,
      recorder`
        select ${projection(source)}
        from ${page.from}
        where ${page.where}
        order by ${page.orderBy}
        limit ${page.limit}`,
    );
    return { ids: rows.map(({ id }) => id), next: nextCursor(listing, rows) };
  });

const count = (source: Source, filters: GivenFilters, clauses = countClauses): Promise<number> =>
  db.search(async (sql) => {
    const { from, where } = clauses(recorder, await queryOf(source, { filters }));
    const statement = recorder`select count(*)::integer as count from ${from} where ${where}`;
    return (await run<{ count: number }>(sql, statement))[0]!.count;
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
async function byCursor(source: Source, request: ListRequest, limit: number): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const paginate = { limit, ...(cursor === undefined ? {} : { cursor }) };
    const page = await readPage(source, { ...request, paginate });
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
        fc.constantFrom(2, 7, 23, 60),
        async (filters, keys, limit) => {
          const ids = expected(kind, filters, keys);
          const request = { filters, order_by: keys };
          expect(await byNumber(source, request, limit)).toEqual(ids);
          expect(await byCursor(source, request, limit)).toEqual(ids);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('found by terms are those of the model, in every order, and so is their count', async () => {
    let [narrowed, matched] = [0, 0];
    await fc.assert(
      fc.asyncProperty(
        filtersOf(source.fields, random.ids),
        fc.oneof(fc.constant(newestFirst), ordersOf(source.fields)),
        async (filters, keys) => {
          const ids = expected(kind, filters, keys);
          for (const [paginate, from, to] of [
            [{ limit: 100 }, 0, 100],
            [{ limit: 3, page: 2 }, 3, 6],
          ] as const) {
            const page = await readPage(source, { filters, order_by: keys, paginate }, candidatePageClauses);
            expect(page.ids).toEqual(ids.slice(from, to));
          }
          expect(await count(source, filters, candidateCountClauses)).toBe(ids.length);
          if (!isIndexable(recorder, await queryOf(source, { filters, order_by: keys }))) return;
          narrowed += 1;
          if (ids.length > 0) matched += 1;
        },
      ),
      { numRuns: 150 },
    );
    expect(narrowed).toBeGreaterThan(20);
    expect(matched).toBeGreaterThan(3);
  });

  test('among the newest are those of the model, on every page, by number and by cursor; with a limit on what is read, the first of these', async () => {
    await fc.assert(
      fc.asyncProperty(
        filtersOf(source.fields, random.ids),
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 1, max: 160 }),
        async (filters, limit, size) => {
          const ids = expected(kind, filters, newestFirst);
          const some: Clauses = (sql, query) => newestPageClauses(sql, query, size);
          let cursor: string | undefined;
          for (const page of [1, 2, 3]) {
            const wanted = ids.slice((page - 1) * limit, page * limit);
            const goesOn = page === 1 || cursor !== undefined;
            const byCursor = cursor === undefined ? { limit } : { limit, cursor };
            for (const paginate of [{ page, limit }, ...(goesOn ? [byCursor] : [])]) {
              const whole = await readPage(source, { filters, paginate }, newestPageClauses);
              expect(whole.ids).toEqual(wanted);
              cursor = whole.next;
              const part = await readPage(source, { filters, paginate }, some);
              expect(part.ids).toEqual(wanted.slice(0, part.ids.length));
            }
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});
