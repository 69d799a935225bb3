import type { estypes } from '@elastic/elasticsearch';
import type { Config } from '../../process/config.ts';
import { textFields, type Suggestion, type SuggestionQuery, type TextField } from '../../schemas/prospects.ts';
import { fold } from '../../text/fold.ts';
import { usualSpelling, groupSpellings, inBatches, wordPatterns } from '../document.ts';
import type { Spelling, SuggestedValue } from '../document.ts';
import { bulk, toOperation, search as searchCluster, changeAliases, refresh } from './cluster.ts';
import type { Operation, Reader, ClusterClient } from './cluster.ts';
import * as indexing from './indexes.ts';

export async function suggest(
  reader: Reader,
  names: indexing.Names,
  { source, search = '' }: SuggestionQuery,
): Promise<Suggestion[]> {
  const patterns = wordPatterns(search);
  if (!patterns) return [];
  const filter = [
    ...(source === 'all' ? [] : [{ term: { member: source } }]),
    ...patterns.map((word) => ({ prefix: { words: { value: word } } })),
  ];
  const request = {
    index: names.values,
    query: { bool: { filter } },
    sort: [{ people: 'desc' }, { value: 'asc' }, { member: 'asc' }] as estypes.SortOptions[],
    size: 10,
    track_total_hits: false,
  };
  const { hits } = await searchCluster<{ member: TextField; value: string }>(reader, request);
  return hits.hits.map(({ _source }) => ({ type: _source!.member, value: _source!.value }));
}

const batchSize = 1_000;

/**
 * Counts the suggested values of all text fields into a new index, and switches searches to it. Keeps the previous
 * index for running searches; the next call deletes it.
 * @param pageSize number of values in one request
 * @param people name of the index of people
 */
export async function rebuildValues(
  nodes: ClusterClient,
  names: indexing.Names,
  config: Config,
  pageSize = 5_000,
  people = names.people,
): Promise<void> {
  const index = indexing.newIndex(names.values);
  const aliases = { [indexing.writeAlias(index)]: {} };
  await nodes.work((client, options) =>
    client.indices.create({ index, ...indexing.valuesIndex(config), aliases }, { ...options, ignore: [400] }),
  );
  const members = textFields.values();
  const countMembers = async (): Promise<void> => {
    for (const member of members) {
      const values = groupSpellings(member, spellings(nodes, people, member, pageSize));
      for await (const batch of inBatches(values, batchSize))
        await bulk(nodes, indexing.writeAlias(index), batch.map(encodeValue));
    }
  };
  // Two loops share the fields: one can wait for the cluster while the other writes.
  await Promise.all([countMembers(), countMembers()]);
  await refresh(nodes, index);
  await show(nodes, names, index);
}

async function show(nodes: ClusterClient, names: indexing.Names, index: string): Promise<void> {
  const found = await indexing.findIndexes(nodes.retrying(), names.values);
  const before = found.filter(({ name }) => name !== index);
  const shown = before.filter(({ aliases }) => aliases.includes(names.values));
  const actions = [
    ...shown.map(({ name }) => ({ remove: { index: name, alias: names.values } })),
    { add: { index, alias: names.values } },
  ];
  await changeAliases(nodes, actions);
  const unused = before.filter((index) => !shown.includes(index) && indexing.isNamedFor(index.name, names.values));
  await indexing.deleteIndexes(nodes, unused);
}

/**
 * Returns the operation that stores a value. The cluster chooses the document's id, because an id made from the value
 * could be too long.
 */
const encodeValue = ({ member, folded, value, people, words }: SuggestedValue): Operation =>
  toOperation(`${member}:${folded}`, { index: {} }, { member, value, people, words });

async function* spellings(
  nodes: ClusterClient,
  people: string,
  member: TextField,
  pageSize: number,
): AsyncGenerator<Spelling> {
  // Two requests for each page: one counts texts in lower case, the other the stored spellings. One request for the
  // pairs takes ten times as long. People without a stored spelling have the usual spelling.
  const field = indexing.foldedField(member);
  // Empty values are not suggested.
  const isSaid = { range: { [field]: { gt: '' } } };
  for await (const forms of countTerms(nodes, people, field, pageSize, isSaid)) {
    const spellingsOf = new Map(
      forms.map(({ key: folded, doc_count: people }) => [folded, [{ folded, value: usualSpelling(folded), people }]]),
    );
    const isOfPage = { range: { [field]: { gte: forms[0]!.key, lte: forms.at(-1)!.key } } };
    for await (const spelled of countTerms(nodes, people, indexing.spelledField(member), pageSize, isOfPage))
      for (const { key: value, doc_count: people } of spelled) {
        const folded = fold(value);
        const found = spellingsOf.get(folded);
        if (!found) continue;
        found[0]!.people -= people;
        found.push({ folded, value, people });
      }
    for (const found of spellingsOf.values()) yield* found.filter(({ people }) => people > 0);
  }
}

interface Term {
  key: string;
  doc_count: number;
}

async function* countTerms(
  nodes: ClusterClient,
  people: string,
  field: string,
  pageSize: number,
  isMatch: estypes.QueryDslQueryContainer,
): AsyncGenerator<Term[]> {
  let filter = [isMatch];
  for (;;) {
    const request = {
      index: people,
      size: 0,
      query: { bool: { filter } },
      // Sorted by term, each shard returns all terms that can belong to this page, so the counts are exact.
      aggs: { terms: { terms: { field, size: pageSize, order: { _key: 'asc' } } } },
    } as const;
    const { aggregations } = await searchCluster(nodes.retrying(), request);
    const { buckets } = aggregations!['terms'] as unknown as { buckets: Term[] };
    if (buckets.length > 0) yield buckets;
    if (buckets.length < pageSize) return;
    filter = [isMatch, { range: { [field]: { gt: buckets.at(-1)!.key } } }];
  }
}
