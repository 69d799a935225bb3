import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { startApp } from '../../setup/app.ts';
import { contactBody, type Answer, type TestCustomer } from '../../setup/factories.ts';
import { startServerProcess } from '../../setup/server-process.ts';
import { wrongCounts } from './recount.ts';
import { addTotals } from '../../setup/journal.ts';

/** Number of writes after which the test stops writing. */
const maxWrites = 2_500;
/** Time (ms) after which `fewWrites` are enough. */
const longEnough = 15_000;
/** Minimum number of writes on a slow machine. */
const fewWrites = 300;
const writersEach = 6;

const app = await startApp();

const pick = <T>(from: readonly T[]): T => from[randomInt(from.length)]!;
const some = <T>(from: readonly T[], most: number): T[] =>
  Array.from({ length: randomInt(most + 1) }, () => pick(from));

const titles = ['Engineer', 'Senior Engineer', 'ENGINÉER', 'Clerk', 'Head of Sales', ''];
const companies = ['Acme', 'Äcme', 'Globex', 'Initech', 'Umbrella', 'Hooli'];
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

/** Ids of the records that the writers know. Other writers may have deleted some. */
interface World {
  contacts: string[];
  companies: string[];
  lists: string[];
}

const fields = () => ({
  job_title: pick(titles),
  birth_year: pick([null, 1985, 1995]),
  gender: pick([null, 'f', 'm']),
});
const company = (world: World) =>
  pick([{}, { name: pick(companies), industry: pick(industries) }, { id: pick(world.companies) }]);

/** Sends one random write that can change list memberships. */
async function write(by: Client, world: World): Promise<Answer> {
  const dice = randomInt(100);
  if (dice < 12) return writeBatch(by, world);
  if (dice < 30) {
    const answer = await by.post(
      '/contacts',
      contactBody({ ...fields(), company: company(world), list_ids: some(world.lists, 2) }),
    );
    if (answer.status === 201) world.contacts.push(answer.body.data.id);
    return answer;
  }
  const contact = `/contacts/${pick(world.contacts)}`;
  if (dice < 33) return by.patch(contact, { external_id: pick(externalIds) });
  if (dice < 55) return by.patch(contact, { ...fields(), ...(randomInt(2) ? { company: company(world) } : {}) });
  if (dice < 60) return by.patch(contact, { list_ids: some(world.lists, 3) });
  if (dice < 66) return by.delete(contact);
  if (dice < 76)
    return by.patch(`/company/${pick(world.companies)}`, { company_name: pick(companies), industry: pick(industries) });
  if (dice < 78) return writeCompanies(by, world);
  const call = pick(['add-contacts', 'remove-contacts']);
  if (dice < 88)
    return by.post(`/list-contact-details/${call}`, {
      list_id: pick(world.lists),
      contact_ids: some(world.contacts, 20),
    });
  if (dice < 94) return by.patch(`/list-contact/${pick(world.lists)}`, { rules: pick(rulesets) });
  return writeLists(by, world);
}

/** Writes many contacts or companies in one call. The items are those that other writers write too. */
async function writeBatch(by: Client, world: World): Promise<Answer> {
  const length = 1 + randomInt(15);
  const items = (one: () => object) => ({ items: Array.from({ length }, one) });
  const contact = () => contactBody({ ...fields(), company: company(world), list_ids: some(world.lists, 2) });
  const named = () => ({ external_id: pick(externalIds) });
  const firm = () => ({ type: 'customer', company_name: pick(companies), industry: pick(industries) });
  const [path, body] = pick<() => [string, object]>([
    () => ['/contacts/batch/create', items(contact)],
    () => ['/contacts/batch/upsert', { match: 'external_id', ...items(() => ({ ...contact(), ...named() })) }],
    () => ['/contacts/batch/update', items(() => ({ id: pick(world.contacts), ...fields(), company: company(world) }))],
    () => ['/contacts/batch/update', items(() => ({ id: pick(world.contacts), ...named() }))],
    () => ['/contacts/batch/delete', items(() => ({ id: pick(world.contacts) }))],
    () => ['/company/batch/update', items(() => ({ id: pick(world.companies), ...firm() }))],
    () => ['/company/batch/upsert', { match: 'external_id', ...items(() => ({ ...firm(), ...named() })) }],
    () => ['/company/batch/delete', { items: [{ id: world.companies[0] }] }],
  ])();
  const answer = await by.post(path, body);
  const results: { status: string; id?: string; error?: { code: string } }[] = answer.body.data?.results ?? [];
  for (const { status, id, error } of results) {
    if (error && !['not_found', 'conflict'].includes(error.code)) throw new Error(JSON.stringify(error));
    if (status === 'created') (path.startsWith('/company') ? world.companies : world.contacts).push(id!);
  }
  return answer;
}

