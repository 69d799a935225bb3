import { expect, test } from 'vitest';
import { importFile } from '../jobs/importing.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { holdLock, waiting } from '../setup/bulk-lock.ts';
import { companyBody, contactBody, make } from '../setup/factories.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

const app = await startApp();
const customer = customerOfEachTest(app);

const company = (more: object = {}): Promise<string> => make(customer, '/company', companyBody(more));
const contact = (of: object): Promise<string> => make(customer, '/contacts', contactBody({ company: of }));
const companyOf = async (id: string): Promise<Json> => (await customer.get(`/contacts/${id}`)).body.company;
const companies = async (): Promise<Json[]> => (await customer.post('/company/list', {})).body.toReversed();
const batch = async (operation: string, body: object, path = '/company'): Promise<Json> =>
  (await customer.post(`${path}/batch/${operation}`, body)).body.data;
const errorOf = ({ status, body }: Json) => [status, body.code, body.errors?.map(({ path }: Json) => path)];

test.each(['müller', 'Ida MÜLLER.example', '@müller.example', 'ida@xn--mller-kva'])(
  'the search %j finds an address of an internationalised domain',
  async (search) => {
    const id = await make(customer, '/contacts', contactBody({ work_email: 'ida@müller.example' }));
    await make(customer, '/contacts', contactBody({ work_email: 'ida@moller.example' }));
    const found = await customer.post('/contacts/list', { filters: { search } });
    expect(found.body.map((one: Json) => one.id)).toEqual([id]);
  },
);

test('the domain of a company of several companies makes them duplicates, however it was written', async () => {
  const same = [await company({ domain: 'Müller.de' }), await company({ domain: 'http://xn--mller-kva.de' })];
  await company({ domain: 'muller.de' });
  const gone = await company({ domain: 'muller.de' });
  await customer.delete(`/company/${gone}`);
  const { status, body } = await customer.post('/company/duplicates', { by: 'domain' });
  expect([status, body]).toEqual([200, [{ value: 'müller.de', count: 2, ids: same }]]);
});

test('batches of companies by domain read, change, create and delete the company with the domain', async () => {
  const id = await company({ domain: 'acme.de' });
  const match = 'domain';
  const read = await batch('read', { match, items: [{ domain: 'https://ACME.de' }, { domain: 'none.de' }] });
  expect(read.results).toMatchObject([{ id, record: { domain: 'acme.de' } }, { error: { code: 'not_found' } }]);
  const updated = await batch('update', { match, items: [{ domain: 'www.acme.de', size: '5' }, { domain: 'no' }] });
  expect(updated.results).toMatchObject([{ id, status: 'updated' }, { error: { code: 'validation_failed' } }]);
  const items = [{ domain: 'acme.de', size: '6' }, { domain: 'New.de' }, { domain: 'new.de' }];
  const upserted = await batch('upsert', { match, items });
  expect(upserted.results).toMatchObject([{ id, status: 'updated' }, { status: 'created' }, { status: 'failed' }]);
  expect(upserted.results[2].error.code).toBe('conflict');
  expect(await companies()).toMatchObject([
    { id, domain: 'acme.de', size: '6' },
    { domain: 'new.de', company_name: 'new.de', type: '' },
  ]);
  const deleted = await batch('delete', { match, items: [{ domain: 'new.de' }] });
  expect(deleted.counts).toMatchObject({ deleted: 1 });
  expect(await companies()).toHaveLength(1);
});

test('batches of companies by domain are for companies only, and create companies with a name or a domain', async () => {
  const body = { match: 'domain', items: [{ domain: 'acme.de' }] };
  expect((await customer.post('/contacts/batch/read', body)).status).toBe(400);
  const items = [{ domain: 'acme.de' }, { company_name: 'Acme' }, { size: '5' }, { domain: null }];
  const { results } = await batch('create', { items });
  expect(results.map(({ status }: Json) => status)).toEqual(['created', 'created', 'failed', 'failed']);
  expect(results[2].error.errors[0].message).toBe('a new record needs one of company_name, domain');
  expect((await companies()).map(({ company_name }) => company_name)).toEqual(['acme.de', 'Acme']);
});

test('the company of a contact given by your own id is the company with this id, or the one into which it was merged', async () => {
  const [one, other] = [await company({ external_id: 'c-1' }), await company({ external_id: 'c-2' })];
  const person = await contact({ external_id: 'c-1' });
  expect((await companyOf(person)).id).toBe(one);
  await customer.patch(`/contacts/${person}`, { company: { external_id: 'c-2' } });
  expect(await companyOf(person)).toMatchObject({ id: other, external_id: 'c-2' });
  await customer.post('/company/merge', { id: one, merge_ids: [other] });
  expect((await companyOf(await contact({ external_id: 'c-2' }))).id).toBe(one);
  const { results } = await batch(
    'create',
    { items: ['c-1', 'c-2'].map((external_id) => contactBody({ company: { external_id } })) },
    '/contacts',
  );
  for (const { id } of results) expect((await companyOf(id)).id).toBe(one);
});

