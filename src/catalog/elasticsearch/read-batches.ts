import type { Prospect } from '../../schemas/prospects.ts';
import { bestFirst, positionOf, type ProspectPosition } from '../order.ts';
import type { ClusterClient } from './cluster.ts';
import { requireAllShards } from './errors.ts';
import { searchAfter, sortBy } from './query.ts';
import { fromSource, type PersonSource } from './source.ts';

const batchSize = 1_000;

/** In the default order of searches. Empty at the end. */
async function readBatch(
  nodes: ClusterClient,
  index: string,
  after: ProspectPosition | undefined,
): Promise<Prospect[]> {
  const request = {
    index,
    allow_partial_search_results: false,
    sort: sortBy(bestFirst),
    size: batchSize,
    track_total_hits: false,
    ...(after ? { search_after: searchAfter(bestFirst, after) } : {}),
  };
  const { hits } = await nodes.work(async (client, options) =>
    requireAllShards(await client.search<PersonSource>(request, options)),
  );
  return hits.hits.map(({ _id, _source }) => fromSource(_id!, _source!));
}

/** Yields all people whom searches see, in batches, in the default order of searches. */
export async function* readPeople(nodes: ClusterClient, index: string): AsyncGenerator<Prospect[]> {
  for (let after: ProspectPosition | undefined; ;) {
    const people = await readBatch(nodes, index, after);
    if (people.length === 0) return;
    yield people;
    after = positionOf(people.at(-1)!, bestFirst);
  }
}
