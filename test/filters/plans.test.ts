import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sql } from '../../src/database/db.ts';
import { companySource, contactSource, type Source } from '../../src/filters/columns.ts';
import { pageClauses } from '../../src/filters/page-clauses.ts';
import { nextCursor, parseRecordQuery, type ListRequest } from '../../src/filters/parse.ts';
import { indexed } from '../../src/schemas/filters.ts';
import { recorder, type RecordedSql } from '../../src/filters/sql.ts';
import { resolveLists } from '../../src/queries/crm/list-members.ts';
import { createDatabase, isOnCitus, type TestDatabase } from '../setup/database.ts';
import { peopleOfTenants } from '../setup/tenants.ts';
import { readingsOf, type PlanNode } from '../setup/watched-plans.ts';
import { printed } from './printed.ts';

/**
 * SQL that creates records of 20 customers. The first customer has a third of them; two thirds of the scores and half of
 * the update times are tied.
 */
const load = `
  create temporary table tenants as
    select uuidv7() as id, n, case when n = 1 then 30000 else 24000 / n end as size from generate_series(1, 20) n;
  ${peopleOfTenants}
  insert into customers (id, business_name) select id, 'Tenant ' || n from tenants;
  insert into users (customer_id, email, email_folded, name, role, password_hash)
    select id, 'a@' || id, 'a@' || id, 'Ada', 'admin', '' from tenants;
  insert into lists (customer_id, name, owner_id) select customer_id, 'List', id from users;
  insert into list_members (customer_id, list_id, contact_id)
    select customer_id, l.id, c.id from lists l join contacts c using (customer_id) where hashtext(c.id::text) % 3 = 0`;

let database: TestDatabase;
let sql: postgres.Sql;
let tenants: { customer: string; list: string }[];

beforeAll(async () => {
  if (isOnCitus()) return;
  database = await createDatabase();
  sql = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  await sql.unsafe(load);
  await sql`vacuum analyze contacts, companies, list_members, lists`;
  tenants = await sql`
    select t.id as customer, l.id as list
    from tenants t
    join lists l on l.customer_id = t.id
    where t.n in (1, 4, 20)
    order by t.n`;
}, 180_000);
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await database.drop();
});

