import { describe, expect, test } from 'vitest';
import { fitToStored } from '../../../src/files/values.ts';
import { contacts, itemsOf, read, readContent, sheetRows } from '../reading.ts';

/** The item of a CSV file with one record. */
async function itemOf(cells: Record<string, string>): Promise<Record<string, unknown>> {
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const csv = `${Object.keys(cells).join(',')}\n${Object.values(cells).map(quote).join(',')}\n`;
  return itemsOf(await read(contacts, csv))[0] as Record<string, unknown>;
}

describe('a phone number in a cell', () => {
  test.each([
    ['DE', '+49 151 12345678', { country_code: '+49', number: '15112345678' }],
    ['', '+49 (0)30 / 901820', { country_code: '+49', number: '30901820' }],
    ['DE', '030 901820', { country_code: '+49', number: '30901820' }],
    ['DE', '0044 20 7946 0018', { country_code: '+44', number: '2079460018' }],
    ['GB', '(020) 7946-0018', { country_code: '+44', number: '2079460018' }],
    ['US', '415-555-2671 x123', { country_code: '+1', number: '4155552671 ext. 123' }],
    ['', '030 901820', { country_code: '', number: '030 901820' }],
    ['', '0049 30 901820', { country_code: '', number: '0049 30 901820' }],
    ['DE', '49351480192', { country_code: '+49', number: '351480192' }],
    ['DE', '04935 1480192', { country_code: '+49', number: '49351480192' }],
    ['IT', '390 809 0531', { country_code: '+39', number: '3908090531' }],
    ['IT', '393908090531', { country_code: '+39', number: '3908090531' }],
    ['DE', 'mornings 030 901820', { country_code: '', number: 'mornings 030 901820' }],
    ['AQ', '030 901820', { country_code: '', number: '030 901820' }],
  ])('with the country %j, %j is read as %j', async (location_country, phone_numbers, number) => {
    expect(await itemOf({ phone_numbers, location_country })).toMatchObject({ phone_numbers: [number] });
  });

  test.each([
    '+49 30 901820; n/a; 0151 12345678',
    'Tel. 030/901820, 0151 12345678',
    '030 901820 (Zentrale) / +49 151 12345678 (privat)',
    "'+4930901820 u. 0151/12345678",
    '030-901820\n0151-12345678',
  ])('is one of several: %j', async (text) => {
    const phone_numbers = ['30901820', '15112345678'].map((number) => ({ country_code: '+49', number }));
    expect(await itemOf({ phone_numbers: text, location_country: 'DE' })).toMatchObject({ phone_numbers });
  });

  test.each([
    ['DE', '0151/12345678', '+4915112345678'],
    ['', '0151/12345678', '0151/12345678'],
  ])('as mobile_phone with the country %j, %j is the text %j', async (location_country, mobile_phone, text) => {
    expect(await itemOf({ mobile_phone, location_country })).toMatchObject({ mobile_phone: text });
  });
});

