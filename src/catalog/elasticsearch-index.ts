import { randomBytes } from 'node:crypto';
import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../config.ts';
import { textMembers, wordMembers, type TextMember, type WordMember } from '../schemas/prospects.ts';
import { memberLetters, type Letter } from './member-letters.ts';

/** The names under which a catalog stands in its cluster. */
export interface Names {
  /** Alias of the index that is searched. */
  people: string;
  /** Alias of every index that must learn of unlocks: the one that is searched, and one that is being built. */
  everywhere: string;
  /** Alias of the index of suggestions. */
  values: string;
}

/**
 * How people are kept. It goes up with any change of the fields, of folding or of the usual spelling: who keeps them in
 * another way does not find a catalog, rather than misread it, and two can stand side by side.
 */
const layout = 1;

export const namesOf = ({ ELASTICSEARCH_INDEX }: Config): Names => {
  const people = `${ELASTICSEARCH_INDEX}-v${layout}`;
  return { people, everywhere: `${people}-everywhere`, values: `${people}-values` };
};

/** A name for a new index. That it is new does not depend on the clock. */
export const newIndex = (alias: string): string => `${alias}-${Date.now()}-${randomBytes(4).toString('hex')}`;

/** Whether the name of an index is one that the service gives to an index behind this alias. */
export const isNamedFor = (index: string, alias: string): boolean =>
  index.startsWith(`${alias}-`) && /^\d+(-[0-9a-f]{8})?$/.test(index.slice(alias.length + 1));

/** The alias through which an index is written to: that index alone has it, so that nothing else can be written in its place. */
export const writeAlias = (index: string): string => `${index}-writes`;

type Properties = Record<string, estypes.MappingProperty>;

/** Compared as bytes: texts come folded and split into words. */
const keyword: estypes.MappingProperty = { type: 'keyword' };
/** Looked for, never sorted by. */
const term: estypes.MappingProperty = { type: 'keyword', doc_values: false };
/** Counted or sorted by, never looked for. */
const column: estypes.MappingProperty = { type: 'keyword', index: false };
/** Sorted by, never looked for. */
const half: estypes.MappingProperty = { type: 'long', index: false };
/** A number of few values: to look through its column costs a search less than a tree of it costs a load. */
const small: estypes.MappingProperty = { type: 'byte', index: false };

/** A member's folded form. */
export const foldedField = <M extends TextMember>(member: M): Letter<M> => memberLetters[member];
/** The words of that. */
export const wordsField = <M extends WordMember>(member: M): `${Letter<M>}w` => `${memberLetters[member]}w`;
/** A member as it was given, where that is not its usual spelling. */
export const spelledField = <M extends TextMember>(member: M): `${Letter<M>}s` => `${memberLetters[member]}s`;

const perMember = <M extends TextMember>(
  members: readonly M[],
  name: (member: M) => string,
  property: estypes.MappingProperty,
): Properties => Object.fromEntries(members.map((member) => [name(member), property]));

const copies = (config: Config): estypes.IndicesIndexSettings => ({
  number_of_shards: config.ELASTICSEARCH_SHARDS,
  number_of_replicas: config.ELASTICSEARCH_REPLICAS,
});

/**
 * How soon is seen what was written; what must be seen is refreshed at once. Every refresh ends a segment: fewer make larger
 * ones, which a load need not merge, and which are faster to search; but a load waits for the last of them.
 */
export const refreshIntervals = { atRest: '5s', whileLoading: '30s' } as const;

/** People, sorted as they are listed by default, so that a page ends the search early. The index is made to be loaded. */
export const peopleIndex = (
  config: Config,
): { settings: estypes.IndicesIndexSettings; mappings: estypes.MappingTypeMapping } => ({
  settings: {
    ...copies(config),
    refresh_interval: refreshIntervals.whileLoading,
    sort: { field: ['score', 'id_high', 'id_low'], order: ['desc', 'asc', 'asc'] },
  },
  mappings: {
    dynamic: 'strict',
    // The source is kept whole: what is left out of it the cluster keeps a second time, for its copies, and sorts and
    // merges both.
    properties: {
      details: { type: 'object', enabled: false },
      id_high: half,
      id_low: half,
      ...perMember(textMembers, foldedField, keyword),
      ...perMember(wordMembers, wordsField, term),
      ...perMember(textMembers, spelledField, column),
      verification_status: keyword,
      score: small,
      // Milliseconds since 1970.
      date_verified: { type: 'long' },
      has_email: small,
      has_phone: small,
      unlocked_by: term,
    },
  },
});

/** Values to suggest, the most frequent first. */
export const valuesIndex = (
  config: Config,
): { settings: estypes.IndicesIndexSettings; mappings: estypes.MappingTypeMapping } => ({
  settings: {
    ...copies(config),
    number_of_shards: 1,
    refresh_interval: '-1',
    sort: { field: ['people', 'value', 'member'], order: ['desc', 'asc', 'asc'] },
  },
  mappings: {
    dynamic: 'strict',
    properties: { member: keyword, value: column, people: { type: 'long' }, words: term },
  },
});
