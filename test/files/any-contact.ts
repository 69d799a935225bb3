import * as fc from 'fast-check';

/** Texts that CSV, spreadsheets or our own rules could change. */
export const nasty = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: fc.constantFrom('"', ',', ';', '\t', '\n', '\r', ' ', '\\', 'N', '+', '[', '1', 'é', '\ufeff') }),
  fc.constantFrom(
    '\\N',
    '"\\N"',
    'true',
    'false',
    '1',
    '05',
    '-0',
    '1e5',
    '1.50',
    'null',
    '=1+1',
    '+49',
    '@x',
    '-1',
    ' ',
  ),
  fc.constantFrom('="x"', '=""', '="a""b"', '="=""x"""', '="x', '="a"b"'),
  fc.constantFrom('=HYPERLINK("http://x","y")', '\u0000'.replace('\u0000', '\u0001'), '{"a":1}', '[]', 'a\r\nb'),
);
const orNull = (value: fc.Arbitrary<unknown>) => fc.option(value, { nil: null });
const phone = fc.record({ country_code: fc.oneof(fc.constantFrom('', '+44', '+1', '49'), nasty), number: nasty });
const custom = fc.dictionary(
  fc.oneof(fc.string({ minLength: 1, maxLength: 8 }), fc.constantFrom('prototype', 'constructor', 'a.b')),
  fc.oneof(nasty, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean()),
);
const uuid = fc.uuid();

/** A contact with any values, as responses show it. */
export const contact = fc.record({
  id: uuid,
  first_name: nasty,
  middle_name: orNull(nasty),
  last_name: nasty,
  gender: orNull(nasty),
  birth_year: orNull(fc.integer({ min: 1, max: 9999 })),
  profnet_url: orNull(nasty),
  social1_url: orNull(nasty),
  social2_url: orNull(nasty),
  work_email: fc.constantFrom('', 'a@x.example', 'B+c@x.example'),
  personal_email: orNull(fc.constantFrom('a@x.example', 'n.a@x.example')),
  other_emails: orNull(fc.array(fc.constantFrom('a@x.example', 'b+c@x.example', 'd@x.example'), { maxLength: 3 })),
  industry: nasty,
  job_title: nasty,
  location_locality: nasty,
  location_country: fc.constantFrom('', 'DE', 'GB', 'AQ'),
  location_region: nasty,
  location_postal_code: orNull(nasty),
  phone_numbers: fc.array(phone, { maxLength: 3 }),
  mobile_phone: orNull(nasty),
  custom_fields: custom,
  company: fc.record({ id: orNull(uuid), company_name: nasty, industry: nasty }),
  assigned_to: orNull(uuid),
});

/** What an item of a CSV file cannot say: `""` and `[]` of addresses are empty cells, which are not given. */
export function givenIn(item: Record<string, unknown>): Record<string, unknown> {
  const isGiven = ([name, value]: [string, unknown]): boolean =>
    value !== '' && !(name === 'other_emails' && Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(item).filter(isGiven));
}

/** The values as JSON gives them back, for a comparison that sees the difference between a member and a prototype. */
export const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