describe('a cell', () => {
  test.each([
    ['location_country', 'AUT', 'AT'],
    ['location_country', 'A', 'AT'],
    ['location_country', 'U.S.A.', 'US'],
    ['location_country', 'Scotland', 'GB'],
    ['location_country', '日本', 'JP'],
    ['birth_year', '1985', 1985],
    ['birth_year', '1985-03-12T10:00:00+0100', 1985],
    ['birth_year', '12.03.1985', 1985],
    ['work_email', 'Ada Lovelace <ada@example.com>', 'ada@example.com'],
    ['work_email', 'mailto:ada@example.com', 'ada@example.com'],
    ['work_email', "'ada@example.com", "'ada@example.com"],
    ['work_email', "'[ada@example.com].'", 'ada@example.com'],
    ['work_email', "o'hara@example.com", "o'hara@example.com"],
    ['profnet_url', 'www.example.com/in/ada', 'https://www.example.com/in/ada'],
    ['social2_url', '@ada', '@ada'],
    ['job_title', '  Head of Sales ', 'Head of Sales'],
    ['first_name', 'Fay\u200b', 'Fay'],
    ['phone_numbers', '\u2068+1 202-555-0124\u2069', [{ country_code: '+1', number: '2025550124' }]],
  ])('%s with %j is read as %j', async (field, text, value) => {
    expect(await itemOf({ [field]: text })).toEqual({ [field]: value });
  });

  test.each(
    'n/a|N/A|#N/A|#NV|k.A.|NULL|-|—|--|?|0/0/00|00.00.0000|0000-00-00|#N/D|#REF!|#DIV/0!|#NAME?|#ÜBERLAUF!|#¿NOMBRE?'.split(
      '|',
    ),
  )('with %j is empty', async (text) => {
    const cells = { job_title: text, location_country: text, birth_year: text, 'company.name': text };
    expect(await itemOf({ ...cells, phone_numbers: text, other_emails: text })).toEqual({});
  });

  test.each(['phone_numbers', 'other_emails'])('of %s is empty if none of its parts is a value', async (field) => {
    expect(await itemOf({ [field]: ' ; -; n/a' })).toEqual({});
    expect(await itemOf({ [field]: ';' })).toEqual({});
  });

  test('with the 0 of a formula is empty, but in a custom field', async () => {
    const cells = { job_title: '0', location_locality: '0', mobile_phone: '0', 'company.name': '0' };
    expect(await itemOf({ ...cells, 'custom_fields.visits': '0' })).toEqual({ custom_fields: { visits: '0' } });
  });

  test.each<[string, string, string]>([
    ['location_country', 'Germoney', '/location_country "Germoney" is not a country (a name, or a code such as DE)'],
    ['location_country', 'Congo', '/location_country "Congo" is not a country (a name, or a code such as DE)'],
    ['work_email', 'ada@example.com; bob@', '/work_email "bob@" is not an e-mail address'],
    ['birth_year', '15.03.2129', '/birth_year "15.03.2129" is in the future'],
    ...[
      '1985 or 1986',
      '00.01.1900',
      '1900-01-01',
      '0001-01-01',
      '--0315',
      '0312',
      '85',
      '1004-03-15',
      '0004-03-15',
      '1898',
      '15031985',
    ].map((text): [string, string, string] => [
      'birth_year',
      text,
      `/birth_year "${text}" is not a year (such as 1985) or a date with a year`,
    ]),
    [
      'company.domain',
      'https://www.facebook.com/acme',
      '/company/domain "https://www.facebook.com/acme" is a page on a site of many companies',
    ],
    [
      'phone_numbers',
      Array.from({ length: 22 }, (_, i) => `+49 30 9018${20 + i}`).join(';'),
      '/phone_numbers has more than 20 numbers: "+49 30901840", "+49 30901841"',
    ],
    ['mobile_phone', '4,91512E+12', '/mobile_phone "4,91512E+12" is not a phone number'],
    ['mobile_phone', '4915120000000', '/mobile_phone "4915120000000" is not a phone number'],
  ])('%s with %j names the value and what would be right', async (field, text, message) => {
    expect(await itemOf({ [field]: text })).toBe(message);
  });

  test.each([
    ['Prof. Dr. med. Jörg von der Heide', { first_name: 'Jörg', last_name: 'von der Heide' }],
    ['Schäfer, Dr. Ute', { first_name: 'Ute', last_name: 'Schäfer' }],
    ['Herr Dipl.-Ing. Max Weiß', { first_name: 'Max', last_name: 'Weiß' }],
    ['Frau Müller', { last_name: 'Müller' }],
    ['Nat King Cole', { first_name: 'Nat King', last_name: 'Cole' }],
    ['Martin Luther King Jr.', { first_name: 'Martin Luther', last_name: 'King' }],
    ['Lee, AJ', { first_name: 'AJ', last_name: 'Lee' }],
    ['Robert De Niro', { first_name: 'Robert', last_name: 'De Niro' }],
    ['Di Maria Angel', { first_name: 'Di Maria', last_name: 'Angel' }],
    ['María García López', { first_name: 'María García', last_name: 'López' }],
  ])('with the full name %j has neither titles nor degrees in the names', async (full_name, names) => {
    expect(await itemOf({ full_name })).toEqual(names);
  });

  test.each([
    ['ES', 'María García López', { first_name: 'María', last_name: 'García López' }],
    ['ES', 'José Luis García', { first_name: 'José Luis', last_name: 'García' }],
    ['ES', 'María José García de la Cruz', { first_name: 'María José', last_name: 'García de la Cruz' }],
    ['DE', 'Hans Peter Müller', { first_name: 'Hans Peter', last_name: 'Müller' }],
  ])(
    'in the country %s, the full name %j has the last names of its people',
    async (location_country, full_name, names) => {
      expect(await itemOf({ full_name, location_country })).toMatchObject(names);
    },
  );

  test('that is longer than its field is not read', async () => {
    for (const [field, most] of Object.entries({
      job_title: 255,
      full_name: 600,
      location_country: 100,
      profnet_url: 2048,
    }))
      expect(await itemOf({ [field]: 'x'.repeat(most + 1) })).toBe(
        `/${field} "${'x'.repeat(99)}…" is longer than ${most} characters`,
      );
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
    ['number', "12'5", '/custom_fields/v "12\'5" is not a number (such as 1234.5)'],
    ['date', '2024-12-31T23:30:00Z', '2024-12-31'],
    ['date', '31. 12. 2024, 10:30', '2024-12-31'],
    [
      'date',
      '2024-05-06 - 2024-07-08',
      '/custom_fields/v "2024-05-06 - 2024-07-08" is not a date (such as 2024-12-31)',
    ],
    ['date', '6.5.2024 - 8.7.2024', '/custom_fields/v "6.5.2024 - 8.7.2024" is not a date (such as 2024-12-31)'],
  ] as const)('with the type %s, %j is %j: several values never become one', async (type, text, value) => {
    const file = { ...contacts, mapping: { v: { field: 'custom_fields.v', type } } };
    const [item] = itemsOf(await read(file, `v\n"${text}"\n`));
    const isFault = typeof value === 'string' && value.startsWith('/');
    expect(item).toEqual(isFault ? value : { custom_fields: { v: value } });
  });
});

