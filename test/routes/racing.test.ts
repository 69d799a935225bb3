import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { createPipeline, salesStages } from '../../src/queries/crm/pipelines.ts';
import { wrongCounts } from '../queries/memberships/recount.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';

// Writers that change, merge and delete the same records. The model test has several processes, and a caller for each
// record; here all writers of one customer want the same ones.

/** Number of writes after which the test ends, or time (ms) after which fewer are enough. */
const enough = { most: 4_000, least: 500, ms: 20_000 };

const app = await startApp();

const pick = <T>(from: readonly T[]): T => from[randomInt(from.length)]!;
const some = <T>(from: readonly T[], most: number): T[] => [
  ...new Set(Array.from({ length: randomInt(most + 1) }, () => pick(from))),
];

const names = ['Acme', 'Äcme', 'Globex', 'Initech'];
const rulesets = [
  [{ field: 'job_title', operator: 'contains', value: 'engineer' }],
  [{ field: 'company.company_name', operator: 'equals', value: 'acme' }],
  [],
];

const paths = ['/company', '/products', '/list-contact', '/contacts', '/opportunities'] as const;
type Path = (typeof paths)[number];

/** Returns random writes of records of all kinds, which refer to each other. Some refer to records that are gone. */
async function makeFray(by: TestCustomer): Promise<() => Promise<Answer>> {
  const pipeline = { name: 'P', description: '', currency: 'USD', visibility: 'PUBLIC', stages: salesStages } as const;
  const second = await app.db.transaction((sql) => createPipeline(sql, by.id, pipeline));
  const { body: shown } = await by.get(`/pipelines/${second}`);
  const stages: string[] = [...(await stagesOf(by)), ...shown.stages].map(({ id }) => id);
  const blank = await opportunityBody(by);
  const ids = Object.fromEntries(paths.map((path) => [path, [] as string[]])) as Record<Path, string[]>;
  const any = (path: Path) => pick(ids[path]);
  const lines = () =>
    some(ids['/products'], 4).map((id) => ({ id, price: randomInt(1_000_000) / 10 ** randomInt(5), quantity: 7 }));
  const firm = () => companyBody({ company_name: pick(names), industry: pick(['IT', 'Mining']) });
  const own = () => ({ external_id: `x-${randomInt(8)}` });
  const traits = () => ({
    job_title: pick(['Engineer', 'Clerk', '']),
    company: pick([{}, { name: pick(names) }, { id: any('/company') }]),
  });
  const person = () => contactBody({ ...traits(), list_ids: some(ids['/list-contact'], 2) });
  const deal = () => ({
    stage_id: pick(stages),
    contacts_ids: some(ids['/contacts'], 4),
    company_id: any('/company'),
  });
  const bodies: Record<Path, () => object> = {
    '/company': firm,
    '/products': () => productBody(),
    '/list-contact': () => ({ name: 'Raced', rules: pick(rulesets) }),
    '/contacts': person,
    '/opportunities': () => ({ ...blank, ...deal(), products: lines() }),
  };
  const patches: Record<Path, (() => object)[]> = {
    '/company': [firm],
    '/products': [() => ({ price: randomInt(100) })],
    '/list-contact': [() => ({ rules: pick(rulesets) })],
    '/contacts': [traits, () => ({ ...traits(), ...own() }), () => ({ list_ids: some(ids['/list-contact'], 3) })],
    '/opportunities': [
      deal,
      () => ({ products: { add: lines() } }),
      () => ({ products: { remove: some(ids['/products'], 2) } }),
      () => ({ products: { update: some(ids['/products'], 2).map((id) => ({ id, quantity: 1 + randomInt(50) })) } }),
    ],
  };
  const create = async (path: Path): Promise<Answer> => {
    const answer = await by.post(path, bodies[path]());
    if (answer.status === 201) ids[path].push(answer.body.data?.id ?? answer.body.id);
    return answer;
  };
  const remove = (path: Path): Promise<Answer> => {
    const id = any(path);
    if (ids[path].length > 6) ids[path].splice(ids[path].indexOf(id), 1);
    return by.delete(`${path}/${id}`);
  };
  const merge = (path: '/contacts' | '/company'): Promise<Answer> => {
    const [id, ...merge_ids] = some(ids[path], 4);
    if (merge_ids.length > 0 && ids[path].length > 9) ids[path] = ids[path].filter((one) => !merge_ids.includes(one));
    return merge_ids.length > 0 ? by.post(`${path}/merge`, { id, merge_ids }) : by.get(`${path}/${any(path)}`);
  };
  const batch = (path: '/contacts' | '/company', operation: string, item: () => object, match?: string) =>
    by.post(`${path}/batch/${operation}`, { items: Array.from({ length: 15 }, item), ...(match && { match }) });
  const member = () => ({ list_id: any('/list-contact'), contact_ids: some(ids['/contacts'], 20) });
  const change = (path: Path) => by.patch(`${path}/${any(path)}`, pick(patches[path])());
  const writes: (() => Promise<Answer>)[] = [
    ...paths.flatMap((path) => [change, change, change, create, create, remove].map((write) => () => write(path))),
    () => merge('/contacts'),
    () => merge('/company'),
    () => batch('/contacts', 'upsert', () => ({ ...person(), ...own() }), 'external_id'),
    () => batch('/contacts', 'update', () => ({ id: any('/contacts'), ...traits(), ...own() })),
    () => batch('/contacts', 'delete', () => ({ id: any('/contacts') })),
    () => batch('/company', 'upsert', () => ({ ...firm(), ...own() }), 'external_id'),
    () => by.post('/list-contact-details/add-contacts', member()),
    () => by.post('/list-contact-details/remove-contacts', member()),
    () => by.post('/list-contact/duplicate', { list_id: any('/list-contact'), new_name: 'Copied' }),
  ];
  for (const path of paths) for (let i = 0; i < 6; i += 1) await create(path);
  return () => pick(writes)();
}

