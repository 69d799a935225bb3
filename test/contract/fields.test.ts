import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { findEnd, readEvents } from '../../src/queries/records/feed.ts';
import { activityFilterFields } from '../../src/schemas/activities.ts';
import { companyFilterFields } from '../../src/schemas/companies.ts';
import { contactFilterFields } from '../../src/schemas/contacts.ts';
import { orderable, type FilterFields } from '../../src/schemas/filters.ts';
import { opportunityFilterFields } from '../../src/schemas/opportunities.ts';
import { productFilterFields } from '../../src/schemas/products.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import {
  companyBody,
  contactBody,
  make,
  makeList,
  makeUser,
  opportunityBody,
  productBody,
  stagesOf,
} from '../setup/factories.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';
import { declaredRoutes, type DeclaredRoute, type Json } from './declared.ts';
import { propertiesOf, requiredOf, typesOf } from './positions.ts';

// Everything here is derived from the schemas: a field that is added to one, and forgotten in a statement, fails here.

const { documented } = await declaredRoutes();
const routeOf = (name: string): DeclaredRoute | undefined => documented.find((route) => route.name === name);

/** A kind of record that can be created, changed, read and listed. */
interface Resource {
  /** Its path below /api/ext. */
  path: string;
  create: Json;
  patch: Json;
  /** The body that lists a hundred of them. */
  listBody: object;
  /** A record as lists show it. */
  item: Json;
}

const prefix = '/api/ext';
const resources: Resource[] = documented.flatMap(({ method, url, body }) => {
  const [patch, list] = [routeOf(`PATCH ${url}/:id`), routeOf(`POST ${url}/list`)];
  if (method !== 'POST' || !body || !patch || !list) return [];
  // An import is no such record: most of what begins it cannot be changed.
  if (!requiredOf(body).every((name) => name in propertiesOf(patch.body!))) return [];
  const page = { limit: 100 };
  const [success] = Object.values(list.responses);
  return {
    path: url.slice(prefix.length),
    create: body,
    patch: patch.body!,
    listBody: 'paginate' in propertiesOf(list.body!) ? { paginate: page } : page,
    item: success!['items'] as Json,
  };
});

type Values = Record<string, unknown>;

let app: TestApp;
let customer: TestCustomer;
/** What is written to members that name records, and to those of which the schema does not say enough; twice, unlike each other. */
const known: Record<string, [unknown, unknown]> = {};

beforeAll(async () => {
  app = await startApp();
  customer = await app.customer();
  const two = async <T>(makeOne: () => Promise<T>): Promise<[T, T]> => [await makeOne(), await makeOne()];
  const users = await two(() => makeUser(app.fastify, customer.id));
  const lists = await two(() => makeList(app.fastify, customer));
  const contacts = await two(() => make(customer, '/contacts', contactBody()));
  const products = await two(() => make(customer, '/products', productBody()));
  const companies = [
    await make(customer, '/company', companyBody({ company_name: 'Engines', industry: 'Computing' })),
    await make(customer, '/company', companyBody({ company_name: 'Looms', industry: 'Weaving' })),
  ] as const;
  const [first, second] = await stagesOf(customer);
  const lines = products.map((id, n) => ({ id, price: n + 1.5, quantity: n + 2 }));
  const rule = (value: string) => [{ field: 'job_title', operator: 'equals', value, logic_operator: 'AND' }];
  Object.assign(known, {
    assigned_to: users,
    user_id_assigned: users,
    list_ids: lists.map((id) => [id]),
    contacts_ids: contacts.map((id) => [id]),
    company: companies.map((id) => ({ id })),
    company_id: companies,
    contact_id: contacts,
    opportunity_id: await two(async () => make(customer, '/opportunities', await opportunityBody(customer))),
    stage_id: [first!.id, second!.id],
    source_id: [randomUUID(), randomUUID()],
    products: lines.map((line) => [line]),
    rules: [rule('miller'), rule('weaver')],
    custom_fields: [{ plan: 'gold' }, { plan: 'silver' }],
  });
});

/** How a member is shown that is not shown as it is written. */
const shownAs: Record<string, (record: Answer['body']) => unknown> = {
  company: ({ company }) => ({ id: company.id }),
  products: ({ details }) => {
    const { product_id: id, price, quantity } = details.at(-1);
    return [{ id, price, quantity }];
  },
};