test.each(['1e-7', '1e+21', '1E5', '1.50', '007', '-0', '0.0000001', '1234567890123456', '9007199254740993'])(
  'a column with %s is one of texts, and the text stays as it is',
  async (text) => {
    const file = { ...contacts, mapping: { v: 'custom_fields.v' } };
    expect(itemsOf(await read(file, `v\n1.5\n${text}\n`))).toEqual([
      { custom_fields: { v: '1.5' } },
      { custom_fields: { v: text } },
    ]);
  },
);

test.each(['1e-7', '1e+21', '1E5', '1.50', '007', '0.0000001'])(
  'a column that is given as number reads %s',
  async (text) => {
    const file = { ...contacts, mapping: { v: { field: 'custom_fields.v', type: 'number' as const } } };
    expect(itemsOf(await read(file, `v\n${text}\n`))).toEqual([{ custom_fields: { v: Number(text) } }]);
  },
);

test.each([
  ['31.12.2026 6:30+02:00', '2026-12-31T06:30:00+02:00'],
  ['2026-12-31 18:00:00-05', '2026-12-31T18:00:00-05:00'],
  [
    '2026-12-31 10:00 - 18:00',
    '/close_date "2026-12-31 10:00 - 18:00" is not a date and time (such as 2024-12-31T18:00:00Z)',
  ],
  ['31.12.2026 6:00 PM', '/close_date "31.12.2026 6:00 PM" is not a date and time (such as 2024-12-31T18:00:00Z)'],
])('the closing date %j of a deal is %j', async (text, value) => {
  const [item] = itemsOf(await read({ ...contacts, object: 'opportunities' }, `close_date\n"${text}"\n`));
  expect(item).toEqual(value.startsWith('/') ? value : { close_date: value });
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
    ['both', ['1.200', '2.5', '2,5'], [refused('1.200', '1200 or 1.2000'), 2.5, 2.5]],
  ])('is read by %s: %j', async (_mark, texts, values) => {
    const items = itemsOf(await read(numbers, `v\n${texts.map((text) => `"${text}"`).join('\n')}\n`));
    expect(items).toEqual(values.map((v) => (typeof v === 'number' ? { custom_fields: { v } } : v)));
  });

  test('is a number if a sheet has it as such, and says nothing about texts', async () => {
    const texts = [['v', true] as const, ['1.234', false] as const, ['0.5', false] as const, ['1.200', true] as const];
    const rows = sheetRows(...texts.map(([text, isQuoted]) => [{ text, isQuoted }]));
    expect(itemsOf(await readContent({ ...numbers, format: 'xlsx' }, { rows }))).toEqual([
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
