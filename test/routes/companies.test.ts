import { describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, unique, type Answer } from '../setup/factories.ts';

const app = await startApp();
const [customer, other] = await Promise.all([app.customer(), app.customer()]);

const create = (more: object = {}, by = customer): Promise<string> => make(by, '/company', companyBody(more));
const read = async (id: string, by = customer) => (await by.get(`/company/${id}`)).body;
const absent = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

describe('a created company', () => {
  test('is returned with every field of the contract, empty fields as the contract types them', async () => {
    const answer = await customer.post('/company', companyBody());
    expect(answer).toMatchObject({ status: 201, body: { success: true, message: expect.any(String) } });
    const { id } = answer.body.data;
    const company = await read(id);
    expect(company).toEqual({
      id,
      external_id: null,
      domain: null,
      type: 'customer',
      company_name: 'Analytical Engines',
      size: '',
      industry: '',
      social2_url: null,
      profnet_url: null,
      social1_url: null,
      location_locality: null,
      location_metro: null,
      location_region: null,
      location_street_address: null,
      location_address_line_2: null,
      location_postal_code: null,
      location_country: '',
      last_verified: company.created_at,
      verification_status: 'unverified',
      score: 0,
      custom_fields: {},
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      last_activity_at: null,
    });
  });

  test('stores every writable field as given, with the name trimmed and the country in upper case', async () => {
    const given = {
      type: 'partner',
      size: '11-50',
      industry: 'Engines "äöü" \\ 𝕏',
      social1_url: 'https://one.example/ae',
      social2_url: 'https://two.example/ae',
      profnet_url: 'https://profnet.example/ae',
      location_locality: 'London',
      location_metro: 'Greater London',
      location_region: 'England',
      location_street_address: '1 Dorset Street',
      location_address_line_2: 'Back yard',
      location_postal_code: 'W1',
      custom_fields: { tier: 'gold', seats: 12.5, trial: false },
    };
    const id = await create({ ...given, company_name: '\t Engines \n', location_country: 'gb' });
    expect(await read(id)).toMatchObject({ ...given, company_name: 'Engines', location_country: 'GB' });
  });

  test('may have the same name as another company', async () => {
    const company_name = unique('Twice');
    expect(await create({ company_name })).not.toBe(await create({ company_name }));
  });
});

const faultPaths = ({ body }: Answer): string[] =>
  body.errors.map(({ path }: { path: string }) => path).toSorted((a: string, b: string) => (a < b ? -1 : 1));

describe('an unknown company', () => {
  test("is 200 null when read, the same for another customer's company and an unknown id", async () => {
    const answers = [];
    for (const id of [absent, await create({}, other)])
      answers.push(
        await app.fastify.inject({
          url: `/api/ext/company/${id}`,
          headers: { authorization: `X-API-Key ${customer.key}` },
        }),
      );
    for (const answer of answers) {
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toBe('null');
      expect(answer.headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'content-length': '4',
      });
      expect(answer.headers).not.toHaveProperty('etag');
    }
  });
});

describe('a list of companies', () => {
  test('is newest first, complete by pages and by cursors, and counted', async () => {
    const own = await app.customer();
    const ids: string[] = [];
    for (let i = 0; i < 5; i += 1) ids.unshift(await create({ company_name: `C${i}` }, own));
    const pages = [1, 2, 3, 4].map((page) => own.post('/company/list', { paginate: { page, limit: 2 } }));
    expect((await Promise.all(pages)).map(({ body }) => body.map(({ id }: { id: string }) => id))).toEqual([
      ids.slice(0, 2),
      ids.slice(2, 4),
      ids.slice(4),
      [],
    ]);
    const first = await own.post('/company/list', { paginate: { limit: 3 } });
    const cursor = first.headers['x-next-cursor'];
    const rest = await own.post('/company/list', { paginate: { limit: 3, cursor } });
    expect([...first.body, ...rest.body].map(({ id }) => id)).toEqual(ids);
    expect(rest.headers).not.toHaveProperty('x-next-cursor');
    const { body } = await own.post('/company/metadata', { paginate: { page: 2, limit: 2 } });
    expect(body).toEqual({ pagination: { current_page: 2, total_records: 5, total_pages: 3 } });
    expect((await own.post('/company/metadata', { paginate: { cursor } })).status).toBe(400);
  });

  test('contains the companies that match its filters, in the requested order', async () => {
    const own = await app.customer();
    await create({ company_name: 'Éclair', industry: 'Food', type: 'lead', custom_fields: { seats: 3 } }, own);
    await create({ company_name: 'Straße GmbH', industry: 'Roads', location_country: 'de' }, own);
    await create({ company_name: 'apple', industry: 'Food', location_locality: 'Paris' }, own);
    const names = async (body: object) =>
      (await own.post('/company/list', body)).body.map(({ company_name }: { company_name: string }) => company_name);
    expect(await names({ filters: { industry: 'FOOD' }, order_by: { company_name: 'ASC' } })).toEqual([
      'apple',
      'Éclair',
    ]);
    expect(await names({ filters: { search: 'strasse' } })).toEqual(['Straße GmbH']);
    expect(await names({ filters: { search: '@@' } })).toEqual([]);
    expect(await names({ filters: { type: { ne: 'lead' }, location_country: null } })).toEqual(['apple']);
    expect(
      await names({ filters: { _or: [{ location_locality: 'paris' }, { 'custom_fields.seats': { gt: 2 } }] } }),
    ).toEqual(['apple', 'Éclair']);
    expect((await own.post('/company/metadata', { filters: { industry: 'food' } })).body.pagination.total_records).toBe(
      2,
    );
    expect(await own.post('/company/list', { filters: { first_name: 'x' } })).toMatchObject({
      status: 400,
      body: { errors: [{ path: '/filters/first_name' }] },
    });
  });

  test('finds a company created through a contact by negated filters too', async () => {
    const own = await app.customer();
    await make(own, '/contacts', contactBody({ company: { name: 'Named' } }));
    const { body } = await own.post('/company/list', {
      filters: { type: { ne: 'x' }, size: { not_contains: 'x' }, location_country: { not_in: ['DE'] } },
    });
    expect(body).toMatchObject([{ company_name: 'Named', type: '', size: '', location_country: '' }]);
  });
});

