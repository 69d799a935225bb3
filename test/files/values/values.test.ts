import { describe, expect, test } from 'vitest';
import { rowLine } from '../../../src/files/record-formats.ts';
import { fitToStored } from '../../../src/files/values/values.ts';
import { contacts, itemsOf, read } from '../reading.ts';

/** The item of a CSV file with one record. */
async function itemOf(cells: Record<string, string>): Promise<Record<string, unknown>> {
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const csv = `${Object.keys(cells).join(',')}\n${Object.values(cells).map(quote).join(',')}\n`;
  return itemsOf(await read(contacts, csv))[0] as Record<string, unknown>;
}

describe('a phone number in a cell', () => {
  test.each([
    ['DE', '+49 151 12345678', { country_code: '+49', number: '15112345678' }],
    ['', '+4915112345678', { country_code: '+49', number: '15112345678' }],
    ['', '+49 (0)30 / 901820', { country_code: '+49', number: '30901820' }],
    ['', '(+49) 30 901820', { country_code: '+49', number: '30901820' }],
    ['DE', '030 901820', { country_code: '+49', number: '30901820' }],
    ['DE', '0044 20 7946 0018', { country_code: '+44', number: '2079460018' }],
    ['GB', '(020) 7946-0018', { country_code: '+44', number: '2079460018' }],
    ['US', '(415) 555-2671', { country_code: '+1', number: '4155552671' }],
    ['US', '415-555-2671 x123', { country_code: '+1', number: '4155552671 ext. 123' }],
    ['', '030 901820', { country_code: '', number: '030 901820' }],
    ['', '0049 30 901820', { country_code: '', number: '0049 30 901820' }],
    ['DE', '49351480192', { country_code: '+49', number: '351480192' }],
    ['DE', '49 151 12345678', { country_code: '+49', number: '15112345678' }],
    ['DE', '04935 1480192', { country_code: '+49', number: '49351480192' }],
    ['DE', '0711-12-30', { country_code: '+49', number: '7111230' }],
    ['IT', '390 809 0531', { country_code: '+39', number: '3908090531' }],
    ['IT', '3908090531', { country_code: '+39', number: '3908090531' }],
    ['IT', '393908090531', { country_code: '+39', number: '3908090531' }],
    ['PL', '483033294', { country_code: '+48', number: '483033294' }],
    ['NO', '47123456', { country_code: '+47', number: '47123456' }],
    ['DE', '12345', { country_code: '', number: '12345' }],
    ['DE', 'mornings 030 901820', { country_code: '', number: 'mornings 030 901820' }],
    ['AQ', '030 901820', { country_code: '', number: '030 901820' }],
  ])('with the country %j, %j is read as %j', async (location_country, phone_numbers, number) => {
    expect(await itemOf({ phone_numbers, location_country })).toMatchObject({ phone_numbers: [number] });
  });

  test('is one of several, or JSON, which means what it says', async () => {
    expect(await itemOf({ phone_numbers: '+49 30 901820; n/a; +33 1 42 68 53 00' })).toEqual({
      phone_numbers: [
        { country_code: '+49', number: '30901820' },
        { country_code: '+33', number: '142685300' },
      ],
    });
    const [office, mobile] = ['30901820', '15112345678'].map((number) => ({ country_code: '+49', number }));
    for (const text of [
      'Tel. 030/901820, 0151 12345678',
      '030 901820 (Zentrale) / +49 151 12345678 (privat)',
      "'+4930901820 u. 0151/12345678",
      '030-901820\n0151-12345678',
    ])
      expect(await itemOf({ phone_numbers: text, location_country: 'DE' })).toMatchObject({
        phone_numbers: [office, mobile],
      });
    const json = [{ country_code: '+49', number: '(0)30 / 901820' }];
    expect(await itemOf({ phone_numbers: JSON.stringify(json) })).toEqual({ phone_numbers: json });
  });

  test.each([
    ['', '+49 (0)151 12345678', '+4915112345678'],
    ['DE', '0151/12345678', '+4915112345678'],
    ['', '0151/12345678', '0151/12345678'],
    ['US', '415-555-2671 x123', '415-555-2671 x123'],
  ])('as mobile_phone with the country %j, %j is the text %j', async (location_country, mobile_phone, text) => {
    expect(await itemOf({ mobile_phone, location_country })).toMatchObject({ mobile_phone: text });
  });
});

