import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../config.ts';
import { textMembers, wordMembers, type Prospect } from '../schemas/prospects.ts';
import type { CatalogDocument } from './document.ts';

/** The names under which a catalog stands in its cluster. */
export interface Names {
  /** Alias of the index that is searched. */
  people: string;
  /** Alias of every index that must learn of unlocks: the one that is searched, and one that is being built. */
  everywhere: string;
  /** Alias of the index of suggestions. */
  values: string;
}

export const namesOf = ({ ELASTICSEARCH_INDEX: prefix }: Config): Names => ({
  people: prefix,
  everywhere: `${prefix}-everywhere`,
  values: `${prefix}-values`,
});

/** A name for a new index, later than all before. */
export const newIndex = (alias: string): string => `${alias}-${Date.now()}`;

type Properties = Record<string, estypes.MappingProperty>;

/** Compared as bytes: texts come folded and split into words. */
const keyword: estypes.MappingProperty = { type: 'keyword' };
/** Looked for, never sorted by. */
const term: estypes.MappingProperty = { type: 'keyword', doc_values: false };
/** Counted or sorted by, never looked for. */
const column: estypes.MappingProperty = { type: 'keyword', index: false };

export const wordsField = (member: string): string => `${member}_words`;
export const spellingField = (member: string): string => `${member}_spelling`;

const perMember = (
  members: readonly string[],
  name: (member: string) => string,
  property: estypes.MappingProperty,
): Properties => Object.fromEntries(members.map((member) => [name(member), property]));

const copies = (config: Config): estypes.IndicesIndexSettings => ({
  number_of_shards: config.ELASTICSEARCH_SHARDS,
  number_of_replicas: config.ELASTICSEARCH_REPLICAS,
});

/** People, sorted as they are listed by default, so that a page ends the search early. */
export const peopleIndex = (
  config: Config,
): { settings: estypes.IndicesIndexSettings; mappings: estypes.MappingTypeMapping } => ({
  settings: {
    ...copies(config),
    // What must be seen is refreshed when it is written.
    refresh_interval: '30s',
    sort: { field: ['score', 'id'], order: ['desc', 'asc'] },
  },
  mappings: {
    dynamic: 'strict',
    // All the rest is made of the person, and of the unlocks in Postgres.
    _source: { includes: ['person'] },
    properties: {
      person: { type: 'object', enabled: false },
      id: column,
      ...perMember(textMembers, (member) => member, keyword),
      ...perMember(textMembers, spellingField, column),
      ...perMember(wordMembers, wordsField, term),
      verification_status: keyword,
      score: { type: 'byte' },
      // Milliseconds since 1970.
      date_verified: { type: 'long' },
      has_email: { type: 'byte' },
      has_phone: { type: 'byte' },
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

/** A person as the index of people takes it. */
export function toSource(
  { id, person, folded, words, has_email, has_phone }: CatalogDocument,
  unlockedBy: string[],
): object {
  const source: Record<string, unknown> = {
    person,
    id,
    verification_status: person.verification_status,
    score: person.score,
    date_verified: Date.parse(person.date_verified),
    has_email: Number(has_email),
    has_phone: Number(has_phone),
  };
  for (const member of textMembers) {
    if (folded[member] === null) continue;
    source[member] = folded[member];
    // Nothing is not suggested.
    if (folded[member] !== '') source[spellingField(member)] = person[member];
  }
  for (const member of wordMembers) source[wordsField(member)] = words[member];
  if (unlockedBy.length > 0) source['unlocked_by'] = unlockedBy;
  return source;
}

/** What the index of people gives back. */
export interface PersonSource {
  person: Omit<Prospect, '_id'>;
}