describe('an update', () => {
  test('changes only the fields that are sent, and what filters find', async () => {
    const name = unique('Before');
    const id = await create({ company_name: name, industry: 'Old', custom_fields: { a: 1, b: 'x' } });
    const before = await read(id);
    const renamed = unique('Ünique');
    const answer = await customer.patch(`/company/${id.toUpperCase()}`, {
      company_name: ` ${renamed} `,
      custom_fields: { b: null, c: true },
    });
    expect(answer).toMatchObject({ status: 200, body: { success: true, message: expect.any(String), data: { id } } });
    const after = await read(id);
    expect(after).toEqual({
      ...before,
      company_name: renamed,
      custom_fields: { a: 1, c: true },
      updated_at: after.updated_at,
    });
    expect(after.updated_at > before.updated_at).toBe(true);
    const found = async (company_name: string) =>
      (await customer.post('/company/list', { filters: { company_name } })).body.length;
    expect([await found(name), await found(renamed.replace('Ü', 'u'))]).toEqual([0, 1]);
  });

  test('clears nullable fields with null, and rejects null in others', async () => {
    const nullable =
      'social2_url profnet_url social1_url location_locality location_metro location_region location_street_address location_address_line_2 location_postal_code'.split(
        ' ',
      );
    const id = await create(Object.fromEntries(nullable.map((name) => [name, 'x'])));
    const cleared = Object.fromEntries(nullable.map((name) => [name, null]));
    expect((await customer.patch(`/company/${id}`, cleared)).status).toBe(200);
    expect(await read(id)).toMatchObject(cleared);
    const others = ['company_name', 'custom_fields', 'industry', 'location_country', 'size', 'type'];
    const answer = await customer.patch(`/company/${id}`, Object.fromEntries(others.map((name) => [name, null])));
    expect([answer.status, faultPaths(answer)]).toEqual([400, others.map((name) => `/${name}`)]);
  });

  test('concurrent with others is never lost', async () => {
    const id = await create();
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => customer.patch(`/company/${id}`, { custom_fields: { [`k${i}`]: i } })),
    );
    expect(Object.keys((await read(id)).custom_fields)).toHaveLength(20);
  });
});

describe('ETag and If-Match', () => {
  test('the tag of a contact changes when its company is renamed', async () => {
    const id = await create();
    const contact = await make(customer, '/contacts', contactBody({ company: { id } }));
    const { etag } = (await customer.get(`/contacts/${contact}`)).headers as { etag: string };
    await customer.patch(`/company/${id}`, { company_name: unique('Renamed') });
    expect((await customer.patch(`/contacts/${contact}`, { job_title: 'x' }, { 'if-match': etag })).status).toBe(412);
  });
});

describe('a deletion', () => {
  test('detaches contacts and opportunities and keeps them', async () => {
    const id = await create();
    const contact = await make(customer, '/contacts', contactBody({ company: { id } }));
    const opportunity = await make(customer, '/opportunities', await opportunityBody(customer, { company_id: id }));
    expect(await customer.delete(`/company/${id}`)).toMatchObject({
      status: 200,
      body: { success: true, data: { id } },
    });
    expect(await read(id)).toBeNull();
    expect((await customer.get(`/contacts/${contact}`)).body.company).toEqual({
      id: null,
      company_name: '',
      industry: '',
    });
    expect((await customer.get(`/opportunities/${opportunity}`)).body.company_id).toBeNull();
    expect((await customer.delete(`/company/${id}`)).status).toBe(404);
  });

  test('racing with writes that name the company leaves no record attached, and no request fails', async () => {
    const own = await app.customer();
    const opportunity = await opportunityBody(own);
    const contacts = await Promise.all(Array.from({ length: 5 }, () => make(own, '/contacts', contactBody())));
    for (let round = 0; round < 20; round += 1) {
      const id = await create({}, own);
      const answers = await Promise.all([
        ...contacts.map((contact) => own.patch(`/contacts/${contact}`, { company: { id } })),
        own.post('/contacts', contactBody({ company: { id } })),
        own.post('/opportunities', { ...opportunity, company_id: id }),
        own.delete(`/company/${id}`),
        own.post('/opportunities', { ...opportunity, company_id: id }),
        own.patch(`/company/${id}`, { size: 'x' }),
        own.post('/contacts', contactBody({ company: { id } })),
      ]);
      expect(answers.filter(({ status }) => ![200, 201, 404].includes(status))).toEqual([]);
    }
    const attached = await own.post('/contacts/metadata', { filters: { company_id: { is_null: false } } });
    expect(attached.body.pagination.total_records).toBe(0);
    const deals = await own.post('/opportunities/list', { paginate: { limit: 100 } });
    expect(deals.body.filter(({ company_id }: { company_id: string | null }) => company_id !== null)).toEqual([]);
    expect((await own.post('/company/list', {})).body).toEqual([]);
  });
});