describe('a cell', () => {
  test.each([
    ['location_country', 'Deutschland', 'DE'],
    ['location_country', ' united states ', 'US'],
    ['location_country', 'AUT', 'AT'],
    ['location_country', 'Wales', 'GB'],
    ['location_country', 'A', 'AT'],
    ['birth_year', '1985', 1985],
    ['birth_year', '2129', 2129],
    ['birth_year', '30.12.1898', 1898],
    ['birth_year', '12.03.1985', 1985],
    ['birth_year', '1985-03-12T00:00:00.000Z', 1985],
    ['birth_year', '3 March 1985', 1985],
    ['work_email', 'Ada Lovelace <ada@example.com>', 'ada@example.com'],
    ['work_email', 'mailto:ada@example.com', 'ada@example.com'],
    ['work_email', "'[ada@example.com].'", 'ada@example.com'],
    ['work_email', "o'hara@example.com", "o'hara@example.com"],
    ['profnet_url', 'www.example.com/in/ada', 'https://www.example.com/in/ada'],
    ['profnet_url', 'http://example.com', 'http://example.com'],
    ['social2_url', '@ada', '@ada'],
    ['job_title', '  Head of Sales ', 'Head of Sales'],
    ['last_name', ' N/A ', 'N/A'],
    ['external_id', ' x ', ' x '],
  ])('%s with %j is read as %j', async (field, text, value) => {
    expect(await itemOf({ [field]: text })).toEqual({ [field]: value });
  });

  test.each(
    'n/a|N/A|#N/A|#NV|k.A.|NULL|-|—|--|?|0/0/00|00.00.0000|0000-00-00|#N/D|#REF!|#DIV/0!|#NAME?|#ÜBERLAUF!|#¿NOMBRE?'.split(
      '|',
    ),
  )('with %j is empty', async (text) => {
    const cells = { job_title: text, location_country: text, birth_year: text, phone_numbers: text };
    expect(await itemOf({ ...cells, 'company.name': text })).toEqual({ phone_numbers: [] });
  });

  test('with the 0 of a formula is empty, but in a custom field', async () => {
    const cells = { job_title: '0', location_locality: '0', mobile_phone: '0', 'company.name': '0' };
    expect(await itemOf({ ...cells, 'custom_fields.visits': '0' })).toEqual({ custom_fields: { visits: '0' } });
  });

  test.each([
    ['location_country', 'Germoney', '/location_country "Germoney" is no country (a name, or a code such as DE)'],
    ['birth_year', '1985 or 1986', '/birth_year "1985 or 1986" is no year (such as 1985) and no date with a year'],
    ['work_email', 'ada@example.com; bob@', '/work_email "bob@" is no e-mail address'],
    ['birth_year', '00.01.1900', '/birth_year "00.01.1900" is no year (such as 1985) and no date with a year'],
    ['birth_year', '01.01.1900', '/birth_year "01.01.1900" is no year (such as 1985) and no date with a year'],
    ['birth_year', '1900-01-01', '/birth_year "1900-01-01" is no year (such as 1985) and no date with a year'],
    ['birth_year', '1899-12-30', '/birth_year "1899-12-30" is no year (such as 1985) and no date with a year'],
    ['birth_year', '01.01.0001', '/birth_year "01.01.0001" is no year (such as 1985) and no date with a year'],
    ['birth_year', '0001-01-01', '/birth_year "0001-01-01" is no year (such as 1985) and no date with a year'],
    ['birth_year', '15.03.2129', '/birth_year "15.03.2129" is in the future'],
    ['mobile_phone', '2034-12-06', '/mobile_phone "2034-12-06" is no phone number'],
    ['profnet_url', 'none', '/profnet_url "none" is no web address (such as https://example.com)'],
    ['phone_numbers', '1234', '/phone_numbers "1234" is no phone number'],
    ['mobile_phone', '4,91512E+12', '/mobile_phone "4,91512E+12" is no phone number'],
    ['mobile_phone', '4915120000000', '/mobile_phone "4915120000000" is no phone number'],
    ['phone_numbers', '491512000000', '/phone_numbers "491512000000" is no phone number'],
    ['birth_year', '1604-03-15', '/birth_year "1604-03-15" is no year (such as 1985) and no date with a year'],
    ['mobile_phone', 'on request', '/mobile_phone "on request" is no phone number'],
    ['work_email', 'ada at example', '/work_email "ada at example" is no e-mail address'],
  ])('%s with %j names the value and what would be right', async (field, text, message) => {
    expect(await itemOf({ [field]: text })).toBe(message);
  });

  test.each([
    ['Prof. Dr. med. Jörg von der Heide', { first_name: 'Jörg', last_name: 'von der Heide' }],
    ['Schäfer, Dr. Ute', { first_name: 'Ute', last_name: 'Schäfer' }],
    ['Herr Dipl.-Ing. Max Weiß', { first_name: 'Max', last_name: 'Weiß' }],
    ['Frau Müller', { last_name: 'Müller' }],
    ['Nat King Cole', { first_name: 'Nat King', last_name: 'Cole' }],
    ['Dr.', { last_name: 'Dr.' }],
  ])('with the full name %j has no title in the first name', async (full_name, names) => {
    expect(await itemOf({ full_name })).toEqual(names);
  });

  test('with several e-mail addresses gives the others to other_emails', async () => {
    const work_email = 'nobody; ada@example.com:::a.l@example.com ada@example.com';
    expect(await itemOf({ work_email, other_emails: 'b@example.com' })).toEqual({
      work_email: 'ada@example.com',
      other_emails: ['b@example.com', 'a.l@example.com'],
    });
  });
});

