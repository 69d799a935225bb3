import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../../errors.ts';
import { concatenate } from '../import/arena.ts';
import { importPatienceMs, type SearchNodes } from './cluster.ts';
import { meaningOf, ClusterRefusal, type Meaning } from './errors.ts';

/** One operation of an Elasticsearch bulk request: the id of its document, and its NDJSON lines as UTF-8 bytes. */
export interface Operation {
  id: string;
  bytes: Buffer;
}

/** Returns the NDJSON lines of a bulk operation: the action, then the document (`source`). A delete has no document. */
export const operationText = (action: object, source?: object): string =>
  source ? `${JSON.stringify(action)}\n${JSON.stringify(source)}\n` : `${JSON.stringify(action)}\n`;

/** Returns a bulk operation for the document with this id. A delete has no `source`. */
export const toOperation = (id: string, action: object, source?: object): Operation => ({
  id,
  bytes: Buffer.from(operationText(action, source)),
});

/** The cluster's result for one bulk operation. */
interface ItemResult {
  status: number;
  result?: string | undefined;
  /** The type of the error, if the operation failed. */
  type?: string | undefined;
}

/**
 * Returns what the error of a bulk operation means for the caller (see `Meaning`), or undefined if the operation
 * succeeded. Two errors count as success: deleting a missing document (404), and a version conflict (409).
 */
const meaningOfItem = ({ status, type }: ItemResult): Meaning | undefined =>
  status < 300 || status === 409 || (status === 404 && type === undefined) ? undefined : meaningOf(status, type);

/**
 * Sends operations to the cluster in a bulk request. If the cluster is busy or the index is blocked, retries the failed
 * operations.
 * @param alias an alias of the index to write to. Do not pass the name of the index: if the index is missing, the
 *   cluster would create one with default settings. With an alias, it rejects the operations.
 * @param patienceMs how long failed operations are retried (ms)
 * @returns the result of each operation, by document id
 * @throws DomainError `unavailable` if some operations still fail after `patienceMs`
 * @throws ClusterRefusal if the cluster rejects an operation and a retry would not help
 */
export async function bulk(
  nodes: SearchNodes,
  alias: string,
  operations: Operation[],
  patienceMs = importPatienceMs,
): Promise<Map<string, ItemResult>> {
  const deadline = performance.now() + patienceMs;
  const results = new Map<string, ItemResult>();
  if (operations.length === 0) return results;
  let left = operations;
  for (let pause = 100; ; pause = Math.min(2 * pause, 5_000)) {
    const answers = await bulkOnce(nodes, alias, left, patienceMs);
    for (const [i, { id }] of left.entries()) results.set(id, answers[i]!);
    const isPutOff = answers.map((answer) => meaningOfItem(answer) === 'wait');
    const reason = answers[isPutOff.indexOf(true)];
    if (!reason) return results;
    left = left.filter((_, i) => isPutOff[i]);
    if (performance.now() + pause > deadline)
      throw unavailable(`The prospect catalog rejects writes at the moment (${reason.status} ${reason.type ?? ''})`);
    await sleep(pause * (0.5 + Math.random()));
  }
}

/**
 * Sends one bulk request. Returns one result for each operation, in the same order.
 * @throws ClusterRefusal if the cluster rejected an operation and a retry would not help
 */
async function bulkOnce(
  nodes: SearchNodes,
  index: string,
  operations: Operation[],
  patienceMs: number,
): Promise<ItemResult[]> {
  const request = {
    index,
    require_alias: true,
    // The client sends buffers unchanged, but its types only allow objects.
    operations: concatenate(operations.map(({ bytes }) => bytes)) as unknown as object[],
    filter_path: 'items.*.status,items.*.result,items.*.error.type',
  };
  const { items } = await nodes.work((client, options) => client.bulk(request, options), patienceMs);
  return items.map((item) => {
    const { status, result, error } = Object.values(item)[0]!;
    const answer = { status, result, type: error?.type };
    const meaning = meaningOfItem(answer);
    if (meaning === 'missing' || meaning === 'refused')
      throw new ClusterRefusal(meaning, `The search cluster rejected a document: ${status} ${error?.type}`);
    return answer;
  });
}
