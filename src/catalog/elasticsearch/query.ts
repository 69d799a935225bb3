import type { estypes } from '@elastic/elasticsearch';
import type { TextField } from '../../schemas/prospects.ts';
import type { CountedSearch } from '../catalog.ts';
import type { Criterion } from '../criteria.ts';
import { fieldCodes } from '../field-codes.ts';
import type { ProspectOrder, ProspectPosition, SortField } from '../order.ts';
import { foldedField, wordsField } from './index-definitions.ts';
import { idHalvesOf } from './source.ts';

type Query = NonNullable<estypes.SearchRequest['query']>;

/** Texts are compared literally, never parsed as query syntax. */
export const matching = ({ criteria, netNewFor, unlockedBy }: CountedSearch): Query => ({
  bool: {
    filter: [...criteria.map(print), ...(unlockedBy === undefined ? [] : [isUnlocked(unlockedBy)])],
    ...(netNewFor === undefined ? {} : { must_not: isUnlocked(netNewFor) }),
  },
});

const isUnlocked = (customerId: string): Query => ({ term: { unlocked_by: customerId } });

function print(criterion: Criterion): Query {
  switch (criterion.kind) {
    case 'equals':
      return printEquals(criterion);
    case 'words':
      return anyOf(
        criterion.alternatives.map((words) =>
          allOf(words.map((word) => ({ term: { [wordsField(criterion.member)]: word } }))),
        ),
      );
    case 'scores':
      return { range: { score: ends(criterion.gte, criterion.lte) } };
    case 'verified':
      return { range: { date_verified: ends(toMilliseconds(criterion.gte), toMilliseconds(criterion.lte)) } };
    case 'keys':
      return { terms: { k: criterion.keys } };
    case 'named':
      return anyOf(
        criterion.people.map(([first, last, company]) =>
          allOf([
            { term: { [foldedField('last_name')]: last } },
            { term: { [foldedField('first_name')]: first } },
            { term: { [foldedField('job_company_name')]: company } },
          ]),
        ),
      );
    default:
      return { term: { [criterion.what]: Number(criterion.value) } };
  }
}

const fieldOf = (member: SortField | TextField): string => (isText(member) ? foldedField(member) : member);
const isText = (member: string): member is TextField => member in fieldCodes;

/** For the postal code, `""` also matches people without one. */
function printEquals({ member, values }: Extract<Criterion, { kind: 'equals' }>): Query {
  const isOne: Query = { terms: { [fieldOf(member)]: values } };
  if (member !== 'location_postal_code' || !values.includes('')) return isOne;
  return anyOf([isOne, { bool: { must_not: { exists: { field: fieldOf(member) } } } }]);
}

const anyOf = (queries: Query[]): Query =>
  // Elasticsearch takes a `bool` without clauses for everybody.
  queries.length === 0 ? { match_none: {} } : { bool: { should: queries, minimum_should_match: 1 } };
const allOf = (queries: Query[]): Query => ({ bool: { filter: queries } });

const ends = (gte: number | undefined, lte: number | undefined): { gte?: number; lte?: number } => ({
  ...(gte === undefined ? {} : { gte }),
  ...(lte === undefined ? {} : { lte }),
});

const toMilliseconds = (instant: string | undefined): number | undefined =>
  instant === undefined ? undefined : Date.parse(instant);

export const sortBy = (order: ProspectOrder): estypes.SortOptions[] => [
  ...order.map(({ field, direction }): estypes.SortOptions => ({
    [fieldOf(field)]: {
      order: direction === 'DESC' ? 'desc' : 'asc',
      ...(field === 'location_postal_code' ? { missing: '_last' } : {}),
    },
  })),
  { id_high: 'asc' },
  { id_low: 'asc' },
];

export const searchAfter = (order: ProspectOrder, { id, values }: ProspectPosition): estypes.SortResults => [
  ...order.map(({ field }, i) => (field === 'date_verified' ? Date.parse(String(values[i])) : values[i]!)),
  ...idHalvesOf(id),
];