test('the company of a contact given by an own id that no company has is 404 with its pointer, and a failed item in a batch', async () => {
  const body = contactBody({ company: { external_id: 'none' } });
  const id = await contact({});
  for (const answer of [
    await customer.post('/contacts', body),
    await customer.patch(`/contacts/${id}`, { company: { external_id: 'none' } }),
  ])
    expect(errorOf(answer)).toEqual([404, 'not_found', ['/company/external_id']]);
  const { results } = await batch('create', { items: [body, contactBody()] }, '/contacts');
  expect(results).toMatchObject([
    { error: { code: 'not_found', errors: [{ path: '/company/external_id' }] } },
    { status: 'created' },
  ]);
});

test('the company of a contact given by domain is the oldest company with it that is not deleted, whatever its name', async () => {
  const gone = await company({ domain: 'acme.de' });
  await customer.delete(`/company/${gone}`);
  const oldest = await company({ domain: 'acme.de' });
  await company({ domain: 'acme.de', company_name: 'Other' });
  const of = { domain: 'https://www.Acme.de/', name: 'Other', industry: 'Mining' };
  expect(await companyOf(await contact(of))).toMatchObject({
    id: oldest,
    company_name: 'Analytical Engines',
    industry: '',
  });
  const { results } = await batch('create', { items: [contactBody({ company: of })] }, '/contacts');
  expect((await companyOf(results[0].id)).id).toBe(oldest);
});

test('the company of a contact given by a new domain is created with it, called by the name or else the domain', async () => {
  await company({ company_name: 'Acme' });
  await contact({ domain: 'Acme.de', name: 'Acme', industry: 'Mining' });
  await contact({ domain: 'https://bolt.de/x', industry: 'Steel' });
  expect(await companies()).toMatchObject([
    { company_name: 'Acme', domain: null },
    { company_name: 'Acme', domain: 'acme.de', industry: 'Mining', type: '' },
    { company_name: 'bolt.de', domain: 'bolt.de', industry: 'Steel' },
  ]);
});

test('the company of a contact of the items of a batch is made once, in their order', async () => {
  const given = [
    { domain: 'acme.de', name: 'Acme' },
    { name: 'ACME' },
    { domain: 'www.ACME.de' },
    { name: 'Bolt' },
    { domain: 'bolt.de', name: 'Bolt' },
    { domain: 'cog.de' },
    { name: 'cog.de' },
  ];
  const { results } = await batch('create', { items: given.map((one) => contactBody({ company: one })) }, '/contacts');
  const inBatch = await Promise.all(results.map(async ({ id }: Json) => (await companyOf(id)).id));
  const made = await companies();
  expect(made.map(({ company_name: name, domain }) => [name, domain])).toEqual([
    ['Acme', 'acme.de'],
    ['Bolt', null],
    ['Bolt', 'bolt.de'],
    ['cog.de', 'cog.de'],
  ]);
  expect(inBatch.map((id) => made.findIndex((one) => one.id === id))).toEqual([0, 0, 0, 1, 2, 3, 3]);
});

test.each([
  [{ industry: 'Mining' }],
  [{ external_id: 'c', name: 'Acme' }],
  [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', domain: 'acme.de' }],
  [{ external_id: null }],
  [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', name: 'Acme' }],
  [{ name: ' ' }],
  [null],
])('the company of a contact cannot be %j', async (mixture) => {
  expect((await customer.post('/contacts', contactBody({ company: mixture }))).status).toBe(400);
  const { results } = await batch('create', { items: [contactBody({ company: mixture })] }, '/contacts');
  expect(results[0].error.code).toBe('validation_failed');
  expect(await companies()).toEqual([]);
});

test('racing writes of contacts and companies with a new domain, single ones and batches, make one company', async () => {
  const names = await holdLock(app, customer, 'names');
  const body = (domain: string) => contactBody({ company: { domain } });
  const writes = [
    customer.post('/contacts', body('acme.de')),
    customer.post('/contacts', body('https://ACME.de')),
    customer.post('/contacts/batch/create', { items: [body('www.acme.de'), body('acme.de')] }),
  ];
  await expect.poll(() => waiting(app), { timeout: 20_000 }).toBe(3);
  // One bulk writer comes after the other.
  writes.push(customer.post('/company/batch/upsert', { match: 'domain', items: [{ domain: 'Acme.de', size: '5' }] }));
  await expect.poll(() => waiting(app), { timeout: 20_000 }).toBeGreaterThanOrEqual(3);
  await names.release();
  for (const { status, body } of await Promise.all(writes)) {
    expect([200, 201]).toContain(status);
    expect(body.success).toBe(true);
  }
  expect(await companies()).toMatchObject([{ domain: 'acme.de', size: '5' }]);
});

const csv = { format: 'csv', guess: true } as const;

test('imports of companies by domain change those that have it, and create the others, called by their domain', async () => {
  const id = await company({ domain: 'acme.de' });
  const done = await importFile(
    app,
    customer,
    { ...csv, object: 'companies', mode: 'upsert', match: 'domain' },
    'Website,Branche\nhttps://www.ACME.de/about,Mining\nbolt.de,Steel\nBolt.de,Iron\nno domain,Cars\n',
  );
  expect(done).toMatchObject({ created: 1, updated: 2, failed: 1 });
  expect(await companies()).toMatchObject([
    { id, industry: 'Mining' },
    { company_name: 'bolt.de', domain: 'bolt.de', industry: 'Iron' },
  ]);
  const [failure] = (await customer.get(`/imports/${done.id}/failures`)).body;
  expect(failure.error).toContain('"no domain" is not a domain (such as example.com)');
});
