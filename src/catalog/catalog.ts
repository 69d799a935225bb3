import type { Column, Words } from '../filters/columns.ts';
import { prospectTable, textFields, exactFields, wordFields } from '../schemas/prospects.ts';
import type {
  Prospect,
  FiltersApplied,
  ProspectFilters,
  ExactField,
  WordField,
  Suggestion,
  SuggestionQuery,
} from '../schemas/prospects.ts';
import { foldedOf, hasEmail, type CatalogDocument } from './document.ts';
import { validationFailed } from '../errors.ts';
import { fold, words } from '../text/fold.ts';
import type { ConcurrencyLimiter } from '../access/concurrency-limiter.ts';
import type { Requester } from '../access/credentials.ts';

type Table = typeof prospectTable;
export type SortField = { [Name in keyof Table]: Table[Name] extends { filter: string } ? Name : never }[keyof Table];

/** A sort field and its direction. Null values come last in both directions. */
export interface SortKey {
  field: SortField;
  direction: 'ASC' | 'DESC';
}

export type ProspectOrder = readonly SortKey[];

export type SortValue = string | number | null;

export interface ProspectPosition {
  id: string;
  values: SortValue[];
}

export const bestFirst: ProspectOrder = [{ field: 'score', direction: 'DESC' }];

export const positionOf = (prospect: Prospect, order: ProspectOrder): ProspectPosition => ({
  id: prospect._id,
  values: order.map(({ field }) => sortValue(prospect, field)),
});

function sortValue(prospect: Prospect, field: SortField): SortValue {
  switch (field) {
    case 'score':
    case 'date_verified':
    case 'verification_status':
      return prospect[field];
    case 'has_email':
      return Number(hasEmail(prospect));
    case 'has_phone':
      return Number(prospect.mobile_phone !== null);
    default:
      return foldedOf(prospect, field);
  }
}

export const isNullable = (field: SortField): boolean => field === 'location_postal_code';

export const cursorColumns = (order: ProspectOrder): Column[] =>
  order.map(({ field }) => ({
    type: prospectTable[field].filter,
    value: field,
    raw: field,
    required: !isNullable(field),
  }));

export type Criterion =
  /** Matches people whose field equals one of the values. `""` also matches people without this field. */
  | { kind: 'equals'; member: ExactField | 'verification_status'; values: string[] }
  /**
   * Matches people whose field contains all words of at least one alternative. Without alternatives, nobody matches.
   */
  | { kind: 'words'; member: WordField; alternatives: Words[] }
  | { kind: 'scores'; gte?: number; lte?: number }
  | { kind: 'verified'; gte?: string; lte?: string }
  | { kind: 'has'; what: 'has_email' | 'has_phone'; value: boolean }
  | { kind: 'keys'; keys: string[] }
  | { kind: 'named'; people: NamedPerson[] };

export type NamedPerson = [first: string, last: string, company: string];

/**
 * Maximum number of words in all `words` conditions of a search. Each word becomes a clause, and Elasticsearch rejects
 * queries with over 1,024 clauses.
 */
const maxWords = 800;

/**
 * Converts filters to search conditions. Ignores empty arrays, and ranges without bounds.
 * @throws DomainError `validation_failed` for more than `maxWords` words
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

function haveWords(field: WordField, values: string[] = []): Criterion | undefined {
  const alternatives = distinct(values.map((value) => distinct(words(value))).filter(hasWords));
  return values.length > 0 ? { kind: 'words', member: field, alternatives } : undefined;
}

const hasWords = (found: string[]): found is Words => found.length > 0;

const distinct = <T extends string | string[]>(values: T[]): T[] =>
  [...new Map(values.map((value) => [JSON.stringify(value), value])).values()].sort((a, b) =>
    String(a) < String(b) ? -1 : 1,
  );

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
 * Returns the filters as the response repeats them: text fields and `date_verified` always, other fields only if given.
 * A new request with them matches the same people.
 */
