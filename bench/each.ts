import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { EachOptions } from './run.ts';

// A process of its own, like load.ts. Sends each request once, because a record can be deleted only once.
const { base, callers, requests } = JSON.parse(await text(process.stdin)) as EachOptions;
const agent = new Agent({ keepAlive: true, maxSockets: callers });
const times: number[] = [];
let [next, failed] = [0, 0];

const send = ({ method, path, body, headers, status }: EachOptions['requests'][number]): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const content = body === undefined ? undefined : JSON.stringify(body);
    const type = content === undefined ? {} : { 'content-type': 'application/json' };
    const sent = request(base + path, { method, agent, headers: { ...headers, ...type } }, (answer) => {
      const isRight = status === undefined ? answer.statusCode! < 300 : answer.statusCode === status;
      if (!isRight && failed === 0) void text(answer).then((error) => process.stderr.write(`${error}\n`));
      answer.resume().on('end', () => resolve(isRight));
    });
    sent.on('error', reject).end(content);
  });

async function caller(): Promise<void> {
  while (next < requests.length) {
    const one = requests[next++]!;
    const start = performance.now();
    if (!(await send(one))) failed += 1;
    times.push(performance.now() - start);
  }
}

const start = performance.now();
await Promise.all(Array.from({ length: callers }, caller));
const seconds = (performance.now() - start) / 1_000;
const sorted = times.toSorted((a, b) => a - b);
const percentile = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
agent.destroy();
process.stdout.write(
  JSON.stringify({
    requests: times.length - failed,
    rate: times.length / seconds,
    p50: percentile(0.5),
    p99: percentile(0.99),
    failed,
  }),
);
