import { randomBytes } from 'node:crypto';
import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../../process/config.ts';
import { textFields, wordFields, type TextField, type WordField } from '../../schemas/prospects.ts';
import { fieldCodes, type FieldCode } from '../field-codes.ts';

/** The aliases of the catalog's indexes. */
export interface Names {
  people: string;
  /** All indexes that store people: the one that searches use and, during a reindex, the new one. */
  everywhere: string;
  values: string;
}

/**
 * Version of the index format, in all index names, so that a new release does not read an old format. Increase it when
 * the fields, `fold` or `usualSpelling` change.
 */
const layout = 1;

/** They begin with `ELASTICSEARCH_INDEX`. */
export const namesOf = ({ ELASTICSEARCH_INDEX }: Config): Names => {
  const people = `${ELASTICSEARCH_INDEX}-v${layout}`;
  return { people, everywhere: `${people}-everywhere`, values: `${people}-values` };
};

/** Returns a unique name: the alias for searches, the time, and random digits. */
export const newIndex = (alias: string): string => `${alias}-${Date.now()}-${randomBytes(4).toString('hex')}`;

/** True for names that the service gives: the alias, the time, and perhaps random digits. */
export const isNamedFor = (index: string, alias: string): boolean =>
  index.startsWith(`${alias}-`) && /^\d+(-[0-9a-f]{8})?$/.test(index.slice(alias.length + 1));

/** The service writes to an index through this alias, which no other has. */
export const writeAlias = (index: string): string => `${index}-writes`;

type Properties = Record<string, estypes.MappingProperty>;

/** A text for searching and sorting, compared byte by byte: it is stored folded. */
const keyword: estypes.MappingProperty = { type: 'keyword' };
/** A text for searching, but not for sorting or counting. */
const term: estypes.MappingProperty = { type: 'keyword', doc_values: false };
/** A text for sorting and counting, but not for searching. */
const column: estypes.MappingProperty = { type: 'keyword', index: false };
/** One half of a UUID, as a 64-bit number for sorting. */
const half: estypes.MappingProperty = { type: 'long', index: false };
/** A small number. Filters scan its values, because indexing would slow imports. */
const small: estypes.MappingProperty = { type: 'byte', index: false };

export const foldedField = <M extends TextField>(field: M): FieldCode<M> => fieldCodes[field];
export const wordsField = <M extends WordField>(field: M): `${FieldCode<M>}w` => `${fieldCodes[field]}w`;
/** Index field of a text's original spelling, which is stored unless it is the `usualSpelling`. */
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

/** Fields that indexes of earlier releases lack. An import adds them to such an index. */
export const laterFields: Properties = { k: term };

/** How often new writes become visible to searches. An import is faster with a longer interval. */
export const refreshIntervals = { atRest: '5s', whileLoading: '30s' } as const;

/**
 * A new index of people, sorted by score, so that a search in the default order can stop after one page. The refresh
 * interval is that of an import.
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
      ...laterFields,
    },
  },
});

/** A new index of suggested values, sorted by number of people, so that the most frequent come first. */
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
