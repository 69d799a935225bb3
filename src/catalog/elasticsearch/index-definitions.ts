import { randomBytes } from 'node:crypto';
import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../../config.ts';
import { textFields, wordFields, type TextField, type WordField } from '../../schemas/prospects.ts';
import { fieldCodes, type FieldCode } from '../field-codes.ts';

/** The aliases of a catalog in its search cluster. */
export interface Names {
  /** Alias of the index of people that searches use. */
  people: string;
  /** Alias of all indexes that unlocks must be written to: the index that searches use, and one that is being built. */
  everywhere: string;
  /** Alias of the index of suggestions. */
  values: string;
}

/**
 * The version of the index format, which is part of all index names. Increase it when the index fields, `fold` or
 * `usualSpelling` change. Then a new release does not read an index of the old format, and both indexes can exist side
 * by side.
 */
const layout = 1;

/** Returns the aliases of the catalog that the configuration names. */
export const namesOf = ({ ELASTICSEARCH_INDEX }: Config): Names => {
  const people = `${ELASTICSEARCH_INDEX}-v${layout}`;
  return { people, everywhere: `${people}-everywhere`, values: `${people}-values` };
};

/** Returns a unique name for a new index behind this alias. Its random part makes it unique whatever the clock says. */
export const newIndex = (alias: string): string => `${alias}-${Date.now()}-${randomBytes(4).toString('hex')}`;

/** Returns whether an index name has the form that the service gives to indexes behind this alias. */
export const isNamedFor = (index: string, alias: string): boolean =>
  index.startsWith(`${alias}-`) && /^\d+(-[0-9a-f]{8})?$/.test(index.slice(alias.length + 1));

/**
 * Returns the alias through which writes go to this index. No other index has this alias, so writes cannot reach a
 * wrong index.
 */
export const writeAlias = (index: string): string => `${index}-writes`;

type Properties = Record<string, estypes.MappingProperty>;

/**
 * An index field for a text to search and sort by. Elasticsearch compares the bytes, because the texts are folded and
 * split into words before.
 */
const keyword: estypes.MappingProperty = { type: 'keyword' };
/** An index field for a text to search by, but not to sort or count by. */
const term: estypes.MappingProperty = { type: 'keyword', doc_values: false };
/** An index field for a text to sort or count by, but not to search by. */
const column: estypes.MappingProperty = { type: 'keyword', index: false };
/** An index field for half of an id, as a number to sort by. It cannot be searched. */
const half: estypes.MappingProperty = { type: 'long', index: false };
/**
 * An index field for a small number with few different values. It has no search index, because building one would slow
 * imports; searches scan the values instead.
 */
const small: estypes.MappingProperty = { type: 'byte', index: false };

/** Returns the index field that holds the folded form of a prospect's text field. */
export const foldedField = <M extends TextField>(field: M): FieldCode<M> => fieldCodes[field];
/** Returns the index field that holds the folded words of a prospect's text field. */
export const wordsField = <M extends WordField>(field: M): `${FieldCode<M>}w` => `${fieldCodes[field]}w`;
/** Returns the index field that holds a text as it was imported, if that differs from its usual spelling. */
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
 * How often Elasticsearch makes writes visible to searches by itself. During an import this happens less often, because
 * fewer and larger segments need less merging.
 */
export const refreshIntervals = { atRest: '5s', whileLoading: '30s' } as const;

/**
 * Returns the settings and mappings of the index of people. Elasticsearch keeps it sorted in the default order of
 * lists, so a search can stop after one page. The refresh interval is the one for imports.
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
 * Returns the settings and mappings of the index of suggested values. Elasticsearch keeps it sorted by the number of
 * people who have each value.
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
