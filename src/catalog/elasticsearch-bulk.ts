import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../errors.ts';
import { joined } from './arena.ts';
import { loadPatienceMs, type SearchNodes } from './elasticsearch-cluster.ts';

/** One line or two of a bulk request, as they are sent. */
export interface Operation {
  id: string;
  bytes: Buffer;
}

/** The text of an operation; one that deletes has no source. */
export const operationText = (action: object, source?: object): string =>
  source ? `${JSON.stringify(action)}\n${JSON.stringify(source)}\n` : `${JSON.stringify(action)}\n`;

export const toOperation = (id: string, action: object, source?: object): Operation => ({
  id,
  bytes: Buffer.from(operationText(action, source)),
});

/** What became of one operation. */
interface ItemResult {
  status: number;
  result?: string | undefined;
}

const overloaded = new Set([429, 503]);
/** Deleting what is not there, and a version that has gone on, are answers. */
const expected = new Set([200, 201, 404, 409]);

/**
 * Sends operations, and those again that the cluster turned away because it was busy.
 * @throws DomainError `unavailable` when that lasts too long
 */
export async function bulk(
  nodes: SearchNodes,
  index: string,
  operations: Operation[],
  patienceMs = loadPatienceMs,
): Promise<Map<string, ItemResult>> {
  const deadline = performance.now() + patienceMs;
  const results = new Map<string, ItemResult>();
  if (operations.length === 0) return results;
  let left = operations;
  for (let pause = 100; ; pause = Math.min(2 * pause, 5_000)) {
    const answers = await bulkOnce(nodes, index, left, patienceMs);
    for (const [i, { id }] of left.entries()) results.set(id, answers[i]!);
    const refused = left.filter((_, i) => overloaded.has(answers[i]!.status));
    if (refused.length === 0) return results;
    left = refused;
    await sleep(pause * (0.5 + Math.random()));
    if (performance.now() > deadline) throw unavailable('The prospect catalog is too busy');
  }
}

async function bulkOnce(
  nodes: SearchNodes,
  index: string,
  operations: Operation[],
  patienceMs: number,
): Promise<ItemResult[]> {
  const request = {
    index,
    // The client sends bytes as they are; its types know objects only.
    operations: joined(operations.map(({ bytes }) => bytes)) as unknown as object[],
    filter_path: 'items.*.status,items.*.result,items.*.error.type',
  };
  const { items } = await nodes.work((client, options) => client.bulk(request, options), patienceMs);
  return items.map((item) => {
    const { status, result, error } = Object.values(item)[0]!;
    if (!expected.has(status) && !overloaded.has(status))
      throw new Error(`The catalog refused a document: ${status} ${error?.type}`);
    return { status, result };
  });
}
