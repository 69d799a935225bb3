import { textMembers, type Suggestion, type SuggestionQuery, type TextMember } from '../schemas/prospects.ts';
import type { Config } from '../config.ts';
import { bulk, type Operation } from './elasticsearch-bulk.ts';
import type { SearchNodes } from './elasticsearch-cluster.ts';
import { newIndex, spellingField, valuesIndex, type Names } from './elasticsearch-index.ts';
import { gatherValues, inBatches, wordPatterns, type Spelling, type SuggestedValue } from './suggestions.ts';

/** The values that begin so: the index is sorted as they are shown, so that the search ends with the tenth. */
export async function suggest(
  nodes: SearchNodes,
  names: Names,
  { source, search = '' }: SuggestionQuery,
): Promise<Suggestion[]> {
  const patterns = wordPatterns(search);
  if (!patterns) return [];
  const filter = [
    ...(source === 'all' ? [] : [{ term: { member: source } }]),
    ...patterns.map((word) => ({ prefix: { words: { value: word } } })),
  ];
  const { hits } = await nodes.read((client, options, route) =>
    client.search<{ member: TextMember; value: string }>(
      {
        index: names.values,
        ignore_unavailable: true,
        allow_partial_search_results: false,
        ...route,
        query: { bool: { filter } },
        sort: [{ people: 'desc' }, { value: 'asc' }, { member: 'asc' }],
        size: 10,
        track_total_hits: false,
      },
      options,
    ),
  );
  return hits.hits.map(({ _source }) => ({ type: _source!.member, value: _source!.value }));
}

const batchSize = 2_000;

/** Counts all values anew, in an index beside the one that is shown, and then shows that one. The one before goes with the next. */
export async function rebuildValues(nodes: SearchNodes, names: Names, config: Config): Promise<void> {
  const index = newIndex(names.values);
  await nodes.work((client, options) =>
    client.indices.create({ index, ...valuesIndex(config) }, { ...options, ignore: [400] }),
  );
  const members = textMembers.values();
  const countMembers = async (): Promise<void> => {
    for (const member of members)
      for await (const values of inBatches(gatherValues(member, spellings(nodes, names, member)), batchSize))
        await bulk(nodes, index, values.map(toOperation));
  };
  // One waits for the cluster while the other writes.
  await Promise.all([countMembers(), countMembers()]);
  await nodes.work((client, options) => client.indices.refresh({ index }, options));
  const before = await nodes.work((client, options) => client.indices.get({ index: `${names.values}-*` }, options));
  const shown = Object.keys(before).filter((name) => before[name]!.aliases?.[names.values]);
  const actions = [
    ...shown.map((name) => ({ remove: { index: name, alias: names.values } })),
    { add: { index, alias: names.values } },
  ];
  await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
  const gone = Object.keys(before).filter((name) => name !== index && !shown.includes(name));
  if (gone.length > 0)
    await nodes.work((client, options) => client.indices.delete({ index: gone, ignore_unavailable: true }, options));
}

/** The id may be longer than the cluster takes: it makes one itself. */
const toOperation = ({ member, folded, value, people, words }: SuggestedValue): Operation => ({
  id: `${member}:${folded}`,
  action: { index: {} },
  source: { member, value, people, words },
});

/** All spellings of a member, in order of folded form, a page at a time: the cluster walks along its terms. */
async function* spellings(nodes: SearchNodes, names: Names, member: TextMember): AsyncGenerator<Spelling> {
  const sources = [{ folded: { terms: { field: member } } }, { value: { terms: { field: spellingField(member) } } }];
  for (let after: Record<string, string> | undefined; ;) {
    const composite = { size: 5_000, sources, ...(after ? { after } : {}) };
    const request = {
      index: names.people,
      size: 0,
      allow_partial_search_results: false,
      aggs: { spellings: { composite } },
    };
    const answer = await nodes.work((client, options) => client.search(request, options));
    const { buckets, after_key } = answer.aggregations!['spellings'] as unknown as CompositeAnswer;
    // Nothing is not suggested.
    for (const { key, doc_count } of buckets) if (key.folded !== '') yield { ...key, people: doc_count };
    if (!after_key) return;
    after = after_key;
  }
}

interface CompositeAnswer {
  buckets: { key: { folded: string; value: string }; doc_count: number }[];
  after_key?: Record<string, string>;
}
