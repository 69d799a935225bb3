import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../errors.ts';
import { joined } from './arena.ts';
import { loadPatienceMs, type SearchNodes } from './elasticsearch-cluster.ts';
import { meaningOf, Refusal, type Meaning } from './elasticsearch-errors.ts';

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
  /** Of its error. */
  type?: string | undefined;
}

/** What an operation's error means. Deleting what is not there (404), and a version that has gone on (409), are results. */
const meaningOfItem = ({ status, type }: ItemResult): Meaning | undefined =>
  status < 300 || status === 409 || (status === 404 && type === undefined) ? undefined : meaningOf(status, type);

/**
 * Sends operations, and those again that the cluster cannot do at the moment: it is busy, or the index is blocked.
 * @param alias of the index that is written to. It must be an alias: under a name that nothing has, the cluster would make
 *   an index of its own liking
 * @throws DomainError `unavailable` when that lasts too long
 * @throws Refusal
 */
export async function bulk(
  nodes: SearchNodes,
  alias: string,
  operations: Operation[],
  patienceMs = loadPatienceMs,
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
      throw unavailable(`The prospect catalog takes no writes at the moment (${reason.status} ${reason.type ?? ''})`);
    await sleep(pause * (0.5 + Math.random()));
  }
}

/** @throws Refusal when waiting helps none of those that failed */
async function bulkOnce(
  nodes: SearchNodes,
  index: string,
  operations: Operation[],
  patienceMs: number,
): Promise<ItemResult[]> {
  const request = {
    index,
    require_alias: true,
    // The client sends bytes as they are; its types know objects only.
    operations: joined(operations.map(({ bytes }) => bytes)) as unknown as object[],
    filter_path: 'items.*.status,items.*.result,items.*.error.type',
  };
  const { items } = await nodes.work((client, options) => client.bulk(request, options), patienceMs);
  return items.map((item) => {
    const { status, result, error } = Object.values(item)[0]!;
    const answer = { status, result, type: error?.type };
    const meaning = meaningOfItem(answer);
    if (meaning === 'missing' || meaning === 'refused')
      throw new Refusal(meaning, `The catalog refused a document: ${status} ${error?.type}`);
    return answer;
  });
}
