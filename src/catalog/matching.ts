import { type CountryCodes, countryCodes } from '../files/phones.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { fold, isPlaceholder } from '../text/fold.ts';
import { type CatalogReads, type Search, type Criterion, type NamedPerson, bestFirst } from './catalog.ts';
import { keyOfEmail, keysOf, storedKeysOfProfile } from './document.ts';
import { validationFailed } from '../errors.ts';
import type { ProspectMatch, ProspectMatches } from '../schemas/clean-data.ts';
import { maskLocked, type ProspectServices } from './prospects.ts';

export interface MatchQuery {
  /** E-mail addresses to match. Only for enrichment, which is paid: a free match would confirm guessed addresses. */
  emails?: readonly string[];
  profnet_url?: string | null | undefined;
  first_name?: string | undefined;
  last_name?: string | undefined;
  company_name?: string | undefined;
  /** Code or name of a country. Used only to choose between several people. */
  location_country?: string | undefined;
}

type MatchedOn = 'email' | 'profnet_url' | 'name_and_company' | 'location_country';

export interface Match {
  found: Prospect[];
  matchedOn: MatchedOn[];
}

const maxCandidates = 5;
const maxFound = 1_000;

type Reads = Pick<CatalogReads, 'search'>;

/**
 * Finds each person in the catalog by exact comparison. Tries an e-mail address, then the profile URL, then the names
 * with the company. Stops at the first of these that finds people. Both engines return the same.
 * @returns a match for each of `wanted`, in the same order
 * @throws DomainError `unavailable` if the catalog does not respond in time
 */
export async function matchPeople(
  catalog: Reads,
  wanted: readonly MatchQuery[],
  codeOf: CountryCodes,
): Promise<Match[]> {
  const matches = wanted.map((): Match => ({ found: [], matchedOn: [] }));
  for (const step of steps) {
    const open = [...wanted.keys()].filter((i) => matches[i]!.found.length === 0);
    const people = await findAll(
      catalog,
      step,
      open.map((i) => wanted[i]!),
    );
    for (const [n, i] of open.entries())
      if (people[n]!.length > 0) matches[i] = { found: people[n]!, matchedOn: [step.name] };
  }
  return matches.map((match, i) => decided(match, wanted[i]!, codeOf));
}

interface Step {
  name: MatchedOn;
  valuesOf: (wanted: MatchQuery) => string[];
  valuesIn: (prospect: Prospect) => string[];
  criterion: (values: string[]) => Criterion;
}

const byKeys = (values: string[]): Criterion => ({ kind: 'keys', keys: values });

const steps: readonly Step[] = [
  {
    name: 'email',
    valuesOf: ({ emails = [] }) => emails.flatMap((email) => keyOfEmail(email) ?? []),
    valuesIn: keysOf,
    criterion: byKeys,
  },
  {
    name: 'profnet_url',
    valuesOf: ({ profnet_url: url }) => storedKeysOfProfile(url ?? ''),
    valuesIn: ({ profnet_url: url }) => storedKeysOfProfile(url ?? ''),
    criterion: byKeys,
  },
  {
    name: 'name_and_company',
    valuesOf: ({ first_name = '', last_name = '', company_name = '' }) =>
      nameValue([first_name, last_name, company_name]),
    valuesIn: ({ first_name, last_name, job_company_name }) => nameValue([first_name, last_name, job_company_name]),
    criterion: (values) => ({ kind: 'named', people: values.map((value) => JSON.parse(value) as NamedPerson) }),
  },
];

const nameValue = (names: NamedPerson): string[] =>
  names.some(isPlaceholder) ? [] : [JSON.stringify(names.map(fold))];

