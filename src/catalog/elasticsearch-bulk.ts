import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../errors.ts';
import { loadPatienceMs, type SearchNodes } from './elasticsearch-cluster.ts';

/** One line or two of a bulk request. */
export interface Operation {
  id: string;
  action: object;
  /** None of a deletion. */
  source?: object;
}

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
  const results = new Map<string, ItemResult>();
  const deadline = performance.now() + patienceMs;
  let left = operations;
  for (let pause = 100; left.length > 0; pause = Math.min(2 * pause, 5_000)) {
    if (results.size > 0) await sleep(pause * (0.5 + Math.random()));
    if (performance.now() > deadline) throw unavailable('The prospect catalog is too busy');
    const answers = await bulkOnce(nodes, index, left, patienceMs);
    for (const [i, { id }] of left.entries()) results.set(id, answers[i]!);
    left = left.filter(({ id }) => overloaded.has(results.get(id)!.status));
  }
  return results;
}

async function bulkOnce(
  nodes: SearchNodes,
  index: string,
  operations: Operation[],
  patienceMs: number,
): Promise<ItemResult[]> {
  // The client sends bytes as they are; its types know objects only.
  const lines = encode(operations) as unknown as object[];
  const request = { index, operations: lines, filter_path: 'items.*.status,items.*.result,items.*.error.type' };
  const { items } = await nodes.work((client, options) => client.bulk(request, options), patienceMs);
  return items.map((item) => {
    const { status, result, error } = Object.values(item)[0]!;
    if (!expected.has(status) && !overloaded.has(status))
      throw new Error(`The catalog refused a document: ${status} ${error?.type}`);
    return { status, result };
  });
}

/** The lines as bytes, written one by one: joined, a single person in another script would double the size of all. */
function encode(operations: Operation[]): Buffer {
  let bytes = Buffer.allocUnsafe(operations.length * 2_048);
  let length = 0;
  for (const { action, source } of operations) {
    const lines = `${JSON.stringify(action)}\n${source ? `${JSON.stringify(source)}\n` : ''}`;
    // A UTF-16 unit becomes three bytes at most.
    const most = length + 3 * lines.length;
    if (most > bytes.length) bytes = Buffer.concat([bytes.subarray(0, length)], 2 * most);
    length += bytes.write(lines, length);
  }
  return bytes.subarray(0, length);
}
