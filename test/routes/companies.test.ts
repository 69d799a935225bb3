import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody } from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();

const create = (more: object = {}, by = customer): Promise<string> => make(by, '/company', companyBody(more));
const read = async (id: string, by = customer) => (await by.get(`/company/${id}`)).body;

test('a created company is returned with every field of the contract, empty fields as the contract types them', async () => {
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

test('the deletion of a company detaches contacts and opportunities and keeps them', async () => {
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
