import { de, en, en_GB, es, Faker, fr, it, ja, nl, pl, pt_BR, sv, tr, type LocaleDefinition } from '@faker-js/faker';
import type { Prospect } from '../schemas/prospects.ts';

export interface Random {
  next(): number;
  below(below: number): number;
  pick<T>(among: readonly T[]): T;
  /**
   * Returns an item by Zipf's law: the n-th item is about n times rarer than the first, as with real names and cities.
   */
  pickZipf<T>(among: readonly T[]): T;
  zipf(below: number): number;
}

/** Creates a generator that uses sfc32 (from PractRand, by Chris Doty-Humphrey), which is small and fast. */
export function seeded(seed: number): Random {
  let [a, b, c, d] = [0x9e3779b9, 0x243f6a88, seed | 0, 1];
  const next = (): number => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return (t >>> 0) / 0x1_0000_0000;
  };
  for (let i = 0; i < 16; i += 1) next();
  const below = (limit: number): number => Math.floor(next() * limit);
  // Inverse transform sampling. For Zipf's exponent 1 the inverse of the distribution function is a power of the limit.
  const zipf = (limit: number): number => Math.floor((limit + 1) ** next()) - 1;
  return {
    next,
    below,
    zipf,
    pick: (among) => among[below(among.length)]!,
    pickZipf: (among) => among[zipf(among.length)]!,
  };
}

const countries: [name: string, locale: LocaleDefinition, domain: string, dialling: string][] = [
  ['United States', en, 'com', '+1'],
  ['United Kingdom', en_GB, 'co.uk', '+44'],
  ['Germany', de, 'de', '+49'],
  ['France', fr, 'fr', '+33'],
  ['Spain', es, 'es', '+34'],
  ['Brazil', pt_BR, 'com.br', '+55'],
  ['Italy', it, 'it', '+39'],
  ['Netherlands', nl, 'nl', '+31'],
  ['Poland', pl, 'pl', '+48'],
  ['Sweden', sv, 'se', '+46'],
  ['Türkiye', tr, 'com.tr', '+90'],
  ['Japan', ja, 'co.jp', '+81'],
];

const industries = [
  'Information Technology', 'Financial Services', 'Health Care', 'Retail', 'Manufacturing', 'Construction', 'Education',
  'Real Estate', 'Marketing & Advertising', 'Logistics', 'Insurance', 'Telecommunications', 'Automotive', 'Food & Beverages',
  'Energy', 'Biotechnology', 'Legal Services', 'Hospitality', 'Aerospace & Defense', 'Agriculture',
]; // prettier-ignore
const levels = [
  '', 'Senior', '', 'Head of', '', 'Junior', 'VP', 'Lead', 'Director of', 'Principal', 'Chief', 'Assistant', 'Regional', 'Interim',
]; // prettier-ignore
const functions = [
  'Software Engineer', 'Sales Manager', 'Account Executive', 'Project Manager', 'Marketing Manager', 'Product Manager', 'Data Analyst',
  'Human Resources', 'Operations', 'Customer Success', 'Finance', 'Business Development', 'Quality Assurance', 'Procurement', 'Legal Counsel',
  'Research Scientist', 'Graphic Designer', 'Supply Chain', 'Information Security', 'Office Administrator', 'Nurse', 'Architect', 'Recruiter',
  'Site Reliability Engineer', 'UX Designer', 'Controller', 'Business Analyst', 'Plant Manager', 'Event Planner', 'Technical Writer',
]; // prettier-ignore
const suffixes = [
  'Inc', 'Group', 'Ltd', 'GmbH', '& Sons', 'Holdings', 'Partners', 'AG', 'S.A.', 'Labs', 'Systems', 'International',
]; // prettier-ignore

interface Country {
  name: string;
  domain: string;
  dialling: string;
  firstNames: string[];
  lastNames: string[];
  places: { locality: string; region: string; postal: string }[];
}

interface Company {
  name: string;
  industry: string;
  domain: string;
}

/**
 * Generates people with a realistic distribution: a few names, titles, companies and places are frequent, many are
 * rare. The same `count` and `seed` always give the same people.
 */
export function* generatePeople(count: number, seed: number): Generator<Prospect> {
  // All domains end with `.example`, so none of the addresses can exist (RFC 2606, section 2).
  const random = seeded(seed);
  const world = countries.map((country, i) => makeCountry(random, country, seed + i));
  const companies = makeCompanies(random, world, Math.min(Math.max(Math.ceil(count / 20), 50), 100_000));
  for (let i = 0; i < count; i += 1) yield makePerson(random, world, companies);
}

