import type { CatalogStatus } from './catalog.ts';
import type { SearchNodes } from './elasticsearch-cluster.ts';
import { whole } from './elasticsearch-errors.ts';
import { findIndexes, standingOf, wasImported, type Indexes, type Standing } from './elasticsearch-indexes.ts';

/** Whether the catalog can be searched and written to; also before its first import, when there is none. */
export const isUp = (indexes: Indexes): Promise<boolean> =>
  Promise.all([isWhole(indexes, indexes.names.people), isWhole(indexes, indexes.names.values)]).then(
    (all) => all.every(Boolean),
    () => false,
  );

/** Whether an alias stands for an index of ours that has all its shards and is not blocked. */
async function isWhole(indexes: Indexes, alias: string): Promise<boolean> {
  const { nodes } = indexes;
  const standing = await look(nodes, alias);
  if (standing === 'missing') return !(await wasImported(indexes));
  if (standing === 'foreign') return false;
  const index = standing.name;
  const [health, state] = await Promise.all([
    nodes.ask((client, options) => client.cluster.health({ index }, options)),
    nodes.ask((client, options) => client.cluster.state({ index, metric: 'blocks', filter_path: 'blocks' }, options)),
  ]);
  const { global = {}, indices = {} } = (state['blocks'] ?? {}) as Blocks;
  // A closed index counts as blocked too. Indexes that are not ours are listed as well.
  return health.status !== 'red' && Object.keys(global).length === 0 && !(index in indices);
}

/** Blocks on all of the cluster, and on single indexes by their names. */
interface Blocks {
  global?: object;
  indices?: Record<string, object>;
}

const look = async (nodes: SearchNodes, alias: string): Promise<Standing> =>
  standingOf(await findIndexes({ work: (call) => nodes.ask(call) }, alias), alias);

/**
 * What is found in the cluster, counted there. Nobody is counted in what is not the catalog's index.
 * @throws DomainError `unavailable` also when a part of it does not answer
 */
export async function statusOf(indexes: Indexes): Promise<CatalogStatus> {
  const { nodes, names } = indexes;
  const [people, values] = await Promise.all([countIn(nodes, names.people), countIn(nodes, names.values)]);
  const health = await nodes.read((client, options) => client.cluster.health({}, options));
  return {
    engine: 'elasticsearch',
    people: people.count,
    suggestions: values.count,
    details: {
      index: people.index,
      state: stateOf(people.standing, await wasImported(indexes)),
      bytes: people.bytes,
      cluster: health.status,
      nodes: health.number_of_nodes,
    },
  };
}

interface Counted {
  standing: Standing;
  index: string;
  count: number;
  bytes: number;
}

async function countIn(nodes: SearchNodes, alias: string): Promise<Counted> {
  const standing = standingOf(await findIndexes({ work: (call) => nodes.read(call) }, alias), alias);
  if (typeof standing === 'string') return { standing, index: 'none', count: 0, bytes: 0 };
  const { name: index } = standing;
  const { count } = await nodes.read(async (client, options) => whole(await client.count({ index }, options)));
  const { indices = {} } = await nodes.read((client, options) =>
    client.indices.stats({ index, metric: ['store'] }, options),
  );
  return { standing, index, count, bytes: indices[index]?.total?.store?.size_in_bytes ?? 0 };
}

function stateOf(standing: Standing, wasImported: boolean): string {
  if (standing === 'foreign') return 'another index stands in its place; an import brings it back';
  if (standing === 'missing') return wasImported ? 'lost; an import brings it back' : 'not imported yet';
  if (standing.isClosed) return 'closed';
  if (standing.blocks.length > 0) return `blocked: ${standing.blocks.join(', ')}`;
  return 'found';
}
