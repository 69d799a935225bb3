import type { estypes } from '@elastic/elasticsearch';
import type { Prospect, TextField, WordField } from '../../schemas/prospects.ts';
import { usualSpelling, fieldCodes } from '../document.ts';
import { memoize } from '../../text/fold.ts';
import type { CatalogDocument, RequiredField, FieldCode } from '../document.ts';
import { bestFirst, positionOf } from '../catalog.ts';
import type {
  CountedSearch,
  Criterion,
  ProspectOrder,
  ProspectPosition,
  SortField,
  CatalogReads,
  Search,
  PageWindow,
} from '../catalog.ts';
import { foldedField, wordsField, readCatalog, type Indexes } from './indexes.ts';
import * as cluster from './cluster.ts';
import type { ClusterClient, Reader } from './cluster.ts';
import { suggest } from './values.ts';

/**
 * Splits a UUID into two signed 64-bit numbers with the same order, as decimal texts. Elasticsearch sorts numbers
 * faster than texts.
 */
const idHalvesOf = (id: string): [high: string, low: string] => {
  const digits = id.replaceAll('-', '');
  return [halfOf(digits.slice(0, 16)), halfOf(digits.slice(16))];
};

const halfOf = (digits: string): string => (BigInt(`0x${digits}`) - middle).toString();
const middle = 2n ** 63n;

type Details = Pick<
  Prospect,
  'work_email' | 'emails' | 'mobile_phone' | 'social1_url' | 'profnet_url' | 'social2_url' | 'source' | 'collected_at'
>;

export interface PersonSource
  extends
    Record<FieldCode<RequiredField>, string>,
    Record<`${FieldCode<WordField>}w`, string[]>,
    Partial<Record<`${FieldCode<TextField>}s`, string | undefined>>,
    Pick<Prospect, 'verification_status' | 'score'> {
  id_high: string;
  id_low: string;
  details: Details;
  p?: string | undefined;
  date_verified: number;
  has_email: 0 | 1;
  has_phone: 0 | 1;
  unlocked_by?: string[] | undefined;
  /** Keys for matching by profile URL and e-mail address. Missing if an earlier release stored the person. */
  k?: string[] | undefined;
}

/**
 * Returns a person as a document of Elasticsearch. It is one object literal, because that serialises twice as fast.
 * @param unlockedBy ids of the customers who have unlocked the person
 */
export const toSource = (
  { id, person, folded, words, spelled, has_email, has_phone, keys }: CatalogDocument,
  unlockedBy: string[],
): PersonSource => {
  const [id_high, id_low] = idHalvesOf(id);
  return {
    id_high,
    id_low,
    // JSON leaves out what is undefined.
    details: {
      work_email: person.work_email,
      emails: person.emails,
      mobile_phone: person.mobile_phone,
      social1_url: person.social1_url,
      profnet_url: person.profnet_url,
      social2_url: person.social2_url,
      source: person.source,
      collected_at: person.collected_at,
    } as Details,
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
    k: keys,
    unlocked_by: unlockedBy.length > 0 ? unlockedBy : undefined,
  };
};

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

const spelledAsUsual = memoize(usualSpelling);

type Query = NonNullable<estypes.SearchRequest['query']>;

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

const searchAfter = (order: ProspectOrder, { id, values }: ProspectPosition): estypes.SortResults => [
  ...order.map(({ field }, i) => (field === 'date_verified' ? Date.parse(String(values[i])) : values[i]!)),
  ...idHalvesOf(id),
];

export function reads(indexes: Indexes, reader: Reader): CatalogReads {
  const { names } = indexes;
  const read = <T>(ask: () => Promise<T>, nothing: T): Promise<T> => readCatalog(indexes, names.people, ask, nothing);
  return {
    search: (search, window) => read(() => searchPeople(reader, names.people, search, window), []),
    count: (search) => read(() => countPeople(reader, names.people, search), 0),
    find: (ids) => read(() => findPeople(reader, names.people, ids), []),
    suggest: (query) => readCatalog(indexes, names.values, () => suggest(reader, names, query), []),
  };
}

const searchPeople = (reader: Reader, index: string, search: Search, { limit, skip = 0, after }: PageWindow) =>
  readPeople(reader, {
    index,
    query: matching(search),
    sort: sortBy(search.order),
    size: limit,
    ...(after ? { search_after: searchAfter(search.order, after) } : { from: skip }),
  });

const findPeople = async (reader: Reader, index: string, ids: string[]): Promise<Prospect[]> =>
  ids.length === 0
    ? []
    : readPeople(reader, { index, query: { ids: { values: ids } }, sort: indexGuardOrder, size: ids.length });

async function readPeople(reader: Reader, request: estypes.SearchRequest): Promise<Prospect[]> {
  const { hits } = await cluster.search<PersonSource>(reader, { track_total_hits: false, ...request });
  return (hits?.hits ?? []).map(({ _id, _source }) => fromSource(_id!, _source!));
}

/**
 * Sort order that the cluster rejects for an index without our fields. It keeps us from counting in another program's
 * index.
 */
const indexGuardOrder = sortBy([]);

async function countPeople(reader: Reader, index: string, search: CountedSearch): Promise<number> {
  const request = { index, query: matching(search), sort: indexGuardOrder, size: 0, track_total_hits: true };
  const { hits } = await cluster.search(reader, request);
  return typeof hits.total === 'number' ? hits.total : (hits.total?.value ?? 0);
}

const batchSize = 1_000;

/** Yields all people of an index, the best first. Retries its reads, because a reindex or an export takes long. */
export async function* readAllPeople(nodes: ClusterClient, index: string): AsyncGenerator<Prospect[]> {
  for (let after: ProspectPosition | undefined; ;) {
    const search = { criteria: [], order: bestFirst };
    const people = await searchPeople(nodes.retrying(), index, search, { limit: batchSize, after });
    if (people.length === 0) return;
    yield people;
    after = positionOf(people.at(-1)!, bestFirst);
  }
}