/** How an event names a written member, unless by its name. */
const toldAs: Record<string, string[]> = {
  list_ids: [],
  custom_fields: ['custom_fields.plan'],
  products: ['details', 'price'],
  // Only a task has a value in each field.
  '/activities type': [],
};

const formatted: Record<string, [string, string]> = {
  email: ['ada@example.com', 'grace@example.org'],
  'date-time': ['2026-03-14T09:26:53.589Z', '2027-04-15T10:27:54.590Z'],
  domain: ['acme.de', 'looms.example'],
  country: ['GB', 'DE'],
  currency: ['EUR', 'GBP'],
};

let externalIds = 0;

/** A value of a member: of two, the first or the second. No other member has the same text. */
function valueOf(name: string, schema: Json, n: 0 | 1): unknown {
  if (name === 'external_id') return `external ${n} ${(externalIds += 1)}`; // no two records may have the same
  if (name in known) return known[name]![n];
  if (Array.isArray(schema['enum']) && name === 'type') return 'task';
  if (Array.isArray(schema['enum'])) return schema['enum'].filter((value) => value !== null)[n];
  const format = schema['format'] as string | undefined;
  if (format === 'uuid') throw new Error(`${name} names a record: enter two of them here`);
  switch (typesOf(schema)[0]) {
    case 'string':
      if (format !== undefined && format in formatted) return formatted[format]![n];
      return `${name} ${n === 0 ? 'alpha' : 'beta'}`;
    case 'integer':
      return Number(schema['minimum'] ?? 0) + n + 1;
    case 'number':
      return Number(schema['minimum'] ?? 0) + n + 1.25;
    case 'boolean':
      return n === 1;
    case 'array':
      return [valueOf(name, schema['items'] as Json, n)];
    default:
      return bodyOf(schema, n);
  }
}

/** A body with every member that the schema has. */
const bodyOf = (schema: Json, n: 0 | 1): Values =>
  Object.fromEntries(Object.entries(propertiesOf(schema)).map(([name, member]) => [name, valueOf(name, member, n)]));

/** The members of a record that were written, as they were written. */
const writtenIn = (record: Values, names: string[]): Values =>
  Object.fromEntries(names.map((name) => [name, shownAs[name]?.(record) ?? record[name]]));

