import { randomBytes } from 'node:crypto';
import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../../process/config.ts';
import { textFields, wordFields, type TextField, type WordField } from '../../schemas/prospects.ts';
import { fieldCodes, type FieldCode } from '../field-codes.ts';

/** The Elasticsearch aliases of the prospect catalog's indexes. */
export interface Names {
  /** The alias through which searches find the index of people. */
  people: string;
  /**
   * The alias of all indexes that store people. Usually this is only the index that searches use; during a reindex it
   * is also the new index.
   */
  everywhere: string;
  /** The alias through which searches find the index of suggested values. */
  values: string;
}

/**
 * The version of the index format. It is part of all index names, so a new release does not read an index with an old
 * format. Increase it when the index fields, `fold` or `usualSpelling` change.
 */
const layout = 1;

/** Returns the aliases of the catalog's indexes. They begin with the configured `ELASTICSEARCH_INDEX`. */
export const namesOf = ({ ELASTICSEARCH_INDEX }: Config): Names => {
  const people = `${ELASTICSEARCH_INDEX}-v${layout}`;
  return { people, everywhere: `${people}-everywhere`, values: `${people}-values` };
};

/**
 * Returns a unique name for a new index. It consists of the alias through which searches find the index, the time, and
 * random digits.
 */
export const newIndex = (alias: string): string => `${alias}-${Date.now()}-${randomBytes(4).toString('hex')}`;

/**
 * Returns true if an index name has the form of the names that the service creates: the alias, the time, and perhaps
 * random digits.
 */
export const isNamedFor = (index: string, alias: string): boolean =>
  index.startsWith(`${alias}-`) && /^\d+(-[0-9a-f]{8})?$/.test(index.slice(alias.length + 1));

/** Returns the alias through which the service writes to an index. No other index has this alias. */
export const writeAlias = (index: string): string => `${index}-writes`;

type Properties = Record<string, estypes.MappingProperty>;

/**
 * The mapping of an index field that holds a text for searching and sorting. Elasticsearch compares the text byte by
 * byte. This is enough, because the service stores the text in lower case and without accents.
 */
const keyword: estypes.MappingProperty = { type: 'keyword' };
/** The mapping of an index field that holds a text for searching, but not for sorting or counting. */
const term: estypes.MappingProperty = { type: 'keyword', doc_values: false };
/** The mapping of an index field that holds a text for sorting and counting, but not for searching. */
const column: estypes.MappingProperty = { type: 'keyword', index: false };
/**
 * The mapping of an index field that holds one half of a UUID, as a 64-bit number. It is for sorting, not for
 * searching.
 */
const half: estypes.MappingProperty = { type: 'long', index: false };
// Not indexed, because that would slow imports.
/** The mapping of an index field that holds a small number. The field has no search index: filters scan its values. */
const small: estypes.MappingProperty = { type: 'byte', index: false };

/** Returns the name of the index field that holds a prospect's text field in lower case and without accents. */
export const foldedField = <M extends TextField>(field: M): FieldCode<M> => fieldCodes[field];
/**
 * Returns the name of the index field that holds the words of a prospect's text field, in lower case and without
 * accents.
 */
export const wordsField = <M extends WordField>(field: M): `${FieldCode<M>}w` => `${fieldCodes[field]}w`;
/**
 * Returns the name of the index field that keeps how a text of a prospect is spelled. For searches, the index has the
 * text in lower case. If capitals at the start of each word give the original back, the spelling is not stored.
 */
export const spelledField = <M extends TextField>(field: M): `${FieldCode<M>}s` => `${fieldCodes[field]}s`;

const perMember = <M extends TextField>(
  members: readonly M[],
  name: (field: M) => string,
  property: estypes.MappingProperty,
): Properties => Object.fromEntries(members.map((field) => [name(field), property]));

const copies = (config: Config): estypes.IndicesIndexSettings => ({
  number_of_shards: config.ELASTICSEARCH_SHARDS,
  number_of_replicas: config.ELASTICSEARCH_REPLICAS,
});

/**
 * How often Elasticsearch makes new writes visible to searches: normally, and during an import. An import is faster
 * with a longer interval.
 */
export const refreshIntervals = { atRest: '5s', whileLoading: '30s' } as const;

/**
 * Returns the settings and mappings for a new index of people. The index is sorted by score, so that a search in the
 * default order can stop after one page. The refresh interval is set for an import.
 */
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
    // The source keeps all fields. If some were excluded, the cluster would store a second, full source to recover its
    // copies, and would sort and merge both.
    properties: {
      details: { type: 'object', enabled: false },
      id_high: half,
      id_low: half,
      ...perMember(textFields, foldedField, keyword),
      ...perMember(wordFields, wordsField, term),
      ...perMember(textFields, spelledField, column),
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

/**
 * Returns the settings and mappings for a new index of suggested values. The index is sorted by the number of people,
 * so that the most frequent values come first.
 */
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
