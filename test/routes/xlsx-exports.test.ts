import { expect, test } from 'vitest';
import { openExport } from '../../src/files/write-records.ts';
import { exportContacts } from '../../src/queries/crm/contacts.ts';
import { maxReadableKeys, maxXlsxRecords } from '../../src/schemas/files.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, dbOf, make } from '../setup/factories.ts';
import { readSheet, type ReadSheet } from '../setup/xlsx.ts';

const app = await startApp();

const customer = customerOfEachTest(app);

const listWith = async (body: object): Promise<string> => (await customer.post('/list-contact', body)).body.id;

async function exported(path: string, body: object): Promise<ReadSheet> {
  const { status, headers, body: file } = await customer.post(`${path}/export`, { format: 'xlsx', ...body });
  expect(status).toBe(200);
  const noun = path === '/contacts' ? 'contacts' : 'companies';
  expect(headers).toMatchObject({
    'content-type': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    'content-disposition': `attachment; filename="${noun}.xlsx"`,
  });
  return readSheet(file);
}

test('an XLSX file for people of contacts: titles that are bold and stay in view, and what people ask for, without ids', async () => {
  const company = await make(customer, '/company', companyBody({ company_name: 'Engines', industry: 'Steam' }));
  const [fairs, deleted] = [await listWith({ name: 'Fairs' }), await listWith({ name: 'Deleted' })];
  await listWith({
    name: 'By rule',
    rules: [{ field: 'last_name', operator: 'equals', value: 'Lovelace' }],
  });
  const [owner] = (await customer.get('/customer/users')).body as { id: string; email: string }[];
  const id = await make(
    customer,
    '/contacts',
    contactBody({
      first_name: '=Ada',
      last_name: 'Lovelace',
      work_email: 'ada@example.com',
      other_emails: ['a@example.com', 'b@example.com'],
      phone_numbers: [{ country_code: '+44', number: '20 7946 0000' }],
      company: { id: company },
      location_country: 'GB',
      job_title: '',
      birth_year: 1815,
      list_ids: [fairs, deleted, await listWith({ name: 'Abroad' })],
      assigned_to: owner!.id,
      custom_fields: { plan: '007', seats: 12.5, trial: false, Score: 'high' },
    }),
  );
  await customer.delete(`/list-contact/${deleted}`);
  const { body: shown } = await customer.get(`/contacts/${id}`);
  const sheet = await exported('/contacts', {});
  expect(sheet).toMatchObject({ name: 'Contacts', frozenRows: 1 });
  expect(sheet.boldHeaders.every(Boolean)).toBe(true);
  expect(sheet.records).toEqual([
    {
      'First name': '=Ada',
      'Last name': 'Lovelace',
      'Work e-mail': 'ada@example.com',
      'Other e-mails': 'a@example.com; b@example.com',
      'Phone numbers': '+44 20 7946 0000',
      Company: 'Engines',
      'Industry of the company': 'Steam',
      'Assigned to': owner!.email,
      Country: 'GB',
      'Year of birth': 1815,
      'E-mail status': 'unverified',
      Score: 0,
      Lists: 'Abroad; Fairs',
      'Last verified': new Date(shown.last_verified),
      Created: new Date(shown.created_at),
      'Last changed': new Date(shown.updated_at),
      // Its key is the title of another column.
      'custom_fields.Score': 'high',
      plan: '007',
      seats: 12.5,
      trial: false,
    },
  ]);
  expect(sheet.headers.slice(-4)).toEqual(['custom_fields.Score', 'plan', 'seats', 'trial']);
  for (const text of [id, company]) expect(JSON.stringify(sheet)).not.toContain(text);
});

test('readable fields in CSV are named as imports name them', async () => {
  await make(customer, '/contacts', contactBody({ first_name: 'Ada', custom_fields: { plan: '7' } }));
  const { status, body } = await customer.post('/contacts/export', { format: 'csv', fields: 'readable' });
  expect(status).toBe(200);
  const [header, row] = (body as string).split('\r\n');
  expect(header).toMatch(
    /^first_name,middle_name,.*,company\.name,company\.industry,.*,list_names,.*,custom_fields\.plan$/,
  );
  expect(row).toMatch(/^Ada,.*,"7"$/);
});

const faultOf = async (format: 'csv' | 'xlsx' | 'ndjson', fields: string | undefined, count: number, keys = 0) => {
  const records = exportContacts(dbOf(app.fastify), customer.id, {});
  const many = {
    ...records,
    count: async () => count,
    readKeys: async () => Array.from({ length: keys }, (_, i) => ({ key: `${i}`, label: `${i}` })),
  };
  return openExport(many, { format, fields }).then(
    () => undefined,
    (error) => error.faults,
  );
};

test('an export is rejected if its format cannot hold what matches: too many records, custom fields of a sheet, or readable NDJSON', async () => {
  expect(await faultOf('xlsx', undefined, maxXlsxRecords)).toBeUndefined();
  expect(await faultOf('xlsx', 'all', maxXlsxRecords + 1)).toEqual([
    { path: '/format', message: expect.stringContaining('at most 200,000 records, and 200,001 match') },
  ]);
  expect(await faultOf('csv', 'readable', maxXlsxRecords + 1)).toBeUndefined();
  expect(await faultOf('xlsx', undefined, 1, maxReadableKeys)).toBeUndefined();
  expect(await faultOf('csv', 'readable', 1, maxReadableKeys + 1)).toEqual([
    { path: '/fields', message: expect.stringContaining('more than 1,000') },
  ]);
  const answer = await customer.post('/contacts/export', { format: 'ndjson', fields: 'readable' });
  expect(answer).toMatchObject({ status: 400, body: { code: 'validation_failed', errors: [{ path: '/fields' }] } });
});
