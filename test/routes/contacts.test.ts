import { expect, test } from 'vitest';
import { saveVerifications } from '../../src/queries/crm/enrichment.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { contactBody, makeList, unique } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const create = async (more: object = {}): Promise<string> => {
  const answer = await customer.post('/contacts', contactBody(more));
  expect(answer).toMatchObject({ status: 201, body: { success: true, message: expect.any(String) } });
  return answer.body.data.id;
};
const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;
const absent = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

test('a search without letters and digits finds nobody, and adds nobody to alternatives', async () => {
  await create({ first_name: '@@ —' });
  const found = async (filters: object): Promise<number[]> => {
    const rows = (await customer.post('/contacts/list', { filters })).body;
    const { pagination } = (await customer.post('/contacts/metadata', { filters })).body;
    return [rows.length, pagination.total_records];
  };
  for (const search of ['@@', '—', ' ', '']) {
    expect(await found({ search })).toEqual([0, 0]);
    expect(await found({ search, score: 0 })).toEqual([0, 0]);
    expect(await found({ _or: [{ search }, { score: 0 }] })).toEqual([1, 1]);
  }
  expect(await found({ search: '@@ lovelace' })).toEqual([1, 1]);
});

test('a search for a number of five digits or more finds phone numbers, however they are written', async () => {
  const phone = (country_code: string, number: string) => ({ phone_numbers: [{ country_code, number }] });
  const berlin = await create({ first_name: 'Ida', ...phone('+49', '030 123-45 67') });
  const mobile = await create({ first_name: 'Max', mobile_phone: '+49 (0)171/555 66 77' });
  await create({ first_name: 'Eve', ...phone('+44', '20 7946 0000'), job_title: '1234567' });
  const found = async (search: string): Promise<string[]> =>
    (await customer.post('/contacts/list', { filters: { search } })).body.map(({ id }: { id: string }) => id);
  for (const search of [
    '030 1234567',
    '+49 30 1234567',
    '0049 (30) 123 45 67',
    '12345',
    '4567 ida 12345',
    '030/12345',
    '030 – 1234567',
    '| 030 1234567',
  ])
    expect(await found(search), search).toEqual(search === '4567 ida 12345' ? [] : [berlin]);
  for (const search of ['0171 5556677', '+491715556677', 'max 55566', '55566-77 lovelace'])
    expect(await found(search), search).toEqual([mobile]);
  for (const search of ['4567', 'eve 12345', '99999', '00123']) expect(await found(search), search).toEqual([]);
  await customer.patch(`/contacts/${berlin}`, { phone_numbers: [] });
  expect(await found('1234567')).toEqual([]);
});

test('paging reports no pages when there are no contacts, and has a default limit of 25', async () => {
  expect((await customer.post('/contacts/metadata')).body.pagination).toEqual({
    current_page: 1,
    total_records: 0,
    total_pages: 0,
  });
  for (let i = 0; i < 26; i += 1) await create();
  expect((await customer.post('/contacts/list', {})).body).toHaveLength(25);
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_pages).toBe(2);
});

test('an update and a create take null for the work e-mail of a contact that something else identifies', async () => {
  const person = { work_email: null, external_id: null };
  const faults = { status: 400, body: { errors: [{ path: '/work_email' }] } };
  const blanks = [{ phone_numbers: [{ country_code: '+49', number: ' ' }] }, { mobile_phone: ' ' }];
  for (const nobody of [{}, ...blanks])
    expect(await customer.post('/contacts', contactBody({ ...person, ...nobody }))).toMatchObject(faults);
  const known = { external_id: unique('x') };
  const id = await create({ ...person, ...known });
  expect(await read(id)).toMatchObject({ work_email: '', ...known });
  expect(await customer.patch(`/contacts/${id}`, { external_id: null })).toMatchObject(faults);
  expect((await customer.patch(`/contacts/${id}`, { external_id: null, mobile_phone: '+49 30 123456' })).status).toBe(
    200,
  );
  const other = await create({ work_email: 'ada@example.com' });
  for (const nobody of [{}, { profnet_url: 'https://none.example' }, ...blanks])
    expect(await customer.patch(`/contacts/${other}`, { work_email: null, ...nobody })).toMatchObject(faults);
  const cleared = { work_email: null, profnet_url: 'https://profiles.example/in/ada' };
  expect((await customer.patch(`/contacts/${other}`, cleared)).status).toBe(200);
  expect(await read(other)).toMatchObject({ ...cleared, work_email: '' });
});

