import { describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody } from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();

const create = (more: object = {}, by = customer): Promise<string> => make(by, '/company', companyBody(more));
const read = async (id: string, by = customer) => (await by.get(`/company/${id}`)).body;

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
});

describe('a list of companies', () => {
  test('finds a company created through a contact by negated filters too', async () => {
    const own = await app.customer();
    await make(own, '/contacts', contactBody({ company: { name: 'Named' } }));
    const { body } = await own.post('/company/list', {
      filters: { type: { ne: 'x' }, size: { not_contains: 'x' }, location_country: { not_in: ['DE'] } },
    });
    expect(body).toMatchObject([{ company_name: 'Named', type: '', size: '', location_country: '' }]);
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
