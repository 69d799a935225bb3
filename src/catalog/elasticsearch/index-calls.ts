import type { SearchNodes } from './cluster.ts';
import { requireRefreshed, requireAllShards } from './errors.ts';

/** Makes all earlier writes visible to searches. Skips indexes that do not exist. */
export async function refresh(nodes: SearchNodes, index: string | string[], patienceMs?: number): Promise<void> {
  const ask = { index, ignore_unavailable: true };
  await nodes.work(async (client, options) => requireRefreshed(await client.indices.refresh(ask, options)), patienceMs);
}

export const refreshEvery = (nodes: SearchNodes, index: string, refresh_interval: string): Promise<unknown> =>
  nodes.work((client, options) => client.indices.putSettings({ index, settings: { refresh_interval } }, options));

export const countAll = (nodes: SearchNodes, index: string): Promise<number> =>
  nodes.work(async (client, options) => requireAllShards(await client.count({ index }, options)).count);
