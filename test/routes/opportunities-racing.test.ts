import { describe, expect, test } from 'vitest';
import { createPipeline, salesStages } from '../../src/queries/crm/pipelines.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';

const app = await startApp();

const line = (id: string, price = 1, quantity = 1) => ({ id, price, quantity });

/** Ids of records that exist or existed a moment ago. */
class Pool {
  readonly path: string;
  readonly ids: string[] = [];

  constructor(path: string) {
    this.path = path;
  }

  any(): string {
    return this.ids[whole(this.ids.length)]!;
  }

  some(most: number): string[] {
    return [...new Set(Array.from({ length: whole(most + 1) }, () => this.any()))];
  }

  async add(by: TestCustomer, body: unknown): Promise<Answer> {
    const answer = await by.post(this.path, body);
    if (answer.status === 201) this.ids.push(answer.body.data.id);
    return answer;
  }

  /** Deletes a record but keeps its id in use for a while, so that others still refer to it. */
  async remove(by: TestCustomer): Promise<Answer> {
    const id = this.any();
    const answer = await by.delete(`${this.path}/${id}`);
    if (this.ids.length > 4) this.ids.splice(this.ids.indexOf(id), 1);
    return answer;
  }
}

const whole = (below: number): number => Math.floor(Math.random() * below);
const money = (): number => whole(1_000_000) / 10 ** whole(5);

/** A customer whose records of all kinds are created, updated and deleted concurrently. */
async function makeFray(by: TestCustomer) {
  const pools = {
    contacts: new Pool('/contacts'),
    companies: new Pool('/company'),
    products: new Pool('/products'),
    opportunities: new Pool('/opportunities'),
  };
  const second = await app.db.transaction((sql) =>
    createPipeline(sql, by.id, {
      name: 'P',
      description: '',
      currency: 'USD',
      visibility: 'PUBLIC',
      stages: salesStages,
    }),
  );
  const { body } = await by.get(`/pipelines/${second}`);
  const stages = [...(await stagesOf(by)), ...body.stages].map(({ id }) => id);
  const { contacts, companies, products, opportunities } = pools;
  const blank = await opportunityBody(by);
  const lines = () => products.some(4).map((id) => line(id, money(), 1 + whole(50)));
  const newOpportunity = () => ({
    ...blank,
    stage_id: stages[whole(stages.length)],
    contacts_ids: contacts.some(4),
    company_id: companies.any(),
    products: lines(),
  });
  const patchOf = [
    () => ({ products: { add: lines() } }),
    () => ({ products: { remove: products.some(2) } }),
    () => ({ products: { update: products.some(2).map((id) => ({ id, quantity: 1 + whole(50) })) } }),
    () => ({
      contacts_ids: contacts.some(4),
      company_id: companies.any(),
      products: { add: [line(products.any(), money())] },
    }),
    () => ({ stage_id: stages[whole(stages.length)], company_id: null }),
  ];
  const company = () => [{ id: companies.any() }, { name: `Company ${whole(3)}` }][whole(2)];
  const writes: (() => Promise<Answer>)[] = [
    ...patchOf.map((patch) => () => by.patch(`/opportunities/${opportunities.any()}`, patch())),
    ...patchOf.map((patch) => () => by.patch(`/opportunities/${opportunities.any()}`, patch(), { 'if-match': '*' })),
    () => opportunities.add(by, newOpportunity()),
    () => opportunities.remove(by),
    () => contacts.add(by, contactBody({ company: company() })),
    () => contacts.remove(by),
    () => by.patch(`/contacts/${contacts.any()}`, { company: company() }),
    () => companies.add(by, companyBody()),
    () => companies.remove(by),
    () => by.patch(`/company/${companies.any()}`, { company_name: `Company ${whole(3)}` }),
    () => products.add(by, productBody()),
    () => products.remove(by),
    () => by.patch(`/products/${products.any()}`, { price: money() }),
    () => by.post('/opportunities/list'),
    () => by.post('/products/list'),
  ];
  for (let i = 0; i < 6; i += 1) {
    await contacts.add(by, contactBody());
    await companies.add(by, companyBody());
    await products.add(by, productBody());
    await opportunities.add(by, newOpportunity());
  }
  return { write: () => writes[whole(writes.length)]!() };
}

describe('thousands of racing writes', () => {
  test('never fail, leave no orphans, and every total and count equals an independent recount', async () => {
    const customer = await app.customer();
    const fray = await makeFray(customer);
    const strange: Answer[] = [];
    const writer = async () => {
      for (let i = 0; i < 120; i += 1) {
        const answer = await fray.write();
        if (![200, 201, 404, 409].includes(answer.status)) strange.push(answer);
      }
    };
    await Promise.all(Array.from({ length: 25 }, writer));
    expect(strange).toEqual([]);
    expect(await recount(customer)).toEqual({ wrong_totals: 0, wrong_pipelines: 0, orphans: 0 });
    await expectCounts(customer);
  });
});

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
      )::int as orphans`;
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

describe('two concurrent callers', () => {
  test('that add the same product: one succeeds, the other gets a conflict', async () => {
    const customer = await app.customer();
    const id = await make(customer, '/opportunities', await opportunityBody(customer));
    const product = await make(customer, '/products', productBody());
    const add = (price: number) =>
      customer.patch(`/opportunities/${id}`, { products: { add: [line(product, price)] } });
    const answers = await Promise.all([add(1), add(2), add(3)]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409]);
    const { details, price } = (await customer.get(`/opportunities/${id}`)).body;
    expect(details).toHaveLength(1);
    expect(price).toBe(details[0].price);
  });

  test('that update different lines: both updates are kept, and the total includes both', async () => {
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
});

describe('a contact deleted while opportunities add it again', () => {
  test('is in none of them afterwards, and there is no deadlock', async () => {
    const customer = await app.customer();
    const stays = await make(customer, '/contacts', contactBody());
    const body = await opportunityBody(customer, { contacts_ids: [stays] });
    const ids = await Promise.all(Array.from({ length: 3 }, () => make(customer, '/opportunities', body)));
    for (let round = 0; round < 25; round += 1) {
      const [goes, too] = await Promise.all([1, 2].map(() => make(customer, '/contacts', contactBody())));
      const name = (contacts_ids: unknown[]) =>
        ids.map((id) => customer.patch(`/opportunities/${id}`, { contacts_ids }));
      await Promise.all(name([goes, stays, too]));
      const answers = await Promise.all([
        ...name([too, goes, stays]),
        customer.delete(`/contacts/${goes}`),
        customer.delete(`/contacts/${too}`),
        ...name([stays, goes]),
      ]);
      expect(answers.filter(({ status }) => ![200, 404].includes(status))).toEqual([]);
      const { body: all } = await customer.post('/opportunities/list');
      expect(all.map(({ contacts_ids }: { contacts_ids: string[] }) => contacts_ids)).toEqual(ids.map(() => [stays]));
    }
  });
});
