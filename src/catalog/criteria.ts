import { validationFailed } from '../errors.ts';
import {
  textFields,
  exactFields,
  wordFields,
  type FiltersApplied,
  type ProspectFilters,
  type ExactField,
  type WordField,
} from '../schemas/prospects.ts';
import type { Words } from '../filters/tree.ts';
import { fold, words } from '../text/fold.ts';

/** A condition for SQL or for an Elasticsearch query. Its texts are folded. */
export type Criterion =
  /** The field equals one of the values. `""` also matches people without this field. */
  | { kind: 'equals'; member: ExactField | 'verification_status'; values: string[] }
  /** The field contains all words of at least one alternative. Without alternatives, nobody matches. */
  | { kind: 'words'; member: WordField; alternatives: Words[] }
  /** Both ends included. */
  | { kind: 'scores'; gte?: number; lte?: number }
  /** `date_verified` is in this range, both ends included: ISO 8601 in UTC. */
  | { kind: 'verified'; gte?: string; lte?: string }
  | { kind: 'has'; what: 'has_email' | 'has_phone'; value: boolean }
  /** The person has one of these keys (`match-keys.ts`). */
  | { kind: 'keys'; keys: string[] }
  /** The person has all three names of one of these people. */
  | { kind: 'named'; people: NamedPerson[] };

/** The folded first name, last name and company name of a person. */
export type NamedPerson = [first: string, last: string, company: string];

/**
 * Words in all `words` conditions of a search. Each becomes a clause, and Elasticsearch rejects queries with over
 * 1,024.
 */
const maxWords = 800;

/**
 * Ignores empty arrays, empty ranges, and ends of ranges that are null.
 * @throws DomainError `validation_failed` for more than 800 words
 */
export function toCriteria(filters: ProspectFilters): Criterion[] {
  const { has_email, has_phone } = filters;
  const criteria: (Criterion | undefined)[] = [
    ...exactFields.map((field) => equals(field, filters[field]?.map(fold))),
    ...wordFields.map((field) => haveWords(field, filters[field])),
    equals('verification_status', filters.verification_status),
    { kind: 'scores', ...ends(filters.score, (score) => score) },
    { kind: 'verified', ...ends(filters.date_verified, toInstant) },
    has_email === undefined ? undefined : { kind: 'has', what: 'has_email', value: has_email },
    has_phone === undefined ? undefined : { kind: 'has', what: 'has_phone', value: has_phone },
  ];
  const asked = criteria.filter((criterion) => criterion !== undefined).filter(asksSomething);
  refuseTooManyWords(asked);
  return asked;
}

const equals = (field: ExactField | 'verification_status', values?: string[]): Criterion | undefined =>
  values && values.length > 0 ? { kind: 'equals', member: field, values: [...new Set(values)].sort() } : undefined;

const haveWords = (field: WordField, values: string[] = []): Criterion | undefined =>
  values.length > 0
    ? {
        kind: 'words',
        member: field,
        alternatives: distinct(values.map((value) => distinct(words(value))).filter(hasWords)),
      }
    : undefined;

/** A value without letters and digits has no words, and matches nobody. */
const hasWords = (found: string[]): found is Words => found.length > 0;

/** Sorted, so that equivalent filters give identical conditions. */
const distinct = <T extends string | string[]>(values: T[]): T[] =>
  [...new Map(values.map((value) => [JSON.stringify(value), value])).values()].sort((a, b) =>
    String(a) < String(b) ? -1 : 1,
  );

/** False for a range without ends, which excludes nobody. */
const asksSomething = (criterion: Criterion): boolean =>
  !(criterion.kind === 'scores' || criterion.kind === 'verified') ||
  criterion.gte !== undefined ||
  criterion.lte !== undefined;

function refuseTooManyWords(criteria: Criterion[]): void {
  const counts = criteria.map((criterion) => (criterion.kind === 'words' ? criterion.alternatives.flat().length : 0));
  if (counts.reduce((sum, count) => sum + count, 0) > maxWords)
    throw validationFailed([{ path: '/filters', message: `must not have more than ${maxWords} words in total` }]);
}

function ends<T, U>(
  range: { gte?: T | null; lte?: T | null } | undefined,
  convert: (end: T) => U,
): { gte?: U; lte?: U } {
  const { gte, lte } = range ?? {};
  return {
    ...(gte === undefined || gte === null ? {} : { gte: convert(gte) }),
    ...(lte === undefined || lte === null ? {} : { lte: convert(lte) }),
  };
}

const toInstant = (text: string): string => new Date(text.toUpperCase()).toISOString();

/**
 * Returns the filters as the response shows them: text fields and `date_verified` always, others only if the request
 * has them. Sent as `filters` of a new request, they match the same.
 */
export function filtersApplied(filters: ProspectFilters): FiltersApplied {
  const { gte = null, lte = null } = ends(filters.date_verified, toInstant);
  const { score, verification_status, has_email, has_phone } = filters;
  const asked = Object.entries({ score, verification_status, has_email, has_phone }).filter(
    ([, value]) => value !== undefined,
  );
  return {
    ...(Object.fromEntries(textFields.map((field) => [field, filters[field] ?? []])) as Pick<
      FiltersApplied,
      ExactField | WordField
    >),
    date_verified: { gte, lte },
    ...Object.fromEntries(asked),
  };
}
