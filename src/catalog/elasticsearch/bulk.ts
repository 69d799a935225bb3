import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../../errors.ts';
import { importPatienceMs, type ClusterClient } from './cluster.ts';
import { meaningOf, ClusterRefusal, type Meaning } from './errors.ts';

/** An operation of a bulk request: NDJSON lines as UTF-8 bytes. */
export interface Operation {
  id: string;
  bytes: Buffer;
}

/** Returns the NDJSON lines: the action, then the document. A delete has none. */
export const operationText = (action: object, source?: object): string =>
  source ? `${JSON.stringify(action)}\n${JSON.stringify(source)}\n` : `${JSON.stringify(action)}\n`;

export const toOperation = (id: string, action: object, source?: object): Operation => ({
  id,
  bytes: Buffer.from(operationText(action, source)),
});

interface ItemResult {
  status: number;
  result?: string | undefined;
  type?: string | undefined;
}

/**
 * Returns undefined if the operation succeeded. Deleting a missing document (404) and a version conflict (409) count as
 * success.
 */
const meaningOfItem = ({ status, type }: ItemResult): Meaning | undefined =>
  status < 300 || status === 409 || (status === 404 && type === undefined) ? undefined : meaningOf(status, type);

/**
 * Sends operations in a bulk request. Retries those that fail because the cluster is busy or the index blocked.
 * @param alias not the index's own name: if the index is missing, the cluster would create one with default settings;
 * with an alias, it rejects the operations
 * @param patienceMs how long operations are retried (ms)
 * @returns results by document id
 * @throws DomainError `unavailable` if some still fail after `patienceMs`
 * @throws ClusterRefusal if a retry would not help
 */
export async function bulk(
  nodes: ClusterClient,
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
 * Returns one result for each operation, in the same order.
 * @throws ClusterRefusal if the cluster rejected one and a retry would not help
 */
async function bulkOnce(
  nodes: ClusterClient,
  index: string,
  operations: Operation[],
  patienceMs: number,
): Promise<ItemResult[]> {
  const request = {
    index,
    require_alias: true,
    // The client sends buffers unchanged, but its types only allow objects.
    operations: Buffer.concat(operations.map(({ bytes }) => bytes)) as unknown as object[],
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
