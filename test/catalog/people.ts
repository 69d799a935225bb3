import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { toDocument } from '../../src/catalog/document.ts';
import { textFields, type Prospect, type ProspectFilters, prospectOrderFields } from '../../src/schemas/prospects.ts';
import { verificationStatuses } from '../../src/schemas/verification.ts';

/** Creates a person with default values. A test only gives the fields that it is about. */
export const person = (more: Partial<Prospect> = {}): Prospect => ({
  _id: randomUUID(),
  first_name: 'Ada',
  last_name: 'Lovelace',
  job_title: 'Analyst',
  job_company_name: 'Analytical Engines Ltd',
  job_company_industry: 'Computing',
  work_email: 'ada@engines.example',
  emails: ['ada@engines.example'],
  mobile_phone: '+44 20 7946 0000',
  location_locality: 'London',
  location_region: 'Greater London',
  location_country: 'United Kingdom',
  location_postal_code: 'SW1Y 4JH',
  social1_url: null,
  profnet_url: 'https://profnet.example/in/ada',
  social2_url: null,
  verification_status: 'verified',
  score: 50,
  date_verified: '2026-01-02T03:04:05.678Z',
  ...more,
});

/** Encodes people and writes them into a catalog. */
export const writePeople = (catalog: Pick<Catalog, 'encode' | 'write'>, people: Iterable<Prospect>): Promise<void> =>
  catalog.write(Array.from(people, (one) => ({ id: one._id, bytes: Buffer.from(catalog.encode(toDocument(one))) })));

/** A few texts, so that random people share them. Several have the same folded form, and they use several scripts. */
const texts = [
  '', 'Zoë', 'zoe', 'ZOË ', 'Straße', 'STRASSE', 'Σίσυφος', 'σισυφοσ', 'İstanbul', 'istanbul', 'ﬁne  print', 'Fine Print', "O'Neil", 'o’neil',
  'foo_bar', 'Foo Bar', 'e-mail', 'C++', 'C#', '東京', '東京都', 'हिन्दी', 'हिंदी', 'Łódź', 'lodz', '👩‍💻 Dev', 'dev', '𝔘nicode', 'a', 'ab', 'abc', 'ß', '½', '10', '१०', '', 'Ａ',
]; // prettier-ignore

const phrase = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...texts) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom(...texts), fc.constantFrom(...texts)).map((two) => two.join(' ')) },
  { weight: 2, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }) },
  {
    weight: 1,
    arbitrary: fc
      .string({ unit: 'binary', maxLength: 8 })
      .filter((text) => !text.includes('\0') && text.isWellFormed()),
  },
);

/** A random text as an import stores it: trimmed. */
const keptText = phrase.map((text) => text.trim());

const instant = fc.date({
  min: new Date('0001-01-01T00:00:00.000Z'),
  max: new Date('9999-12-31T23:59:59.999Z'),
  noInvalidDate: true,
});
const recent = fc.integer({ min: 0, max: 5 }).map((days) => new Date(Date.UTC(2026, 0, 1 + days)));
const email = fc.constantFrom('', 'a@x.example', 'b@y.example');

export const anyPerson: fc.Arbitrary<Prospect> = fc
  .record({
    ...(Object.fromEntries(textFields.map((member) => [member, keptText])) as Record<
      (typeof textFields)[number],
      fc.Arbitrary<string>
    >),
    _id: fc.uuid(),
    work_email: email,
    emails: fc.array(fc.constantFrom('c@z.example', 'd@z.example'), { maxLength: 2 }),
    mobile_phone: fc.option(fc.constantFrom('+1 555 0100', '7')),
    social1_url: fc.option(fc.constant('https://x.example')),
    score: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.constantFrom(0, 50, 100)),
    verification_status: fc.constantFrom(...verificationStatuses),
    date_verified: fc.oneof(instant, recent).map((date) => date.toISOString()),
    from: fc.constantFrom({}, { source: 'Chamber of commerce', collected_at: '2026-01-02T03:04:05.678Z' }),
  })
  .map(({ from, ...drawn }) => person({ ...drawn, ...from, location_postal_code: drawn.location_postal_code || null }));

const values = fc.array(phrase, { maxLength: 3 });
const range = <T>(end: fc.Arbitrary<T>) =>
  fc.record({ gte: fc.option(end), lte: fc.option(end) }, { requiredKeys: [] });

export const anyFilters: fc.Arbitrary<ProspectFilters> = fc.record(
  {
    ...(Object.fromEntries(textFields.map((member) => [member, values])) as Record<(typeof textFields)[number], fc.Arbitrary<string[]>>),
    date_verified: range(fc.oneof(instant, recent).map((date) => date.toISOString())),
    verification_status: fc.subarray([...verificationStatuses]),
    score: range(fc.integer({ min: 0, max: 100 })),
    has_email: fc.boolean(),
    has_phone: fc.boolean(),
  },
  { requiredKeys: [] },
).chain((all) => fc.subarray(Object.keys(all), { maxLength: Math.min(2, Object.keys(all).length) }).map((keys) => Object.fromEntries(keys.map((key) => [key, all[key as keyof ProspectFilters]])))); // prettier-ignore

const sortKey = fc.record({
  field: fc.constantFrom(...Object.keys(prospectOrderFields.types)),
  direction: fc.constantFrom('ASC', 'DESC'),
});

export const anyOrder = fc.option(
  fc.uniqueArray(sortKey, { minLength: 1, maxLength: 3, selector: (key) => key.field }),
  { nil: undefined },
);

export const anySearchText = fc.oneof(phrase, fc.string({ maxLength: 3 }));
