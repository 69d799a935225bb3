import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../config.ts';
import { textMembers, wordMembers, type Prospect, type TextMember, type WordMember } from '../schemas/prospects.ts';
import { usualSpelling, type CatalogDocument, type RequiredMember } from './document.ts';
import { memberLetters } from './member-letters.ts';
import { remembered } from './remembered.ts';

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

/** A name for a new index, later than all before. */
export const newIndex = (alias: string): string => `${alias}-${Date.now()}`;

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

type Letter<M extends TextMember> = (typeof memberLetters)[M];

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

/**
 * An id as two signed numbers that sort as it does. Texts that are all different cost a search that sorts by them a look
 * into the dictionary of every segment, and a load the making of it.
 */
export const halvesOf = (id: string): [high: string, low: string] => {
  const digits = id.replaceAll('-', '');
  return [halfOf(digits.slice(0, 16)), halfOf(digits.slice(16))];
};

/** Decimal digits: it is more than a number of JavaScript holds. */
const halfOf = (digits: string): string => (BigInt(`0x${digits}`) - middle).toString();
const middle = 2n ** 63n;

/** What of a person nothing is compared with. */
type Details = Pick<Prospect, 'work_email' | 'emails' | 'mobile_phone' | 'social1_url' | 'profnet_url' | 'social2_url'>;

/**
 * A person as the index of people keeps them: every fact once. A text that is spelled as usual is its folded form alone;
 * most of what a search does is to unpack these, and most of what a load does is to move them about.
 */
export interface PersonSource
  extends
    Record<Letter<RequiredMember>, string>,
    Record<`${Letter<WordMember>}w`, string[]>,
    Partial<Record<`${Letter<TextMember>}s`, string | undefined>>,
    Pick<Prospect, 'verification_status' | 'score'> {
  id_high: string;
  id_low: string;
  details: Details;
  p?: string | undefined;
  date_verified: number;
  has_email: 0 | 1;
  has_phone: 0 | 1;
  unlocked_by?: string[] | undefined;
}

/** The source of a person. A literal: members that come one by one make JSON of it twice as slow. */
export const toSource = (
  { id, person, folded, words, spelled, has_email, has_phone }: CatalogDocument,
  unlockedBy: string[],
): PersonSource => {
  const [id_high, id_low] = halvesOf(id);
  return {
    id_high,
    id_low,
    details: {
      work_email: person.work_email,
      emails: person.emails,
      mobile_phone: person.mobile_phone,
      social1_url: person.social1_url,
      profnet_url: person.profnet_url,
      social2_url: person.social2_url,
    },
    f: folded.first_name,
    l: folded.last_name,
    t: folded.job_title,
    n: folded.job_company_name,
    i: folded.job_company_industry,
    c: folded.location_locality,
    r: folded.location_region,
    y: folded.location_country,
    p: folded.location_postal_code ?? undefined,
    tw: words.job_title,
    nw: words.job_company_name,
    iw: words.job_company_industry,
    fs: spelled.first_name,
    ls: spelled.last_name,
    ts: spelled.job_title,
    ns: spelled.job_company_name,
    is: spelled.job_company_industry,
    cs: spelled.location_locality,
    rs: spelled.location_region,
    ys: spelled.location_country,
    ps: spelled.location_postal_code,
    verification_status: person.verification_status,
    score: person.score,
    date_verified: Date.parse(person.date_verified),
    has_email: has_email ? 1 : 0,
    has_phone: has_phone ? 1 : 0,
    unlocked_by: unlockedBy.length > 0 ? unlockedBy : undefined,
  };
};

/** The person of a source, to the letter as they were given. */
export const fromSource = (id: string, source: PersonSource): Prospect => ({
  _id: id,
  ...source.details,
  first_name: source.fs ?? spelledAsUsual(source.f),
  last_name: source.ls ?? spelledAsUsual(source.l),
  job_title: source.ts ?? spelledAsUsual(source.t),
  job_company_name: source.ns ?? spelledAsUsual(source.n),
  job_company_industry: source.is ?? spelledAsUsual(source.i),
  location_locality: source.cs ?? spelledAsUsual(source.c),
  location_region: source.rs ?? spelledAsUsual(source.r),
  location_country: source.ys ?? spelledAsUsual(source.y),
  location_postal_code: source.p === undefined ? null : (source.ps ?? spelledAsUsual(source.p)),
  verification_status: source.verification_status,
  score: source.score,
  date_verified: new Date(source.date_verified).toISOString(),
});

const spelledAsUsual = remembered(usualSpelling);