async function create({ path, create }: Resource, n: 0 | 1): Promise<{ id: string; body: Values }> {
  const body = bodyOf(create, n);
  const answer = await customer.post(path, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return { id: answer.body.data?.id ?? answer.body.id, body };
}

const read = async ({ path }: Resource, id: string): Promise<Values> => (await customer.get(`${path}/${id}`)).body;

async function readInList({ path, listBody }: Resource, id: string): Promise<Values> {
  const { body } = await customer.post(`${path}/list`, listBody);
  return body.find((one: Values) => one['id'] === id);
}

test('every resource is found', () => {
  const paths = ['/activities', '/company', '/contacts', '/list-contact', '/opportunities', '/products'];
  expect(resources.map(({ path }) => path).sort()).toEqual(paths);
});

describe.each(resources.map((resource) => [resource.path, resource] as const))('%s', (_path, resource) => {
  const listed = (names: string[]) =>
    names.filter((name) => name in propertiesOf(resource.item) || (name in shownAs && name !== 'list_ids'));

  test.each([0, 1] as const)('keeps and shows every field of a new record (value %i)', async (n) => {
    const { id, body } = await create(resource, n);
    const names = Object.keys(body);
    expect(writtenIn(await read(resource, id), names)).toEqual(body);
    const inList = listed(names);
    expect(writtenIn(await readInList(resource, id), inList)).toEqual(pick(body, inList));
  });

  test('keeps and shows every field of a change, and tells each write by one event, if it changes anything', async () => {
    const after = await findEnd(app.db, customer.id);
    const { id } = await create(resource, 0);
    const path = `${resource.path}/${id}`;
    const { products, ...body } = bodyOf(resource.patch, 1);
    const lines = products === undefined ? {} : { products: { add: products } };
    const answer = await customer.patch(path, { ...body, ...lines });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const written = { ...body, ...(products === undefined ? {} : { products }) };
    const names = Object.keys(written);
    expect(writtenIn(await read(resource, id), names)).toEqual(written);
    expect(writtenIn(await readInList(resource, id), listed(names))).toEqual(pick(written, listed(names)));
    for (const same of [body, {}]) expect((await customer.patch(path, same)).status).toBe(200);
    expect((await customer.delete(path)).status).toBe(200);
    const { events } = await readEvents(app.db, customer.id, { after, limit: 10 });
    const told = names.flatMap((name) => toldAs[`${resource.path} ${name}`] ?? toldAs[name] ?? [name]);
    expect(events.map(({ type, data }) => [type.split('.')[1], data['id'], data.changed?.toSorted()])).toEqual([
      ['created', id, undefined],
      ['updated', id, told.toSorted()],
      ['deleted', id, undefined],
    ]);
  });
});

const pick = (values: Values, names: string[]): Values => Object.fromEntries(names.map((name) => [name, values[name]]));

const filterable: [path: string, FilterFields, others: string[]][] = [
  ['/contacts', contactFilterFields, ['search', 'list_id', 'company_id', 'company.company_name', 'company.industry']],
  ['/company', companyFilterFields, ['search']],
  ['/products', productFilterFields, []],
  ['/opportunities', opportunityFilterFields, ['contact_id', 'pipeline_id']],
  ['/activities', activityFilterFields, ['search', 'is_done', 'is_overdue', 'company_or_its_contacts']],
];

test.each(filterable)(
  'filters of %s are the scalar fields of the record, and those that the decisions add',
  (path, fields, others) => {
    const scalars = Object.entries(propertiesOf(resources.find((one) => one.path === path)!.item))
      .filter(([, schema]) => typesOf(schema).every((type) => !['array', 'object'].includes(type)))
      .map(([name]) => name)
      .filter((name) => name !== 'last_activity_at' && !name.endsWith('_count')); // only a single company, or a list, has it
    expect(Object.keys(fields.types).sort()).toEqual([...scalars, ...others].sort());
  },
);

// Those of contacts and companies are compared with a model in test/filters/matching.test.ts.
describe.each(filterable.slice(2))('records of %s', (path, fields) => {
  let [first, second]: Values[] = [];

  /** Two records, unlike in every field but the pipeline. */
  beforeAll(async () => {
    const resource = resources.find((one) => one.path === path)!;
    const pipeline_id = (await stagesOf(customer))[0]!.pipeline_id;
    const readOne = async (n: 0 | 1) => ({ pipeline_id, ...(await read(resource, (await create(resource, n)).id)) });
    [first, second] = [await readOne(0), await readOne(1)];
  });

  /** What a record has in a field, by the name that filters call it. */
  function has(record: Answer['body'], field: string): unknown {
    if (field === 'search') return record.title;
    if (field === 'is_done') return record.done_at !== null;
    if (field === 'is_overdue') return record.done_at === null;
    if (field === 'contact_id') return record.contact_id ?? record.contacts_ids[0];
    return record[field === 'company_or_its_contacts' ? 'company_id' : field];
  }

  const idsOf = async (body: object): Promise<unknown[]> =>
    (await customer.post(`${path}/list`, { ...body, paginate: { limit: 100 } })).body.map((one: Values) => one['id']);

  test.each(Object.keys(fields.types))('are found by %s', async (field) => {
    const [value, other] = [has(first, field), has(second, field)];
    expect(value, `a value for ${field}: give the record one`).toEqual(expect.anything());
    const ids = await idsOf({ filters: { [field]: value } });
    expect(ids).toContain(first!['id']);
    expect(ids.includes(second!['id'])).toBe(value === other);
  });

  test.each(orderable(fields))('are ordered by %s', async (field) => {
    const ids = await idsOf({ order_by: { [field]: 'ASC' } });
    const places = [first, second].map((one) => ids.indexOf(one!['id']));
    expect(places).not.toContain(-1);
    const values = [first, second].map((one) => has(one, field) as string | number);
    const [isBefore, isSmaller] = [places[0]! < places[1]!, values[0]! < values[1]!];
    expect(values[0] === values[1] || isBefore === isSmaller).toBe(true);
  });
});
