import type { estypes } from '@elastic/elasticsearch';
import type { Prospect } from '../../schemas/prospects.ts';
import type { CatalogReads, CountedSearch, Search, PageWindow } from '../catalog.ts';
import type { Reader } from './cluster.ts';
import { requireAllShards } from './errors.ts';
import { readCatalog, type Indexes } from './indexes.ts';
import { matching, searchAfter, sortBy } from './query.ts';
import { fromSource, type PersonSource } from './source.ts';
import { suggest } from './values.ts';

/** They throw `unavailable` if the index is missing although people were imported. */
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

/** Reads all fields, because the cluster needs more time to return only some. */
async function searchPeople(
  reader: Reader,
  index: string,
  search: Search,
  { limit, skip = 0, after }: PageWindow,
): Promise<Prospect[]> {
  return readPeople(reader, {
    index,
    query: matching(search),
    sort: sortBy(search.order),
    size: limit,
    ...(after ? { search_after: searchAfter(search.order, after) } : { from: skip }),
  });
}

/** A search, not a look-up by id (mget): it sees the same state of the index as other searches. */
const findPeople = async (reader: Reader, index: string, ids: string[]): Promise<Prospect[]> =>
  ids.length === 0
    ? []
    : readPeople(reader, { index, query: { ids: { values: ids } }, sort: indexGuardOrder, size: ids.length });

async function readPeople(reader: Reader, request: estypes.SearchRequest): Promise<Prospect[]> {
  const { hits } = await reader.read(async (client, options) =>
    requireAllShards(
      await client.search<PersonSource>(
        { allow_partial_search_results: false, track_total_hits: false, ...request },
        options,
      ),
    ),
  );
  return (hits?.hits ?? []).map(({ _id, _source }) => fromSource(_id!, _source!));
}

/** An index that the service did not create lacks the id fields, so the cluster rejects a search in this order. */
const indexGuardOrder = sortBy([]);

async function countPeople(reader: Reader, index: string, search: CountedSearch): Promise<number> {
  const request = {
    index,
    allow_partial_search_results: false,
    query: matching(search),
    sort: indexGuardOrder,
    size: 0,
  };
  const { hits } = await reader.read(async (client, options) =>
    requireAllShards(await client.search({ ...request, track_total_hits: true }, options)),
  );
  return typeof hits.total === 'number' ? hits.total : (hits.total?.value ?? 0);
}