describe('a cell of a custom field', () => {
  test.each([
    ['number', '1 234,5', 1234.5],
    ['number', '− 1’234’567', -1234567],
    ['number', '10 20', '/custom_fields/v "10 20" is no number (such as 1234.5)'],
    ['number', "12'5", '/custom_fields/v "12\'5" is no number (such as 1234.5)'],
    ['date', '2024-12-31T23:30:00Z', '2024-12-31'],
    ['date', '31. 12. 2024, 10:30', '2024-12-31'],
    ['date', '2024-05-06 - 2024-07-08', '/custom_fields/v "2024-05-06 - 2024-07-08" is no date (such as 2024-12-31)'],
    ['date', '6.5.2024 - 8.7.2024', '/custom_fields/v "6.5.2024 - 8.7.2024" is no date (such as 2024-12-31)'],
  ] as const)('with the type %s, %j is %j: several values never become one', async (type, text, value) => {
    const file = { ...contacts, mapping: { v: { field: 'custom_fields.v', type } } };
    const [item] = itemsOf(await read(file, `v\n"${text}"\n`));
    const isFault = typeof value === 'string' && value.startsWith('/');
    expect(item).toEqual(isFault ? value : { custom_fields: { v: value } });
  });
});

describe('a number with one point or comma before three digits', () => {
  const numbers = { ...contacts, mapping: { v: { field: 'custom_fields.v', type: 'number' } } } as const;
  const refused = (text: string, choice: string) =>
    `/custom_fields/v "${text}" can be two numbers: write it as ${choice}`;

  test.each([
    ['the comma of others', ['1.200', '-12,5'], [1200, -12.5]],
    ['the thousands of others', ['1.200', '2.345.678'], [1200, 2_345_678]],
    ['the point of others', ['1,200', '12.345', '0.5'], [1200, 12.345, 0.5]],
    ['none', ['1.200', '950'], [refused('1.200', '1200 or 1.2000'), 950]],
    ['none', ['-12,345'], [refused('-12,345', '-12345 or -12.3450')]],
    ['both', ['1.200', '2.5', '2,5'], [refused('1.200', '1200 or 1.2000'), 2.5, 2.5]],
  ])('is read by %s: %j', async (_mark, texts, values) => {
    const items = itemsOf(await read(numbers, `v\n${texts.map((text) => `"${text}"`).join('\n')}\n`));
    expect(items).toEqual(values.map((v) => (typeof v === 'number' ? { custom_fields: { v } } : v)));
  });

  test('is a number if a sheet has it as such, and says nothing about texts', async () => {
    const rows = [['v', true] as const, ['1.234', false] as const, ['0.5', false] as const, ['1.200', true] as const];
    const sheet = rows.map(([text, isText]) => `${rowLine([[0, text, isText]])}\n`).join('');
    expect(itemsOf(await read({ ...numbers, format: 'xlsx' }, sheet))).toEqual([
      { custom_fields: { v: 1.234 } },
      { custom_fields: { v: 0.5 } },
      refused('1.200', '1200 or 1.2000'),
    ]);
  });
});

describe('for a stored record', () => {
  test('a value that is exactly what it holds stays as it is', async () => {
    const stored = {
      phone_numbers: [{ country_code: '+49', number: '(0)30 / 901820' }],
      mobile_phone: '0151 12345678',
    };
    const cells = { phone_numbers: '+49 (0)30 / 901820', mobile_phone: '0151 12345678', location_country: 'DE' };
    expect(fitToStored(await itemOf(cells), { ...stored, location_country: 'DE' })).toMatchObject(stored);
  });

  test('a phone number is read for its country, if the file has none', async () => {
    const item = await itemOf({ phone_numbers: '030 901820', mobile_phone: '0151 12345678' });
    expect(fitToStored(item, { location_country: 'DE', phone_numbers: [] })).toMatchObject({
      phone_numbers: [{ country_code: '+49', number: '30901820' }],
      mobile_phone: '+4915112345678',
    });
  });

  test('further addresses of a cell join those that it has', async () => {
    const item = await itemOf({ work_email: 'a@example.com; b@example.com' });
    expect(fitToStored(item, { other_emails: ['c@example.com'] })).toMatchObject({
      other_emails: ['c@example.com', 'b@example.com'],
    });
  });
});
