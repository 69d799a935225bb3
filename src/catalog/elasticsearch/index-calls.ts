import type { estypes } from '@elastic/elasticsearch';
import type { ClusterClient } from './cluster.ts';
import { requireRefreshed, requireAllShards } from './errors.ts';

/** Makes all earlier writes visible to searches. Skips indexes that do not exist. */
export async function refresh(nodes: ClusterClient, index: string | string[], patienceMs?: number): Promise<void> {
  const ask = { index, ignore_unavailable: true };
  await nodes.work(async (client, options) => requireRefreshed(await client.indices.refresh(ask, options)), patienceMs);
}

export const changeSettings = (
  nodes: ClusterClient,
  index: string,
  settings: estypes.IndicesIndexSettings,
): Promise<unknown> => nodes.work((client, options) => client.indices.putSettings({ index, settings }, options));

/** All actions, or none. */
export async function changeAliases(
  nodes: ClusterClient,
  actions: estypes.IndicesUpdateAliasesAction[],
): Promise<void> {
  if (actions.length > 0) await nodes.work((client, options) => client.indices.updateAliases({ actions }, options));
}

export const countAll = (nodes: ClusterClient, index: string): Promise<number> =>
  nodes.work(async (client, options) => requireAllShards(await client.count({ index }, options)).count);
