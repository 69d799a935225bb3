import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { createPipeline, salesStages } from '../../src/queries/crm/pipelines.ts';
import { wrongCounts } from '../queries/memberships/recount.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';
import { startServerProcess } from '../setup/server-process.ts';

/** Number of writes after which the test stops writing. */
const maxWrites = 4_000;
/** Time (ms) after which `fewWrites` are enough. */
const longEnough = 20_000;
/** Minimum number of writes on a slow machine. */
const fewWrites = 500;
const writersEach = 8;

const app = await startApp();

const line = (id: string, price = 1, quantity = 1) => ({ id, price, quantity });
const pick = <T>(from: readonly T[]): T => from[randomInt(from.length)]!;
const some = <T>(from: readonly T[], most: number): T[] => [
  ...new Set(Array.from({ length: randomInt(most + 1) }, () => pick(from))),
];

const titles = ['Engineer', 'Senior Engineer', 'ENGINÉER', 'Clerk', 'Head of Sales', ''];
const names = ['Acme', 'Äcme', 'Globex', 'Initech', 'Umbrella', 'Hooli'];
const externalIds = Array.from({ length: 8 }, (_, i) => `x-${i}`);
const industries = ['IT', 'Mining', 'Food'];
const rulesets = [
  [{ field: 'job_title', operator: 'contains', value: 'engineer' }],
  [
    { field: 'company.company_name', operator: 'equals', value: 'acme' },
    { field: 'birth_year', operator: 'greater_than', value: '1990' },
  ],
  [
    { field: 'company.industry', operator: 'equals', value: 'mining' },
    { field: 'job_title', operator: 'is_empty', value: '', logic_operator: 'OR' },
  ],
  [
    { field: 'gender', operator: 'not_equals', value: 'f' },
    { field: 'company.company_name', operator: 'is_not_empty', value: '' },
  ],
  [{ field: 'company.company_name', operator: 'in', value: 'Globex, Hooli' }],
  [],
];

/** Sends requests to the app in this process or to a server in another process. */
type Client = Pick<TestCustomer, 'get' | 'post' | 'patch' | 'delete'>;

