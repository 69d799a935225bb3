import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/** Requests that callers send without a pause, each caller one after another. */
export interface Flood {
  /** One for each caller. They call from addresses of this machine. */
  callers: { localAddress: string; key: string }[];
  method: string;
  url: string;
  body: string;
  /** Number of requests that each caller sends. */
  each: number;
}

/** Number of answers of each status. A connection that broke counts as `broken`. */
export type Statuses = Record<string, number>;

/** Sends a flood from a thread of its own, so that it does not delay the caller's own requests. */
export async function sendFlood(flood: Flood): Promise<Statuses> {
  const worker = new Worker(join(import.meta.dirname, 'flood.ts'), { workerData: flood, execArgv: [] });
  const [statuses] = (await once(worker, 'message')) as [Statuses];
  await worker.terminate();
  return statuses;
}

async function run({ callers, method, url, body, each }: Flood): Promise<void> {
  const statuses: Statuses = {};
  const send = async (localAddress: string, key: string, agent: Agent) => {
    const headers = { authorization: `X-API-Key ${key}`, 'content-length': Buffer.byteLength(body) };
    const type = body && { 'content-type': 'application/json' };
    const sent = request(url, { method, headers: { ...headers, ...type }, localAddress, agent });
    sent.on('error', () => undefined); // a proxy may answer before it has read the body
    sent.end(body);
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    await buffer(answer);
    return answer.statusCode!;
  };
  await Promise.all(
    callers.map(async ({ localAddress, key }) => {
      const agent = new Agent({ keepAlive: true });
      for (let n = 0; n < each; n += 1) {
        const status = await send(localAddress, key, agent).catch(() => 'broken');
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
      agent.destroy();
    }),
  );
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has no origin
  parentPort!.postMessage(statuses);
}

if (!isMainThread && (workerData as Partial<Flood> | null)?.callers) await run(workerData as Flood);