async function writeCompanies(by: Client, world: World): Promise<Answer> {
  const answer = await by.post('/company', {
    type: 'customer',
    company_name: pick(companies),
    industry: pick(industries),
  });
  const deleted = pick(world.companies);
  world.companies.push(answer.body.data.id);
  return by.delete(`/company/${deleted}`);
}

async function writeLists(by: Client, world: World): Promise<Answer> {
  if (world.lists.length > 12)
    return by.delete(`/list-contact/${world.lists.splice(randomInt(world.lists.length), 1)[0]!}`);
  const answer = randomInt(2)
    ? await by.post('/list-contact', { name: 'Raced', rules: pick(rulesets) })
    : await by.post('/list-contact/duplicate', { list_id: pick(world.lists), new_name: 'Copied' });
  if (answer.status < 300) world.lists.push(answer.body.id ?? answer.body.data.id);
  return answer;
}

/** Creates companies, lists and contacts. */
async function fillWorld(customer: TestCustomer): Promise<World> {
  const world: World = { contacts: [], companies: [], lists: [] };
  for (const company_name of companies) {
    const answer = await customer.post('/company', { type: 'customer', company_name, industry: pick(industries) });
    world.companies.push(answer.body.data.id);
  }
  const rows = await app.owner<{ id: string }[]>`
    insert into contacts (customer_id, first_name, last_name, work_email, company_id, folded)
    select ${customer.id}, 'Ada', 'Lovelace', 'ada@example.com', case when n % 10 = 0 then (${world.companies}::uuid[])[1 + (n / 10) % 6] end,
      '{"first_name": "ada", "last_name": "lovelace", "work_email": "ada@example.com", "industry": "", "job_title": "", "location_locality": "", "location_country": "", "location_region": ""}'
    from generate_series(1, 300) n
    returning id`;
  await addTotals(app.owner, customer.id, { contacts: 300 });
  world.contacts.push(...rows.map(({ id }) => id));
  for (const rules of rulesets)
    world.lists.push((await customer.post('/list-contact', { name: 'First', rules })).body.id);
  return world;
}

test(
  'concurrent writes through two processes leave every membership and count exact',
  { timeout: 120_000 },
  async () => {
    const customer = await app.customer();
    const world = await fillWorld(customer);
    const server = await startServerProcess(app.url, {}, ['src/cli.ts', 'serve', '--with-worker', '--json']);
    const clients = [customer, over(server.url, customer.key)];
    const statuses = new Map<number, number>();
    let begun = 0;
    const end = performance.now() + longEnough;
    const isEnough = () => begun >= maxWrites || (begun > fewWrites && performance.now() > end);
    const writer = async (by: Client) => {
      while (!isEnough()) {
        begun += 1;
        const { status, body } = await write(by, world);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (status >= 500) throw new Error(`${status} ${JSON.stringify(body)}`);
      }
    };
    await Promise.all(clients.flatMap((by) => Array.from({ length: writersEach }, () => writer(by))));

    expect(statuses.values().reduce((sum, count) => sum + count, 0)).toBeGreaterThan(fewWrites);
    expect(new Set(statuses.keys())).toEqual(new Set([200, 201, 404, 409]));
    expect(await wrongCounts(customer, app.owner)).toEqual([]);
    const twice = await app.owner`
      select external_id from contacts where customer_id = ${customer.id} and external_id is not null
      group by external_id having count(*) > 1`;
    expect(twice).toEqual([]);
    expect(await server.stop()).toBe(0);
  },
);
