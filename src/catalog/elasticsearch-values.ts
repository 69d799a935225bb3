import { textMembers, type Suggestion, type SuggestionQuery, type TextMember } from '../schemas/prospects.ts';
import type { Config } from '../config.ts';
import { fold } from '../fold.ts';
import { bulk, toOperation, type Operation } from './elasticsearch-bulk.ts';
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

const batchSize = 1_000;

/** How much is counted at a time. */
interface Portion {
  /** Folded forms. */
  forms: number;
  /** The most spellings these may have: a cluster answers 65,536 buckets. */
  spellings: number;
}

/** Counts all values anew, in an index beside the one that is shown, and then shows that one. The one before goes with the next. */
export async function rebuildValues(
  nodes: SearchNodes,
  names: Names,
  config: Config,
  portion: Portion = { forms: 5_000, spellings: 20_000 },
): Promise<void> {
  const index = newIndex(names.values);
  await nodes.work((client, options) =>
    client.indices.create({ index, ...valuesIndex(config) }, { ...options, ignore: [400] }),
  );
  const members = textMembers.values();
  const countMembers = async (): Promise<void> => {
    for (const member of members)
      for await (const values of inBatches(gatherValues(member, spellings(nodes, names, member, portion)), batchSize))
        await bulk(nodes, index, values.map(encodeValue));
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
const encodeValue = ({ member, folded, value, people, words }: SuggestedValue): Operation =>
  toOperation(`${member}:${folded}`, { index: {} }, { member, value, people, words });

/**
 * All spellings of a member, in order of their folded form. They come a range of folded forms at a time, counted in columns:
 * to have the cluster pair each spelling with its folded form takes ten times as long.
 */
async function* spellings(
  nodes: SearchNodes,
  names: Names,
  member: TextMember,
  { forms, spellings: most }: Portion,
): AsyncGenerator<Spelling> {
  let size = forms;
  // Nothing is not suggested.
  for (let after = ''; ;) {
    const folded = await countTerms(nodes, names, { counted: member, size, ranged: member, range: { gt: after } });
    const last = folded.terms.at(-1)?.key;
    if (last === undefined) return;
    const range = { gt: after, lte: last };
    const counted = spellingField(member);
    const spelled = await countTerms(nodes, names, { counted, size: most, ranged: member, range });
    if (spelled.isWhole || size === 1) {
      yield* inOrder(folded.terms, spelled.terms);
      after = last;
    } else size = Math.ceil(size / 4);
  }
}

/** The spellings of each folded form together. */
function* inOrder(forms: Term[], spelled: Term[]): Generator<Spelling> {
  const spellingsOf = new Map(forms.map(({ key }) => [key, [] as Spelling[]]));
  for (const { key: value, doc_count: people } of spelled) {
    const folded = fold(value);
    spellingsOf.get(folded)?.push({ folded, value, people });
  }
  for (const found of spellingsOf.values()) yield* found;
}

interface Term {
  key: string;
  doc_count: number;
}

/** The first terms of a field, and how many people have each, among people with another field in a range. */
async function countTerms(
  nodes: SearchNodes,
  names: Names,
  { counted, size, ranged, range }: { counted: string; size: number; ranged: string; range: object },
): Promise<{ terms: Term[]; isWhole: boolean }> {
  const request = {
    index: names.people,
    size: 0,
    allow_partial_search_results: false,
    query: { range: { [ranged]: range } },
    // In order of the terms every shard gives all that can be among the first, so that the counts are exact.
    aggs: { terms: { terms: { field: counted, size, order: { _key: 'asc' } } } },
  } as const;
  const answer = await nodes.work((client, options) => client.search(request, options));
  const { buckets, sum_other_doc_count: left } = answer.aggregations!['terms'] as unknown as TermsAnswer;
  return { terms: buckets, isWhole: left === 0 };
}

interface TermsAnswer {
  buckets: Term[];
  sum_other_doc_count: number;
}
