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

/**
 * One condition of a search for prospects. It can be translated into SQL and into an Elasticsearch query. Its texts are
 * in lower case and without accents.
 */
export type Criterion =
  /** Condition: the field `member` equals one of the values. The value `""` also matches people without this field. */
  | { kind: 'equals'; member: ExactField | 'verification_status'; values: string[] }
  /**
   * Condition: the text field `member` contains all words of at least one of the alternatives. Without alternatives,
   * nobody matches.
   */
  | { kind: 'words'; member: WordField; alternatives: Words[] }
  /** Condition: the score is in this range, both ends included. */
  | { kind: 'scores'; gte?: number; lte?: number }
  /** Condition: `date_verified` is in this range, both ends included. The ends are ISO 8601 texts in UTC. */
  | { kind: 'verified'; gte?: string; lte?: string }
  | { kind: 'has'; what: 'has_email' | 'has_phone'; value: boolean };

/**
 * The maximum total number of words in the `words` conditions of one search. Each word becomes a clause of the query,
 * and Elasticsearch rejects queries with over 1,024 clauses.
 */
const maxWords = 800;

/**
 * Converts the filters of a request to search conditions. Ignores empty arrays, empty ranges, and ends of ranges that
 * are null.
 * @throws DomainError `validation_failed` if the filters have more than 800 words
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

/** Returns false for the words of a value without letters and digits. Such a value matches nobody. */
const hasWords = (found: string[]): found is Words => found.length > 0;

/** Returns the values sorted and without duplicates, so that equivalent filters give identical conditions. */
const distinct = <T extends string | string[]>(values: T[]): T[] =>
  [...new Map(values.map((value) => [JSON.stringify(value), value])).values()].sort((a, b) =>
    String(a) < String(b) ? -1 : 1,
  );

/** Returns true if a condition can exclude prospects. Returns false for a range without ends, which excludes nobody. */
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
 * Returns the filters of a request as the response shows them. Text fields and `date_verified` are always included,
 * other filters only if the request has them. A client can send the result as `filters` in a new request, and gets the
 * same matches.
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
