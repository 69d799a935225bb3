import type { Random } from '../../src/commands/generate-people.ts';
import { sharedIndustry, sharedPrefix, type Json } from './model.ts';

/** Random values of the fields of records, with holes: a field may be missing, null, empty or a value. */

/** Texts whose folded form is known (test/filters/pools.ts). They have Latin letters only: see `plainFold`. */
const texts = ['Ada', 'ÁDA', 'ada lovelace', 'Zoë', 'zz', 'a'] as const;
const years = [1915, 1980, 1990, 1999, 2001] as const;
const countries = ['GB', 'gb', 'De', 'FR', ''] as const;
const plans = ['gold', 'Silver', 'none'] as const;

export const chance = (random: Random, percent: number): boolean => random.below(100) < percent;

/** Returns an id in lower case, upper case or a mixture. */
export function anyCase(random: Random, id: string): string {
  const kind = random.below(4);
  if (kind === 0) return id.toUpperCase();
  if (kind > 1) return id;
  return [...id].map((letter, i) => (i % 2 === 0 ? letter.toUpperCase() : letter)).join('');
}

/** Returns some of the items, each once. */
export function someOf<T>(random: Random, items: readonly T[], atMost: number): T[] {
  const wanted = Math.min(items.length, random.below(atMost + 1));
  return [...new Set(Array.from({ length: wanted }, () => random.pick(items)))];
}

const text = (random: Random): string => (chance(random, 15) ? '' : random.pick(texts));
const orNull =
  (value: (random: Random) => unknown) =>
  (random: Random): unknown =>
    chance(random, 25) ? null : value(random);

export const phones = (random: Random): Json[] =>
  Array.from({ length: random.below(4) }, () => ({
    country_code: random.pick(['+44', '+49', '']),
    number: `${random.below(9_000_000) + 1_000_000}`,
  }));

type Values = Record<string, (random: Random) => unknown>;

const contactValues: Values = {
  middle_name: orNull(text),
  gender: orNull(text),
  birth_year: orNull((random) => random.pick(years)),
  profnet_url: orNull(() => 'https://profnet.example/ada'),
  social1_url: orNull(() => 'https://social1.example/ada'),
  other_emails: orNull((random) => (chance(random, 20) ? [] : ['ada@example.com', 'o.neil@example.org'])),
  industry: text,
  job_title: text,
  location_locality: text,
  location_country: (random) => random.pick(countries),
  location_region: text,
  location_postal_code: orNull(text),
  phone_numbers: phones,
  mobile_phone: orNull(text),
};

const companyValues: Values = {
  size: text,
  industry: text,
  social1_url: orNull(() => 'https://social1.example/works'),
  location_locality: orNull(text),
  location_metro: orNull(text),
  location_region: orNull(text),
  location_country: (random) => random.pick(countries),
};

/** Returns some of the values: each field is given with the probability `percent`. */
function withHoles(random: Random, values: Values, percent: number): Json {
  const given = Object.entries(values).filter(() => chance(random, percent));
  return Object.fromEntries(given.map(([name, value]) => [name, value(random)]));
}

/** Returns custom fields. In a patch, a null removes a key. */
function customFields(random: Random, isPatch: boolean): Json {
  const values: Values = {
    plan: (one) => one.pick(plans),
    seats: (one) => one.below(10) + 1,
    "it's": (one) => one.pick(texts).trim(),
  };
  const given = Object.entries(withHoles(random, values, 50));
  return Object.fromEntries(given.map(([name, value]) => [name, isPatch && chance(random, 30) ? null : value]));
}

const maybeCustomFields = (random: Random, isPatch: boolean): Json =>
  chance(random, 40) ? { custom_fields: customFields(random, isPatch) } : {};

export const contactFields = (random: Random, isPatch: boolean): Json => ({
  ...withHoles(random, contactValues, 30),
  ...(isPatch && !chance(random, 40) ? {} : { first_name: random.pick([' ', '']) + random.pick(texts) }),
  ...maybeCustomFields(random, isPatch),
});

export const companyFields = (random: Random, isPatch: boolean): Json => ({
  ...withHoles(random, companyValues, 30),
  ...maybeCustomFields(random, isPatch),
});

/** Returns the name in another spelling with the same folded form. */
export const respelled = (random: Random, name: string): string =>
  random.pick([name, name.toUpperCase(), name.replaceAll('o', 'Ó'), ` ${name.replaceAll(' ', '  ')} `]);

/** Returns the name of a company that all callers share or, more often, that only the caller with this tag uses. */
export function companyName(random: Random, tag: string): string {
  const name = chance(random, 30) ? `${sharedPrefix}works ${random.below(4)}` : `works ${random.below(5)} of ${tag}`;
  return respelled(random, name);
}

/** Returns a company by name, as a contact's body has it. */
export function namedCompany(random: Random, tag: string): Json {
  const name = companyName(random, tag);
  if (name.trim().toLowerCase().startsWith(sharedPrefix.trim()) || /^\s*[oóÓ]urs/i.test(name))
    return { name, industry: sharedIndustry(name) };
  return chance(random, 50) ? { name } : { name, industry: random.pick(texts) };
}

/** Returns rules that match some contacts of the customer, whoever made them. */
export function rules(
  random: Random,
  { users, companyIds, tag }: { users: string[]; companyIds: string[]; tag: string },
): Json[] {
  const pool = [
    ['first_name', 'equals', 'ada'],
    ['first_name', 'contains', 'O'],
    ['first_name', 'is_not_empty', ''],
    ['last_name', 'contains', tag.toUpperCase()],
    ['middle_name', 'starts_with', 'z'],
    ['job_title', 'in', 'áda, ZZ'],
    ['job_title', 'is_empty', ''],
    ['industry', 'not_equals', 'zoe'],
    ['industry', 'ends_with', 'E'],
    ['location_country', 'equals', 'gb'],
    ['birth_year', 'greater_than', '1985'],
    ['birth_year', 'less_or_equal', '1990'],
    ['mobile_phone', 'is_not_empty', ''],
    ['external_id', 'is_not_empty', ''],
    ['work_email', 'contains', 'ADA'],
    ['company.company_name', 'contains', `works ${random.below(5)}`],
    ['company.company_name', 'equals', companyName(random, tag)],
    ['company.company_name', 'is_empty', ''],
    ['company.industry', 'equals', 'Zoë'],
    ['company.industry', 'contains', 'ours'],
    ['custom_fields.plan', 'equals', 'GOLD'],
    ['custom_fields.plan', 'not_in', 'gold,silver'],
    ['custom_fields.seats', 'greater_than', '5'],
    ['assigned_to', 'is_empty', ''],
    ['assigned_to', 'equals', random.pick(users).toUpperCase()],
    ...companyIds.slice(0, 2).map((id) => ['company_id', 'equals', id.toUpperCase()]),
  ] as const;
  return Array.from({ length: 1 + random.below(3) }, (_, i) => {
    const [field, operator, value] = random.pick(pool);
    return {
      field,
      operator,
      value,
      ...(i > 0 && chance(random, 60) ? { logic_operator: random.pick(['AND', 'OR']) } : {}),
    };
  });
}
