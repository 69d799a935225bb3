import { unkeyedDetail, type CatalogStatus } from '../catalog.ts';
import type { ClusterClient } from './cluster.ts';
import { requireAllShards } from './errors.ts';
import { findIndexes, standingOf, wasImported, type Indexes, type Standing } from './indexes.ts';

/** Also true if no import has created an index yet. */
export const isUp = (indexes: Indexes): Promise<boolean> =>
  Promise.all([isWhole(indexes, indexes.names.people), isWhole(indexes, indexes.names.values)]).then(
    (all) => all.every(Boolean),
    () => false,
  );

/**
 * True if the service created the index behind the alias, all primary shards are available, and nothing is blocked.
 * Also if no import has created an index yet.
 */
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
  // A closed index is listed as blocked too. The list may also contain other indexes.
  return health.status !== 'red' && Object.keys(global).length === 0 && !(index in indices);
}

/** Forbidden operations: of the whole cluster, and by index name. */
interface Blocks {
  global?: object;
  indices?: Record<string, object>;
}

const look = async (nodes: ClusterClient, alias: string): Promise<Standing> =>
  standingOf(await findIndexes({ work: (call) => nodes.ask(call) }, alias), alias);

/**
 * A count is 0 if there is no index that the service created.
 * @throws DomainError `unavailable` if the cluster or some of its shards do not respond
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
      ...unkeyedDetail(await countUnkeyed(nodes, people)),
    },
  };
}

/** The index behind an alias. Its name is `none` if it was not found. */
interface Counted {
  standing: Standing;
  index: string;
  count: number;
  bytes: number;
}

/** Counts the people whom an earlier release stored without keys. */
async function countUnkeyed(nodes: ClusterClient, { index, count }: Counted): Promise<number> {
  if (count === 0) return 0;
  const query = { bool: { must_not: { exists: { field: 'k' } } } };
  return nodes.read(async (client, options) => requireAllShards(await client.count({ index, query }, options)).count);
}

async function countIn(nodes: ClusterClient, alias: string): Promise<Counted> {
  const standing = standingOf(await findIndexes({ work: (call) => nodes.read(call) }, alias), alias);
  if (typeof standing === 'string') return { standing, index: 'none', count: 0, bytes: 0 };
  const { name: index } = standing;
  const { count } = await nodes.read(async (client, options) =>
    requireAllShards(await client.count({ index }, options)),
  );
  const { indices = {} } = await nodes.read((client, options) =>
    client.indices.stats({ index, metric: ['store'] }, options),
  );
  return { standing, index, count, bytes: indices[index]?.total?.store?.size_in_bytes ?? 0 };
}

function stateOf(standing: Standing, wasImported: boolean): string {
  if (standing === 'foreign') return 'another index has its alias';
  if (standing === 'missing')
    return wasImported ? 'lost; give its alias back, or run an import to restore it' : 'not imported yet';
  if (standing.isClosed) return 'closed';
  if (standing.blocks.length > 0) return `blocked: ${standing.blocks.join(', ')}`;
  return 'found';
}