export function filtersApplied(filters: ProspectFilters): FiltersApplied {
  const { gte = null, lte = null } = ends(filters.date_verified, toInstant);
  const { score, verification_status, has_email, has_phone } = filters;
  const asked = Object.entries({ score, verification_status, has_email, has_phone }).filter(
    ([, value]) => value !== undefined,
  );
  const texts = Object.fromEntries(textFields.map((field) => [field, filters[field] ?? []]));
  return {
    ...(texts as Pick<FiltersApplied, ExactField | WordField>),
    date_verified: { gte, lte },
    ...Object.fromEntries(asked),
  };
}

export interface Search {
  criteria: Criterion[];
  order: ProspectOrder;
  netNewFor?: string | undefined;
}

export type CountedSearch = Pick<Search, 'criteria'> &
  ({ netNewFor?: string | undefined; unlockedBy?: never } | { netNewFor?: never; unlockedBy: string });

export interface PageWindow {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/** Maximum product of page number and page size. Later pages need a cursor. */
export const maxPageDepth = 10_000;

export interface CatalogStatus {
  engine: 'postgres' | 'elasticsearch';
  people: number;
  suggestions: number;
  details: Record<string, string | number>;
}

/**
 * Returns a detail of `catalog status`: the number of people whom searches by profile URL and e-mail address miss. An
 * earlier release stored these people without keys. A reindex adds them.
 */
export const unkeyedDetail = (people: number): Record<string, number> =>
  people === 0 ? {} : { 'not matched by profile and e-mail until a reindex': people };

export interface CatalogReads {
  search(search: Search, window: PageWindow): Promise<Prospect[]>;
  count(search: CountedSearch): Promise<number>;
  /** Returns people in no particular order. Skips unknown ids. */
  find(ids: string[]): Promise<Prospect[]>;
  /**
   * Returns at most ten values of one text field or of all, the most frequent first. Each word of the search text must
   * begin a word of the value.
   */
  suggest(query: SuggestionQuery): Promise<Suggestion[]>;
}

/**
 * The store of all prospects. Its own reads are only for internal work; a customer's request uses the reads of `for`.
 */
export interface Catalog extends CatalogReads {
  readonly engine: 'postgres' | 'elasticsearch';
  readonly name: string;
  readonly limiters: readonly ConcurrencyLimiter[];

  for(requester: Requester): CatalogReads;

  /**
   * Copies the committed unlocks of these people from PostgreSQL, and marks them as indexed. Searches see them after
   * `refresh`.
   * @throws DomainError `unavailable` if some could not be written in time; these are not marked as indexed
   */
  syncUnlocks(ids: string[]): Promise<void>;
  refresh(): Promise<void>;
  isUp(): Promise<boolean>;

  /**
   * Prepares for writes. Call it once before the first write.
   * @returns the incarnation, an id of the stored data. If it changes, people who were written earlier may be missing
   * @throws DomainError `unavailable` if an operator must first repair the index, which is blocked, closed, or not
   * behind its alias
   */
  prepare(): Promise<string>;
  encode(document: CatalogDocument): string;
  /**
   * Adds people, or replaces those with the same id. Keeps their unlocks. Resolves when all are stored.
   * @param people with distinct ids
   * @throws DomainError `unavailable` if the catalog does not respond in time, or its index no longer exists
   */
  write(people: EncodedPerson[]): Promise<void>;
  /** Returns those of the given ids that the catalog contains. Includes people who were just written. */
  findStored(ids: string[]): Promise<string[]>;
  people(): AsyncIterable<Prospect[]>;
  remove(ids: string[]): Promise<number>;
  /**
   * Deletes the remains of removed people, such as old versions of rows, documents and suggestions. Call it after
   * `finish`.
   */
  purge(): Promise<void>;
  /**
   * Ends an import. Makes all people visible to searches, and counts the suggested values again.
   * @returns the number of people in the catalog
   * @throws DomainError `unavailable` if the catalog does not respond in time, or was replaced during the import
   */
  finish(): Promise<number>;
  /**
   * Rebuilds the search index from its people and the unlocks in PostgreSQL. Deletes suppressed people. Searches use the
   * old index until the end.
   * @param progress awaited after each batch; if it throws, the reindex ends with this error
   * @returns the number of people in the new index
   * @throws DomainError `unavailable` if the catalog does not respond in time, or was replaced
   */
  reindex(progress: (done: number, total: number) => Promise<void> | void): Promise<number>;
  status(): Promise<CatalogStatus>;

  close(): Promise<void>;
}
