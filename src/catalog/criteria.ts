import { validationFailed } from '../errors.ts';
import { fold, words } from '../fold.ts';
import {
  textMembers,
  wholeMembers,
  wordMembers,
  type FiltersApplied,
  type ProspectFilters,
  type WholeMember,
  type WordMember,
} from '../schemas/prospects.ts';

/** One condition on a prospect, its texts folded: what each engine prints in its own language. */
export type Criterion =
  /** The member is one of the values; `""` also stands for none. */
  | { kind: 'equals'; member: WholeMember | 'verification_status'; values: string[] }
  /** The member has all words of one of the alternatives. */
  | { kind: 'words'; member: WordMember; alternatives: string[][] }
  /** Both ends included. */
  | { kind: 'scores'; gte?: number; lte?: number }
  /** Both ends included; ISO 8601 in UTC. */
  | { kind: 'verified'; gte?: string; lte?: string }
  | { kind: 'has'; what: 'has_email' | 'has_phone'; value: boolean };

/** Words that all alternatives together may have: a cluster refuses queries of more than 1,024 clauses. */
const mostWords = 800;

/**
 * The conditions that a request's filters ask for. An empty array, an empty range and a range's null end ask nothing.
 * @throws DomainError `validation_failed` when the words are too many
 */
export function toCriteria(filters: ProspectFilters): Criterion[] {
  const { has_email, has_phone } = filters;
  const criteria: (Criterion | undefined)[] = [
    ...wholeMembers.map((member) => equals(member, filters[member]?.map(fold))),
    ...wordMembers.map((member) => haveWords(member, filters[member])),
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

const equals = (member: WholeMember | 'verification_status', values?: string[]): Criterion | undefined =>
  values && values.length > 0 ? { kind: 'equals', member, values: [...new Set(values)].sort() } : undefined;

const haveWords = (member: WordMember, values: string[] = []): Criterion | undefined =>
  values.length > 0
    ? { kind: 'words', member, alternatives: distinct(values.map((value) => distinct(words(value)))) }
    : undefined;

/** Sorted, so that what asks the same is the same. */
const distinct = <T extends string | string[]>(values: T[]): T[] =>
  [...new Map(values.map((value) => [JSON.stringify(value), value])).values()].sort((one, other) =>
    String(one) < String(other) ? -1 : 1,
  );

/** Every prospect has all of no words. */
const asksSomething = (criterion: Criterion): boolean =>
  criterion.kind === 'words'
    ? criterion.alternatives.every((alternative) => alternative.length > 0)
    : !(criterion.kind === 'scores' || criterion.kind === 'verified') ||
      criterion.gte !== undefined ||
      criterion.lte !== undefined;

function refuseTooManyWords(criteria: Criterion[]): void {
  const counts = criteria.map((criterion) => (criterion.kind === 'words' ? criterion.alternatives.flat().length : 0));
  if (counts.reduce((sum, count) => sum + count, 0) > mostWords)
    throw validationFailed([{ path: '/filters', message: `must not have more than ${mostWords} words to look for` }]);
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

/** What was asked, each described member present; sent back as `filters`, it asks the same. */
export function filtersApplied(filters: ProspectFilters): FiltersApplied {
  const { gte = null, lte = null } = ends(filters.date_verified, toInstant);
  const { score, verification_status, has_email, has_phone } = filters;
  const asked = Object.entries({ score, verification_status, has_email, has_phone }).filter(
    ([, value]) => value !== undefined,
  );
  return {
    ...(Object.fromEntries(textMembers.map((member) => [member, filters[member] ?? []])) as Pick<
      FiltersApplied,
      WholeMember | WordMember
    >),
    date_verified: { gte, lte },
    ...Object.fromEntries(asked),
  };
}