function over(url: string, key: string): Client {
  const call = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const answer = await fetch(`${url}/api/ext${path}`, {
      method,
      headers: {
        authorization: `X-API-Key ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.json() };
  };
  return {
    get: (path) => call('GET', path),
    post: (path, body) => call('POST', path, body),
    patch: (path, body) => call('PATCH', path, body),
    delete: (path) => call('DELETE', path),
  };
}

/** Ids of records that exist or existed a moment ago. */
class Pool {
  readonly path: string;
  readonly ids: string[] = [];

  constructor(path: string) {
    this.path = path;
  }

  any = (): string => pick(this.ids);
  some = (most: number): string[] => some(this.ids, most);

  async add(by: Client, body: unknown): Promise<Answer> {
    const answer = await by.post(this.path, body);
    if (answer.status === 201) this.ids.push(answer.body.data?.id ?? answer.body.id);
    return answer;
  }

  change = (by: Client, patch: object): Promise<Answer> => by.patch(`${this.path}/${this.any()}`, patch);

  /** Deletes a record but keeps its id in use for a while, so that others still refer to it. */
  async remove(by: Client): Promise<Answer> {
    const id = this.any();
    const answer = await by.delete(`${this.path}/${id}`);
    if (this.ids.length > 6) this.ids.splice(this.ids.indexOf(id), 1);
    return answer;
  }

  /** Merges up to three other records into one. */
  async merge(by: Client): Promise<Answer> {
    const id = this.any();
    const merge_ids = this.some(3).filter((one) => one !== id);
    if (merge_ids.length === 0) return by.get(`${this.path}/${id}`);
    const answer = await by.post(`${this.path}/merge`, { id, merge_ids });
    for (const one of answer.status === 200 ? merge_ids : []) {
      const at = this.ids.indexOf(one);
      if (at >= 0 && this.ids.length > 6) this.ids.splice(at, 1);
    }
    return answer;
  }

  /** Writes many records in one call. The items are those that other writers write too. */
  async batch(by: Client, operation: string, item: () => object, match?: string): Promise<Answer> {
    const items = Array.from({ length: 1 + randomInt(15) }, item);
    const answer = await by.post(`${this.path}/batch/${operation}`, { items, ...(match ? { match } : {}) });
    const results: { status: string; id?: string; error?: { code: string } }[] = answer.body.data?.results ?? [];
    for (const { status, id, error } of results) {
      if (error && !['not_found', 'conflict'].includes(error.code)) throw new Error(JSON.stringify(error));
      if (status === 'created') this.ids.push(id!);
    }
    return answer;
  }
}

/** Records of a customer, and random writes of records of all kinds, which refer to each other. */
async function makeFray(customer: TestCustomer) {
  const [contacts, companies, lists] = [new Pool('/contacts'), new Pool('/company'), new Pool('/list-contact')];
  const [products, opportunities] = [new Pool('/products'), new Pool('/opportunities')];
  const pipeline = { name: 'P', description: '', currency: 'USD', visibility: 'PUBLIC', stages: salesStages } as const;
  const second = await app.db.transaction((sql) => createPipeline(sql, customer.id, pipeline));
  const { body } = await customer.get(`/pipelines/${second}`);
  const stages: string[] = [...(await stagesOf(customer)), ...body.stages].map(({ id }) => id);
  const blank = await opportunityBody(customer);
  const money = () => randomInt(1_000_000) / 10 ** randomInt(5);
  const lines = () => products.some(4).map((id) => line(id, money(), 1 + randomInt(50)));
  const deal = () => ({ stage_id: pick(stages), contacts_ids: contacts.some(4), company_id: companies.any() });
  const company = () => pick([{}, { name: pick(names), industry: pick(industries) }, { id: companies.any() }]);
  const firm = () => companyBody({ company_name: pick(names), industry: pick(industries) });
  const external_id = () => ({ external_id: pick(externalIds) });
  const traits = () => ({
    job_title: pick(titles),
    birth_year: pick([null, 1985, 1995]),
    gender: pick([null, 'f', 'm']),
    company: company(),
  });
  const person = () => contactBody({ ...traits(), list_ids: lists.some(2) });
  const named = () => ({ id: contacts.any() });
  const member = () => ({ list_id: lists.any(), contact_ids: contacts.some(20) });
  const changes: [Pool, () => object][] = [
    [opportunities, () => ({ products: { add: lines() } })],
    [opportunities, () => ({ products: { remove: products.some(2) } })],
    [
      opportunities,
      () => ({ products: { update: products.some(2).map((id) => ({ id, quantity: 1 + randomInt(50) })) } }),
    ],
    [opportunities, () => ({ ...deal(), products: { add: [line(products.any(), money())] } })],
    [opportunities, () => ({ stage_id: pick(stages), company_id: null })],
    [contacts, traits],
    [contacts, () => ({ ...external_id(), company: company() })],
    [contacts, () => ({ list_ids: lists.some(3) })],
    [companies, firm],
    [products, () => ({ price: money() })],
    [lists, () => ({ rules: pick(rulesets) })],
  ];
  const bodies: [Pool, () => object][] = [
    [companies, firm],
    [products, () => productBody()],
    [lists, () => ({ name: 'Raced', rules: pick(rulesets) })],
    [contacts, person],
    [opportunities, () => ({ ...blank, ...deal(), products: lines() })],
  ];
  const writes: ((by: Client) => Promise<Answer>)[] = [
    ...[...changes, ...changes].map(
      ([pool, patch]) =>
        (by: Client) =>
          pool.change(by, patch()),
    ),
    // More are made than deleted, so that most of what a write refers to is there.
    ...[...bodies, ...bodies].map(
      ([pool, body]) =>
        (by: Client) =>
          pool.add(by, body()),
    ),
    ...bodies.map(([pool]) => pool.remove.bind(pool)),
    (by) => contacts.batch(by, 'create', person),
    (by) => contacts.batch(by, 'upsert', () => ({ ...person(), ...external_id() }), 'external_id'),
    (by) => contacts.batch(by, 'update', () => ({ ...named(), ...traits() })),
    (by) => contacts.batch(by, 'update', () => ({ ...named(), ...external_id() })),
    (by) => contacts.batch(by, 'delete', named),
    (by) => companies.batch(by, 'upsert', () => ({ ...firm(), ...external_id() }), 'external_id'),
    (by) => companies.batch(by, 'update', () => ({ id: companies.any(), ...firm() })),
    contacts.merge.bind(contacts),
    companies.merge.bind(companies),
    (by) => by.post('/list-contact-details/add-contacts', member()),
    (by) => by.post('/list-contact-details/remove-contacts', member()),
    (by) => by.post('/list-contact/duplicate', { list_id: lists.any(), new_name: 'Copied' }),
    (by) => by.post('/opportunities/list'),
    (by) => by.post('/products/list'),
  ];
  for (const [pool, body] of bodies) for (let i = 0; i < 6; i += 1) await pool.add(customer, body());
  return (by: Client): Promise<Answer> => pick(writes)(by);
}

test(
  'writes of all kinds that race, through two processes, never fail, leave no orphans, and every total, count and membership is exact',
  { timeout: 180_000 },
  async () => {
    const customer = await app.customer();
    const write = await makeFray(customer);
    const server = await startServerProcess(app.url, {}, ['src/cli.ts', 'serve', '--with-worker', '--json']);
    const strange: Answer[] = [];
    let begun = 0;
    const end = performance.now() + longEnough;
    const isEnough = () => begun >= maxWrites || (begun > fewWrites && performance.now() > end);
    const writer = async (by: Client) => {
      while (!isEnough()) {
        begun += 1;
        const answer = await write(by);
        if (![200, 201, 404, 409].includes(answer.status)) strange.push(answer);
      }
    };
    const clients = [customer, over(server.url, customer.key)];
    await Promise.all(clients.flatMap((by) => Array.from({ length: writersEach }, () => writer(by))));
    expect(strange.slice(0, 3)).toEqual([]);
    expect(await recount(customer)).toEqual({ wrong_totals: 0, wrong_pipelines: 0, orphans: 0, twice: 0, chains: 0 });
    await expectCounts(customer);
    expect(await wrongCounts(customer, app.owner)).toEqual([]);
    expect(await server.stop()).toBe(0);
  },
);

/** Checks the tables directly, without the service's statements. */
async function recount({ id }: TestCustomer): Promise<unknown> {
  const [row] = await app.owner`
    with totals as (
      select o.id, o.price, coalesce(sum(l.price * l.quantity), 0) as recounted
      from opportunities o
      left join opportunity_lines l on l.customer_id = o.customer_id and l.opportunity_id = o.id
      where o.customer_id = ${id}
      group by o.id, o.price
    )
    select
      (select count(*) from totals where price <> recounted)::int as wrong_totals,
      (
        select count(*)
        from opportunity_lines l
        join opportunities o on o.customer_id = l.customer_id and o.id = l.opportunity_id
        join stages s on s.customer_id = l.customer_id and s.id = o.stage_id
        where l.customer_id = ${id} and l.pipeline_id <> s.pipeline_id
      )::int as wrong_pipelines,
      (
        (select count(*) from opportunity_lines where customer_id = ${id}
          and (opportunity_id not in (select id from opportunities where customer_id = ${id}) or product_id not in (select id from products where customer_id = ${id})))
        + (select count(*) from opportunity_contacts where customer_id = ${id}
          and (opportunity_id not in (select id from opportunities where customer_id = ${id}) or contact_id not in (select id from contacts where customer_id = ${id})))
        + (select count(*) from opportunities where customer_id = ${id}
          and company_id not in (select id from companies where customer_id = ${id}))
        + (select count(*) from contacts where customer_id = ${id}
          and company_id not in (select id from companies where customer_id = ${id}))
      )::int as orphans,
      (
        select count(*) from (
          select from contacts where customer_id = ${id} and external_id is not null group by external_id having count(*) > 1
          union all
          select from companies where customer_id = ${id} and deleted_at is null and external_id is not null
          group by external_id having count(*) > 1
        ) same
      )::int as twice,
      (
        select count(*)
        from merged_records m
        join merged_records next on next.customer_id = m.customer_id and next.id = m.merged_into
        where m.customer_id = ${id}
      )::int as chains`;
  return row;
}

/** Recounts the API's totals from the records that the API lists. */
async function expectCounts(customer: TestCustomer): Promise<void> {
  const all = async (path: string) => {
    const rows = [];
    for (let page = 1; ; page += 1) {
      const { body } = await customer.post(path, { paginate: { page, limit: 100 } });
      rows.push(...body);
      if (body.length < 100) return rows;
    }
  };
  const { body: pipelines } = await customer.get('/pipelines');
  const stageLists = pipelines.map(({ id }: { id: string }) => customer.post('/stages/list', { pipeline_id: id }));
  const stages = (await Promise.all<Answer>(stageLists)).flatMap(({ body }) => body);
  const opportunities = await all('/opportunities/list');
  expect(opportunities.length).toBeGreaterThan(0);
  for (const { price, details } of opportunities) {
    const tenThousandths = details.map(
      (one: { price: number; quantity: number }) => Math.round(one.price * 10_000) * one.quantity,
    );
    expect(Math.round(price * 10_000)).toBe(tenThousandths.reduce((sum: number, one: number) => sum + one, 0));
  }
  for (const { id, opportunities_count, pipelines_count } of await all('/products/list')) {
    const using = opportunities.filter(({ details }) =>
      details.some((one: { product_id: string }) => one.product_id === id),
    );
    const pipelines = new Set(using.map(({ stage_id }) => stages.find(({ id }) => id === stage_id).pipeline_id));
    expect([opportunities_count, pipelines_count]).toEqual([using.length, pipelines.size]);
  }
  for (const { id, total_opportunities } of stages)
    expect(total_opportunities).toBe(opportunities.filter(({ stage_id }) => stage_id === id).length);
}

test('two concurrent callers that add the same product: one succeeds, the other gets a conflict', async () => {
  const customer = await app.customer();
  const id = await make(customer, '/opportunities', await opportunityBody(customer));
  const product = await make(customer, '/products', productBody());
  const add = (price: number) => customer.patch(`/opportunities/${id}`, { products: { add: [line(product, price)] } });
  const answers = await Promise.all([add(1), add(2), add(3)]);
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409]);
  const { details, price } = (await customer.get(`/opportunities/${id}`)).body;
  expect(details).toHaveLength(1);
  expect(price).toBe(details[0].price);
});

test('two concurrent callers that update different lines: both updates are kept, and the total includes both', async () => {
  const customer = await app.customer();
  const products = await Promise.all(Array.from({ length: 10 }, () => make(customer, '/products', productBody())));
  const body = await opportunityBody(customer, { products: products.map((id) => line(id)) });
  const id = await make(customer, '/opportunities', body);
  await Promise.all(
    products.map((product) =>
      customer.patch(`/opportunities/${id}`, { products: { update: [{ id: product, quantity: 5 }] } }),
    ),
  );
  expect((await customer.get(`/opportunities/${id}`)).body.price).toBe(50);
});
