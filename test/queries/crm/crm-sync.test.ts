import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { syncProspects } from '../../../src/queries/crm/crm-sync.ts';
import type { Prospect } from '../../../src/schemas/prospects.ts';
import { person } from '../../catalog/people.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { companyBody, contactBody, make } from '../../setup/factories.ts';
import { wrongCounts } from '../memberships/recount.ts';
import { holdLock, waiting } from '../../setup/bulk-lock.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const sync = (prospects: Prospect[]) => app.db.transaction((sql) => syncProspects(sql, customer.id, prospects));
/** Synchronises one prospect and returns its contact. */
const synced = async (prospect: Prospect) => read((await sync([prospect])).get(prospect._id)!);
const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;
const count = async (what: 'contacts' | 'company'): Promise<number> =>
  (await customer.post(`/${what}/metadata`, {})).body.pagination.total_records;

/** Expects that all counts and memberships equal those computed anew from the rows. */
const expectExact = async (): Promise<void> => expect(await wrongCounts(customer, app.owner)).toEqual([]);

test('a prospect becomes a contact with a country code and a new company', async () => {
  const prospect = person({
    emails: ['ada@engines.example', 'ADA@engines.example', 'ada@mail.example', 'no address'],
    social2_url: 'https://social2.example/ada',
    score: 73,
  });
  const contact = await synced(prospect);
  expect(contact).toMatchObject({
    first_name: 'Ada',
    middle_name: null,
    last_name: 'Lovelace',
    profnet_url: 'https://profnet.example/in/ada',
    social1_url: null,
    social2_url: 'https://social2.example/ada',
    work_email: 'ada@engines.example',
    personal_email: null,
    other_emails: ['ada@mail.example'],
    industry: 'Computing',
    job_title: 'Analyst',
    location_country: 'GB',
    location_postal_code: 'SW1Y 4JH',
    phone_numbers: [],
    mobile_phone: '+44 20 7946 0000',
    company: { company_name: 'Analytical Engines Ltd', industry: 'Computing' },
    score: 73,
    verification_status: 'verified',
    last_verified: prospect.date_verified,
    crm_synced_at: expect.any(String),
    assigned_to: null,
  });
  expect(Math.abs(Date.parse(contact.crm_synced_at) - Date.parse(contact.created_at))).toBeLessThan(60_000);
  expect((await customer.get(`/company/${contact.company.id}`)).body).toMatchObject({ type: '', location_country: '' });
  const found = await customer.post('/contacts/list', { filters: { search: 'ADA engines', industry: 'computing' } });
  expect(found.body.map(({ id }: { id: string }) => id)).toEqual([contact.id]);
  await expectExact();
});

test('a contact with the same work email gets the missing values, and its own values stay', async () => {
  const company = await make(customer, '/company', companyBody({ company_name: 'Own Ltd' }));
  const id = await make(
    customer,
    '/contacts',
    contactBody({
      first_name: 'Augusta',
      middle_name: '',
      work_email: 'ADA@Engines.example',
      job_title: 'Countess',
      other_emails: ['own@mail.example'],
      phone_numbers: [{ country_code: '+44', number: '1' }],
      custom_fields: { plan: 'gold' },
      company: { id: company },
    }),
  );
  const contact = await synced(person({ emails: ['ada@mail.example'], score: 73 }));
  expect(contact).toMatchObject({
    id,
    first_name: 'Augusta',
    middle_name: '',
    last_name: 'Lovelace',
    work_email: 'ADA@Engines.example',
    job_title: 'Countess',
    industry: 'Computing',
    other_emails: ['own@mail.example'],
    phone_numbers: [{ country_code: '+44', number: '1' }],
    mobile_phone: '+44 20 7946 0000',
    location_country: 'GB',
    custom_fields: { plan: 'gold' },
    company: { id: company, company_name: 'Own Ltd' },
    score: 73,
    verification_status: 'verified',
    last_verified: '2026-01-02T03:04:05.678Z',
  });
  expect(contact.crm_synced_at).not.toBeNull();
  expect(contact.updated_at > contact.created_at).toBe(true);
  // The unneeded company is not created.
  expect([await count('contacts'), await count('company')]).toEqual([1, 1]);
});

test('a contact from the same prospect is found by the prospect id, even if its email has changed', async () => {
  const prospect = person();
  const { id } = await synced(prospect);
  await customer.patch(`/contacts/${id}`, { work_email: 'else@where.example', job_title: '', company: null });
  const again = await synced({ ...prospect, job_title: 'Director', verification_status: 'invalid' });
  expect(again).toMatchObject({
    id,
    work_email: 'else@where.example',
    job_title: 'Director',
    company: { company_name: 'Analytical Engines Ltd' },
    verification_status: 'unverified',
  });
  expect([await count('contacts'), await count('company')]).toEqual([1, 1]);
});

