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
 * The version of the index format, part of all index names. Increase it with every change of the fields, of folding or
 * of the usual spelling. A release with another version then finds no catalog instead of misreading it, and the
 * catalogs of two releases can exist side by side.
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

/** Returns the alias for writes to this index. No other index has it, so writes cannot reach a wrong index. */
export const writeAlias = (index: string): string => `${index}-writes`;

type Properties = Record<string, estypes.MappingProperty>;

/** A text to search and sort by. Elasticsearch compares its bytes: texts are already folded and split into words. */
const keyword: estypes.MappingProperty = { type: 'keyword' };
/** A text to search by, but not to sort or count by. */
const term: estypes.MappingProperty = { type: 'keyword', doc_values: false };
/** A text to sort or count by, but not to search by. */
const column: estypes.MappingProperty = { type: 'keyword', index: false };
/** Half of an id, as a number to sort by. It is not searched. */
const half: estypes.MappingProperty = { type: 'long', index: false };
/**
 * A small number with few different values. A search scans its column; building an index on it would cost imports more.
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
 * How long it takes until writes are visible to searches. Code that needs visibility at once calls refresh. Each
 * refresh closes a segment. During an import, fewer refreshes make larger segments, which need less merging and are
 * faster to search. But the import waits for the last refresh.
 */
export const refreshIntervals = { atRest: '5s', whileLoading: '30s' } as const;

/**
 * Returns the settings and mappings of the index of people. It is sorted in the default order of lists, so a search can
 * stop after one page. The refresh interval is the one for imports.
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

/** Returns the settings and mappings of the index of suggestions, which is sorted by frequency. */
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