const literal = (value: unknown): string => {
  if (Array.isArray(value)) return `array[${value.map(literal).join(', ')}]`;
  return typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`;
};

/** Runs a prepared statement with one kind of plan and returns the executed plan. */
async function explain({ text, parameters }: RecordedSql, mode: string): Promise<PlanNode> {
  await sql.unsafe(`set plan_cache_mode = ${mode}; prepare explained as ${text}`);
  try {
    const execute = parameters.length === 0 ? 'explained' : `explained(${parameters.map(literal).join(', ')})`;
    const [row] = await sql.unsafe(`explain (analyze, format json) execute ${execute}`);
    return (row!['QUERY PLAN'] as { Plan: PlanNode }[])[0]!.Plan;
  } finally {
    await sql.unsafe('deallocate explained; reset plan_cache_mode');
  }
}

const printedPage = async (source: Source, customer: string, request: ListRequest): Promise<RecordedSql> => {
  const lanes = { lookup: <T>(work: (sql: Sql) => Promise<T>) => work(sql as unknown as Sql) };
  const query = await resolveLists(lanes, parseRecordQuery(source, customer, request));
  const { from, where, orderBy, limit } = pageClauses(recorder, query);
  const shown = recorder.unsafe(source.alias === 'c' ? 'c.*, co.company_name' : 'co.*');
  return printed(recorder`select ${shown} from ${from} where ${where} order by ${orderBy} limit ${limit}`);
};

/** Returns the cursor of a page that ends in the middle of the customer's records. */
async function middle(source: Source, customer: string, request: ListRequest): Promise<string> {
  const table = source.alias === 'c' ? 'contacts' : 'companies';
  const [{ half }] =
    (await sql`select count(*)::integer / 2 as half from ${sql(table)} where customer_id = ${customer}`) as unknown as [
      { half: number },
    ];
  const paginate = { page: Math.max(1, Math.floor(half / 25)), limit: 25 };
  const { text, parameters } = await printedPage(source, customer, { ...request, paginate });
  const rows = await sql.unsafe(text, parameters.map(String));
  const shown = rows.map((row: Record<string, unknown>) => ({
    ...row,
    created_at: (row['created_at'] as Date).toISOString(),
    updated_at: (row['updated_at'] as Date).toISOString(),
  }));
  return nextCursor(parseRecordQuery(source, customer, { ...request, paginate }), shown)!;
}

const modes = ['force_custom_plan', 'force_generic_plan'];
const sources: [string, Source][] = [
  ['contacts', contactSource],
  ['companies', companySource],
];
const orders = sources.flatMap(([name, source]) =>
  indexed(source.fields).flatMap((field) =>
    (['ASC', 'DESC'] as const).map((direction) => [name, field, direction, source] as const),
  ),
);

describe.skipIf(isOnCitus()).each(modes)('with %s (needs one server)', (mode) => {
  test.each(orders)(
    'a page of %s by %s %s reads a few rows of an index, for any number of records and any depth',
    async (_, field, direction, source) => {
      const order_by = { [field]: direction };
      for (const { customer } of tenants) {
        const cursor = await middle(source, customer, { order_by });
        for (const paginate of [{ limit: 25 }, { limit: 25, cursor }]) {
          const { sequential, rows } = readingsOf(
            await explain(await printedPage(source, customer, { order_by, paginate }), mode),
          );
          expect(sequential).toEqual([]);
          expect(rows).toBeLessThanOrEqual(6 * 25);
        }
      }
    },
  );

  test.each<[string, (tenant: { customer: string; list: string }) => ListRequest, number]>([
    ['an e-mail address', () => ({ filters: { work_email: '7@EXAMPLE.com' } }), 10],
    ['a last name', () => ({ filters: { last_name: 'Name 77' } }), 100],
    ['a list', ({ list }) => ({ filters: { list_id: list } }), 400],
    ['a day', () => ({ filters: { created_at: { gte: '2020-01-01T00:00:00Z', lt: '2020-01-02T00:00:00Z' } } }), 0],
  ])('a page of contacts by %s reads only what it must', async (_, request, most) => {
    for (const tenant of tenants) {
      const { sequential, rows } = readingsOf(
        await explain(await printedPage(contactSource, tenant.customer, request(tenant)), mode),
      );
      expect(sequential).toEqual([]);
      expect(rows).toBeLessThanOrEqual(most);
    }
  });

  test('a page with three filters that every 92nd contact passes stops reading when it is full', async () => {
    const filters = { industry: 'industry 3', location_country: 'country 5', score: { lt: 50 } };
    for (const { customer } of tenants) {
      const { sequential, rows } = readingsOf(
        await explain(await printedPage(contactSource, customer, { filters }), mode),
      );
      expect(sequential).toEqual([]);
      expect(rows).toBeLessThanOrEqual(3 * 25 * 92);
    }
  });

  test.each<[string, ListRequest]>([
    ['a value that no contact has', { filters: { job_title: 'nobody' } }],
    [
      'values that few contacts have',
      { filters: { industry: 'industry 3', location_country: 'country 5', score: 99 } },
    ],
    ['a search', { filters: { search: 'nobody' } }],
    ['a contained text', { filters: { job_title: { contains: 'x' } } }],
    ['a sort without an index', { order_by: { job_title: 'ASC' } }],
  ])('%s reads no more than the records of a small customer', async (_, request) => {
    const [, , { customer }] = tenants as [unknown, unknown, { customer: string }];
    const { rows } = readingsOf(await explain(await printedPage(contactSource, customer, request), mode));
    expect(rows).toBeLessThanOrEqual(2 * 2800 + 280);
  });
});