test.each<[string, (id: string, body: object) => Promise<unknown>]>([
  ['an update', (id, body) => customer.patch(`/contacts/${id}`, body)],
  ['a batch', (id, body) => customer.post('/contacts/batch/update', { items: [{ id, ...body }] })],
])('an update of the work email makes the contact unverified again: %s', async (_, update) => {
  const address = `${unique('ada')}@example.com`;
  const id = await create({ work_email: address });
  const rules = [{ field: 'verification_status', operator: 'equals', value: 'verified' }];
  const list = (await customer.post('/list-contact', { name: unique('Verified'), rules })).body.id;
  await app.db.transaction((sql) =>
    saveVerifications(sql, customer.id, [{ address, status: 'verified', contactId: id }]),
  );
  const verified = await read(id);
  await update(id, { work_email: address.toUpperCase(), job_title: 'Countess' });
  const { verification_status, last_verified } = verified;
  expect(await read(id)).toMatchObject({ verification_status, last_verified, job_title: 'Countess' });
  const count = async () => (await customer.get(`/list-contact/${list}`)).body.contacts_count;
  expect([verification_status, await count()]).toEqual(['verified', 1]);
  await update(id, { work_email: `new-${address}` });
  expect(await read(id)).toMatchObject({ verification_status: 'unverified', last_verified: verified.created_at });
  expect(await count()).toBe(0);
});

test('an update that refers to several unknown records names them all', async () => {
  const id = await create();
  const [company, list, user] = [absent, absent, absent];
  const body = { company: { id: company }, list_ids: [list], assigned_to: user };
  expect(await customer.patch(`/contacts/${id}`, body)).toMatchObject({
    status: 404,
    body: { errors: ['/company/id', '/list_ids/0', '/assigned_to'].map((path) => ({ path })) },
  });
});

test('an update that would exceed the limit of custom_fields is rejected and leaves them unchanged', async () => {
  const fields = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, i]));
  const id = await create({ custom_fields: fields });
  const answer = await customer.patch(`/contacts/${id}`, { custom_fields: { one_more: 1 } });
  expect(answer).toMatchObject({ status: 400, body: { errors: [{ path: '/custom_fields' }] } });
  expect((await read(id)).custom_fields).toEqual(fields);
  expect((await customer.patch(`/contacts/${id}`, { custom_fields: { k0: null, one_more: 1 } })).status).toBe(200);
});

test('ETag and If-Match of contacts are entity tags in quotes: another text is 400, also for a record that does not exist', async () => {
  const id = await create();
  const { etag } = (await customer.get(`/contacts/${id}`)).headers as { etag: string };
  const patch = async (header: string, of = id) =>
    (await customer.patch(`/contacts/${of}`, {}, { 'if-match': header })).status;
  for (const wrong of ['abc', '', ',', `${etag} ${etag}`, `${etag}, abc`, '"', `W/${etag.slice(1)}`, '*, "a"'])
    expect([wrong, await patch(wrong), await patch(wrong, absent)]).toEqual([wrong, 400, 400]);
  const tags = [etag, `"a,b" ,, ${etag}`, ' * ', `W/${etag}`];
  expect(await Promise.all(tags.map((header) => patch(header)))).toEqual([200, 200, 200, 412]);
});

test('ETag and If-Match of contacts cover everything that the response shows: memberships and the company count', async () => {
  const id = await create({ company: { name: unique('Tagged') } });
  const tag = async () => (await customer.get(`/contacts/${id}`)).headers['etag'];
  const first = await tag();
  await customer.patch(`/contacts/${id}`, { list_ids: [await makeList(app.fastify, customer)] });
  const second = await tag();
  await app.owner`update companies set company_name = 'Renamed' where customer_id = ${customer.id} and id = ${(await read(id)).company.id}`;
  expect(new Set([first, second, await tag()]).size).toBe(3);
});