test('prospects of one batch that share an email share a contact, and the first prospect takes precedence', async () => {
  const [one, two] = [person({ job_title: '' }), person({ first_name: 'Augusta', job_company_name: 'Other Ltd' })];
  const ids = await sync([one, two, one]);
  expect(new Set(ids.values()).size).toBe(1);
  expect(await read(ids.get(one._id)!)).toMatchObject({
    first_name: 'Ada',
    job_title: 'Analyst',
    company: { company_name: 'Analytical Engines Ltd' },
  });
  expect([await count('contacts'), await count('company')]).toEqual([1, 1]);
  await expectExact();
});

test('prospects without an email, name, company or known country each become a separate contact', async () => {
  const nobody = {
    work_email: '',
    emails: [],
    first_name: '',
    last_name: '',
    job_company_name: '  ',
    location_country: 'Atlantis',
    mobile_phone: null,
    location_postal_code: null,
  };
  const [one, two] = [person(nobody), person({ ...nobody, work_email: 'n/a', emails: ['ada@mail.example'] })];
  const ids = await sync([one, two]);
  expect(await read(ids.get(one._id)!)).toMatchObject({
    first_name: '',
    work_email: '',
    other_emails: null,
    location_country: '',
    company: { id: null },
  });
  expect(await read(ids.get(two._id)!)).toMatchObject({ work_email: '', other_emails: ['ada@mail.example'] });
  expect([await count('contacts'), await count('company')]).toEqual([2, 0]);
});

test('companies are found by folded name, the oldest of several, and created once per batch', async () => {
  const oldest = await make(customer, '/company', companyBody({ company_name: 'STRASSE ag', industry: 'Own' }));
  await make(customer, '/company', companyBody({ company_name: 'straße AG' }));
  const names = ['Straße AG', 'Zoë Ltd', ' zoe  LTD', 'Łódź Sp.', 'Zoë Ltd'];
  const prospects = names.map((job_company_name, i) =>
    person({ job_company_name, work_email: `${i}@engines.example` }),
  );
  const ids = await sync(prospects);
  const companies = await Promise.all(prospects.map(async ({ _id }) => (await read(ids.get(_id)!)).company));
  expect(companies[0]).toMatchObject({ id: oldest, company_name: 'STRASSE ag', industry: 'Own' });
  expect(companies.slice(1).map(({ company_name }) => company_name)).toEqual([
    'Zoë Ltd',
    'Zoë Ltd',
    'Łódź Sp.',
    'Zoë Ltd',
  ]);
  expect(await count('company')).toBe(4);
  await expectExact();
});

test('concurrent batches of one customer create every contact and company once', async () => {
  const shared = Array.from({ length: 30 }, (_, i) =>
    person({ work_email: `${i}@engines.example`, job_company_name: `Company ${i % 7}` }),
  );
  // Other prospects with the same emails, in other orders.
  const batches = Array.from({ length: 8 }, (_, i) =>
    shared
      .map((prospect) => ({ ...prospect, _id: randomUUID() }))
      .toSorted((a, b) => (i % 2 ? 1 : -1) * a.work_email.localeCompare(b.work_email)),
  );
  const posts = Array.from({ length: 14 }, (_, i) =>
    customer.post(
      '/contacts',
      contactBody({ work_email: `post${i}@x.example`, company: { name: `company ${i % 7}` } }),
    ),
  );
  const results = await Promise.all([...batches.map((batch) => sync(batch)), Promise.all(posts)]);
  expect(results.slice(0, -1).map((ids) => (ids as Map<string, string>).size)).toEqual(Array(8).fill(30));
  expect([await count('contacts'), await count('company')]).toEqual([44, 7]);
  await expectExact();
});

test('a batch that finds a company while it is renamed does not create it again', async () => {
  const customer = await app.customer();
  const acme = await make(customer, '/company', { company_name: 'Acme', type: 'x' });
  const names = await holdLock(app, customer, 'names');
  // Finds Acme, then waits to make the other company.
  const created = customer.post('/contacts/batch/create', {
    items: ['Acme', 'Bolt'].map((company) => contactBody({ company: { name: company } })),
  });
  await expect.poll(() => waiting(app), { timeout: 20_000 }).toBe(1);
  expect((await customer.patch(`/company/${acme}`, { company_name: 'Zenith' })).status).toBe(200);
  await names.release();
  expect((await created).body.data.counts.created).toBe(2);
  const { body: companies } = await customer.post('/company/list', {});
  expect(companies.map(({ company_name }: { company_name: string }) => company_name).toSorted()).toEqual([
    'Bolt',
    'Zenith',
  ]);
  const { body: contacts } = await customer.post('/contacts/list', { filters: { company_id: acme } });
  expect(contacts).toHaveLength(1);
});