async function findAll(catalog: Reads, step: Step, wanted: readonly MatchQuery[]): Promise<Prospect[][]> {
  const values = [...new Set(wanted.flatMap(step.valuesOf))].sort();
  const byValue = new Map<string, Prospect[]>();
  if (values.length > 0) await findInto(byValue, catalog, step, values);
  return wanted.map((one) => {
    const found = step.valuesOf(one).flatMap((value) => byValue.get(value) ?? []);
    return found.length < 2 ? found : [...new Map(found.map((person) => [person._id, person])).values()].sort(bestOf);
  });
}

const bestOf = (one: Prospect, other: Prospect): number => other.score - one.score || (one._id < other._id ? -1 : 1);

/**
 * Finds people with these values, and adds them to `byValue`. If the result may be incomplete, searches for each half
 * of the values.
 */
async function findInto(byValue: Map<string, Prospect[]>, catalog: Reads, step: Step, values: string[]): Promise<void> {
  const found = await catalog.search(searchFor(step.criterion(values)), { limit: maxFound });
  if (found.length === maxFound && values.length > 1) {
    const half = Math.ceil(values.length / 2);
    await findInto(byValue, catalog, step, values.slice(0, half));
    return findInto(byValue, catalog, step, values.slice(half));
  }
  const asked = new Set(values);
  for (const person of found)
    for (const value of step.valuesIn(person))
      if (asked.has(value)) byValue.set(value, [...(byValue.get(value) ?? []), person]);
}

const searchFor = (criterion: Criterion): Search => ({ criteria: [criterion], order: bestFirst });

function decided({ found, matchedOn }: Match, { location_country: country = '' }: MatchQuery, codeOf: CountryCodes) {
  const shown = (people: Prospect[], on = matchedOn): Match => ({
    found: people.slice(0, maxCandidates),
    matchedOn: on,
  });
  if (found.length < 2 || country === '') return shown(found);
  const compatriots = found.filter(({ location_country }) => isSameCountry(location_country, country, codeOf));
  return compatriots.length === 0 ? shown(found) : shown(compatriots, [...matchedOn, 'location_country']);
}

function isSameCountry(one: string, other: string, codeOf: CountryCodes): boolean {
  const [a, b] = [codeOf(one), codeOf(other)];
  return a === '' && b === '' ? fold(one) === fold(other) : a === b;
}

/**
 * Finds people in the catalog. Masks contact data of prospects that the customer has not unlocked.
 * @throws DomainError `validation_failed` if a person has neither a profile URL nor names and a company; `unavailable`
 * if the catalog does not respond in time
 */
export async function matchProspects(
  services: ProspectServices,
  customerId: string,
  { people }: ProspectMatch,
): Promise<ProspectMatches> {
  const lacking = people.flatMap((person, i) =>
    identifiesSomebody(person)
      ? []
      : [{ path: `/people/${i}`, message: 'needs a profile URL, or both names and a company' }],
  );
  if (lacking.length > 0) throw validationFailed(lacking);
  const matches = await matchPeople(services.catalog, people, await countryCodes());
  const found = await maskLocked(
    services,
    customerId,
    matches.flatMap((match) => match.found),
  );
  const shown = new Map(found.map((prospect) => [prospect._id, prospect]));
  return { results: matches.map((match, index) => resultOf(index, match, (id) => shown.get(id)!)) };
}

const identifiesSomebody = ({ profnet_url, first_name, last_name, company_name }: MatchQuery): boolean =>
  isGiven(profnet_url) || (isGiven(first_name) && isGiven(last_name) && isGiven(company_name));

const isGiven = (text: string | null | undefined): boolean => (text ?? '').trim() !== '';

type Result = ProspectMatches['results'][number];

function resultOf(
  index: number,
  { found, matchedOn }: Match,
  shown: (id: string) => NonNullable<Result['prospect']>,
): Result {
  const matched_on = matchedOn as Result['matched_on'];
  const [first, ...others] = found.map(({ _id }) => shown(_id));
  if (!first) return { index, status: 'none', matched_on };
  if (others.length === 0) return { index, status: 'matched', prospect: first, matched_on };
  return { index, status: 'ambiguous', candidates: [first, ...others], matched_on };
}
