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
  const deadline = performance.now() + patienceMs;
  const results = new Map<string, ItemResult>();
  if (operations.length === 0) return results;
  let left = encode(operations);
  for (let pause = 100; ; pause = Math.min(2 * pause, 5_000)) {
    const answers = await bulkOnce(nodes, index, left.bytes, patienceMs);
    for (const [i, { id }] of left.lines.entries()) results.set(id, answers[i]!);
    const refused = left.lines.filter((_, i) => overloaded.has(answers[i]!.status));
    if (refused.length === 0) return results;
    left = select(left, refused);
    await sleep(pause * (0.5 + Math.random()));
    if (performance.now() > deadline) throw unavailable('The prospect catalog is too busy');
  }
}

async function bulkOnce(nodes: SearchNodes, index: string, bytes: Buffer, patienceMs: number): Promise<ItemResult[]> {
  const request = {
    index,
    // The client sends bytes as they are; its types know objects only.
    operations: bytes as unknown as object[],
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

/** Operations as they are sent, and where each of them stands. A load keeps these alone: objects that wait are a heap full soon. */
interface Encoded {
  bytes: Buffer;
  lines: { id: string; start: number; end: number }[];
}

/** Written one by one: joined, a single person in another script would double the size of all. */
function encode(operations: Operation[]): Encoded {
  let bytes = Buffer.allocUnsafe(operations.length * 2_048);
  let end = 0;
  const lines = operations.map(({ id, action, source }) => {
    const text = `${JSON.stringify(action)}\n${source ? `${JSON.stringify(source)}\n` : ''}`;
    // A UTF-16 unit becomes three bytes at most.
    const most = end + 3 * text.length;
    if (most > bytes.length) bytes = Buffer.concat([bytes.subarray(0, end)], 2 * most);
    const start = end;
    end += bytes.write(text, start);
    return { id, start, end };
  });
  return { bytes: bytes.subarray(0, end), lines };
}

/** Some of the operations, in bytes of their own. */
function select({ bytes }: Encoded, chosen: Encoded['lines']): Encoded {
  let at = 0;
  return {
    bytes: Buffer.concat(chosen.map(({ start, end }) => bytes.subarray(start, end))),
    lines: chosen.map(({ id, start, end }) => ({ id, start: at, end: (at += end - start) })),
  };
}
