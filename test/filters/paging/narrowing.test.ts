import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isIndexable } from '../../../src/filters/narrowing.ts';
import { candidateCountClauses, candidatePageClauses, newestPageClauses } from '../../../src/filters/page-clauses.ts';
import type { PageClauses } from '../../../src/filters/page-clauses.ts';
import { nextCursor, parseRecordQuery, type ListRequest, type RecordQuery } from '../../../src/filters/parse.ts';
import { recorder, run } from '../../../src/filters/sql.ts';
import { resolveLists } from '../../../src/queries/crm/list-members.ts';
import type { GivenFilters } from '../../../src/schemas/filters.ts';
import { filtersOf, ordersOf, type Keys } from '../arbitraries.ts';
import { comparator, passes } from '../evaluator.ts';
import { storeWorld, type Kind } from '../world.ts';
import { seed } from '../../setup/seed.ts';

// A page that is read by search terms has the same records as the model, for any filter and order. Every fourth record
// has outdated terms.

const { db, random, kinds } = await storeWorld(seed);

type Clauses = (sql: typeof recorder, listing: RecordQuery) => PageClauses;

const queryOf = ({ source }: Kind, request: ListRequest): Promise<RecordQuery> =>
  resolveLists(db, parseRecordQuery(source, random.customerId, request));

const readIds = (kind: Kind, clauses: Clauses, request: ListRequest): Promise<string[]> =>
  db.search(async (sql) => {
    const page = clauses(recorder, await queryOf(kind, request));
    const rows = await run<{ id: string }>(
      sql,
      recorder`
        select ${recorder.unsafe(kind.source.alias)}.id
        from ${page.from}
        where ${page.where}
        order by ${page.orderBy}
        limit ${page.limit}`,
    );
    return rows.map(({ id }) => id);
  });

/** The cursor of the page after these records. */
const cursorAfter = ({ source, records }: Kind, request: ListRequest, ids: string[]): string | undefined =>
  nextCursor(
    parseRecordQuery(source, random.customerId, request),
    ids.map((id) => records.find((record) => record.id === id)!),
  );

const count = (kind: Kind, filters: GivenFilters): Promise<number> =>
  db.search(async (sql) => {
    const { from, where } = candidateCountClauses(recorder, await queryOf(kind, { filters }));
    const [row] = await run<{ count: number }>(
      sql,
      recorder`select count(*)::integer as count from ${from} where ${where}`,
    );
    return row!.count;
  });

const expected = ({ records, world }: Kind, filters: GivenFilters, keys: Keys): string[] =>
  records
    .filter((record) => passes(world, record, filters))
    .sort(comparator(keys))
    .map(({ id }) => id);

const newestFirst: Keys = [{ field: 'created_at', direction: 'DESC' }];

describe.each(kinds)(`%s (SEED=${seed})`, (_, kind) => {
  test('found by terms are those of the model, in every order, and so is their count', async () => {
    let [indexed, matched] = [0, 0];
    await fc.assert(
      fc.asyncProperty(
        filtersOf(kind.source.fields, random.ids),
        fc.oneof(fc.constant(newestFirst), ordersOf(kind.source.fields)),
        async (filters, keys) => {
          const ids = expected(kind, filters, keys);
          const request = { filters, order_by: keys };
          expect(await readIds(kind, candidatePageClauses, { ...request, paginate: { limit: 100 } })).toEqual(
            ids.slice(0, 100),
          );
          expect(await readIds(kind, candidatePageClauses, { ...request, paginate: { limit: 3, page: 2 } })).toEqual(
            ids.slice(3, 6),
          );
          expect(await count(kind, filters)).toBe(ids.length);
          if (!isIndexable(recorder, await queryOf(kind, request))) return;
          indexed += 1;
          if (ids.length > 0) matched += 1;
        },
      ),
      { numRuns: 150 },
    );
    expect(indexed).toBeGreaterThan(20);
    expect(matched).toBeGreaterThan(3);
  });

  test('among the newest are those of the model, on every page, by number and by cursor; with a limit on what is read, the first of these', async () => {
    await fc.assert(
      fc.asyncProperty(
        filtersOf(kind.source.fields, random.ids),
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 1, max: 160 }),
        async (filters, limit, size) => {
          const ids = expected(kind, filters, newestFirst);
          const some: Clauses = (sql, query) => newestPageClauses(sql, query, size);
          let cursor: string | undefined;
          for (const page of [1, 2, 3]) {
            const wanted = ids.slice((page - 1) * limit, page * limit);
            const byNumber = { filters, paginate: { page, limit } };
            expect(await readIds(kind, newestPageClauses, byNumber)).toEqual(wanted);
            const read = await readIds(kind, some, byNumber);
            expect(read).toEqual(wanted.slice(0, read.length));
            if (page > 1 && cursor === undefined) break;
            const byCursor = { filters, paginate: cursor === undefined ? { limit } : { limit, cursor } };
            expect(await readIds(kind, newestPageClauses, byCursor)).toEqual(wanted);
            const after = await readIds(kind, some, byCursor);
            expect(after).toEqual(wanted.slice(0, after.length));
            cursor = cursorAfter(kind, { filters, paginate: { limit } }, wanted);
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});