test(
  'writes of all kinds that race for the same records never fail, and every total, count and membership is exact',
  {
    timeout: 180_000,
  },
  async () => {
    const customer = await app.customer();
    const write = await makeFray(customer);
    const strange: Answer[] = [];
    let begun = 0;
    const end = performance.now() + enough.ms;
    const isEnough = () => begun >= enough.most || (begun > enough.least && performance.now() > end);
    const writer = async () => {
      while (!isEnough()) {
        begun += 1;
        const answer = await write();
        if (![200, 201, 404, 409].includes(answer.status)) strange.push(answer);
      }
    };
    await Promise.all(Array.from({ length: 16 }, writer));
    expect(strange.slice(0, 3)).toEqual([]);
    expect(await wrongRows(customer)).toEqual({ totals: 0, pipelines: 0, orphans: 0, chains: 0 });
    expect(await wrongCounts(customer, app.owner)).toEqual([]);
  },
);

/** Counts, without the service's statements, what the database's own constraints let pass. */
async function wrongRows({ id }: TestCustomer): Promise<unknown> {
  const [row] = await app.owner`
    with totals as (
      select o.id, o.price, coalesce(sum(l.price * l.quantity), 0) as recounted
      from opportunities o
      left join opportunity_lines l on l.customer_id = o.customer_id and l.opportunity_id = o.id
      where o.customer_id = ${id}
      group by o.id, o.price
    )
    select
      (select count(*) from totals where price <> recounted)::int as totals,
      (
        select count(*)
        from opportunity_lines l
        join opportunities o on o.customer_id = l.customer_id and o.id = l.opportunity_id
        join stages s on s.customer_id = l.customer_id and s.id = o.stage_id
        where l.customer_id = ${id} and l.pipeline_id <> s.pipeline_id
      )::int as pipelines,
      (
        select count(*)
        from opportunity_contacts l
        where l.customer_id = ${id}
          and not exists (select from contacts c where c.customer_id = l.customer_id and c.id = l.contact_id)
      )::int as orphans,
      (
        select count(*)
        from merged_records m
        join merged_records next on next.customer_id = m.customer_id and next.id = m.merged_into
        where m.customer_id = ${id}
      )::int as chains`;
  return row;
}