function makeCountry(random: Random, [name, locale, domain, dialling]: (typeof countries)[number], seed: number) {
  const faker = new Faker({ locale: [locale, en], seed });
  const distinct = (count: number, make: () => string): string[] => [...new Set(Array.from({ length: count }, make))];
  const localities = distinct(600, () => faker.location.city());
  const regions = distinct(40, () => faker.location.state());
  const places = localities.map((locality) => ({
    locality,
    region: random.pickZipf(regions),
    postal: faker.location.zipCode(),
  }));
  const firstNames = distinct(800, () => faker.person.firstName());
  return { name, domain, dialling, firstNames, lastNames: distinct(3000, () => faker.person.lastName()), places };
}

function makeCompanies(random: Random, world: Country[], count: number): Company[] {
  return Array.from({ length: count }, () => {
    const country = random.pickZipf(world);
    const first = random.pick(country.lastNames);
    const name = `${random.below(3) === 0 ? `${first} & ${random.pick(country.lastNames)}` : first} ${random.pickZipf(suffixes)}`;
    return { name, industry: random.pickZipf(industries), domain: `${slug(name)}.${country.domain}.example` };
  });
}

const slugs = new Map<string, string>();

function slug(text: string): string {
  const known = slugs.get(text);
  if (known !== undefined) return known;
  const latin =
    text
      .normalize('NFKD')
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '') || `x${Buffer.from(text).toString('hex').slice(0, 12)}`;
  if (slugs.size > 50_000) slugs.clear();
  slugs.set(text, latin);
  return latin;
}

function makePerson(random: Random, world: Country[], companies: Company[]): Prospect {
  const country = random.pickZipf(world);
  const place = random.pickZipf(country.places);
  const company = random.pickZipf(companies);
  const first_name = random.pickZipf(country.firstNames);
  const last_name = random.pickZipf(country.lastNames);
  const handle = `${slug(first_name)}.${slug(last_name)}`;
  const work_email = random.below(100) < 92 ? `${handle}@${company.domain}` : '';
  const _id = uuid(random);
  return {
    _id,
    first_name,
    last_name,
    job_title: `${random.pickZipf(levels)} ${random.pickZipf(functions)}`.trim(),
    job_company_name: company.name,
    job_company_industry: company.industry,
    work_email,
    emails:
      work_email === ''
        ? []
        : random.below(4) === 0
          ? [work_email, `${handle}${random.below(100)}@mail.example`]
          : [work_email],
    mobile_phone:
      random.below(100) < 70
        ? `${country.dialling} ${100 + random.below(900)} ${1_000_000 + random.below(9_000_000)}`
        : null,
    location_locality: place.locality,
    location_region: place.region,
    location_country: country.name,
    location_postal_code: random.below(10) === 0 ? null : place.postal,
    social1_url: random.below(5) === 0 ? `https://social1.example/${handle}` : null,
    profnet_url: `https://profnet.example/in/${handle}-${_id.slice(0, 8)}`,
    social2_url: random.below(3) === 0 ? `https://social2.example/${handle}` : null,
    verification_status: random.pickZipf(['verified', 'unverified', 'accept_all', 'unknown', 'invalid'] as const),
    // The sum of two random numbers, so that medium scores are the most frequent.
    score: Math.round((random.next() + random.next()) * 50),
    date_verified: new Date(newest - random.below(2 * 365 * 86_400) * 1_000).toISOString(),
  };
}

const newest = Date.parse('2026-06-30T12:00:00Z');

function uuid(random: Random): string {
  const hex = (digits: number): string =>
    random
      .below(16 ** digits)
      .toString(16)
      .padStart(digits, '0');
  return `${hex(8)}-${hex(4)}-4${hex(3)}-${(8 + random.below(4)).toString(16)}${hex(3)}-${hex(6)}${hex(6)}`;
}

/** Yields people as JSON text, in chunks of about 64 KiB: one array if `asArray`, else NDJSON. */
export function* textOf(people: Iterable<Prospect>, asArray = false): Generator<string> {
  const [open, between, close] = asArray ? ['[', ',\n', ']\n'] : ['', '\n', '\n'];
  let text = open;
  let first = true;
  for (const person of people) {
    text += (first ? '' : between) + JSON.stringify(person);
    first = false;
    if (text.length < 65_536) continue;
    yield text;
    text = '';
  }
  yield text + close;
}
