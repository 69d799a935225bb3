import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApp, type TestApp } from './setup/app.ts';
import type { TestCustomer } from './setup/factories.ts';
import { startFaultyProxy, type FaultyProxy } from './setup/faulty-proxy.ts';
import { startServerProcess, type ServerProcess } from './setup/server-process.ts';

/** Searches per second that the service can do: each takes 50 ms and four run at once. */
const searchMs = 50;
const limits = {
  LOG_LEVEL: 'silent',
  DATABASE_SEARCH_CONNECTIONS: '4',
  DATABASE_QUEUE_LENGTH: '40',
  DATABASE_QUEUE_MS: '20000', // so that only the length of the queue refuses, also on a machine that stalls
};
const capacity = 4 * (1_000 / searchMs);

let app: TestApp;
let proxy: FaultyProxy;
let service: ServerProcess;

beforeAll(async () => {
  app = await startApp();
  proxy = await startFaultyProxy(app.url);
  service = await startServerProcess(proxy.through(app.url), limits);
  proxy.delay(searchMs);
});
afterAll(() => proxy?.close());

interface Seen {
  status: number;
  retryAfter: string | null;
}

async function search({ key }: TestCustomer): Promise<Seen> {
  const answer = await fetch(`${service.url}/api/ext/contacts/list`, {
    method: 'POST',
    headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ filters: { job_title: { contains: 'a' } } }),
  });
  await answer.arrayBuffer();
  return { status: answer.status, retryAfter: answer.headers.get('retry-after') };
}

/** Sends this many searches per second, round-robin over the customers, without waiting for responses. */
async function sendSteadily(customers: TestCustomer[], rate: number, ms: number): Promise<Seen[][]> {
  const sent: Promise<Seen>[][] = customers.map(() => []);
  const begun = performance.now();
  for (let i = 0; performance.now() < begun + ms;) {
    const due = ((performance.now() - begun) / 1_000) * rate;
    for (; i < due; i += 1) sent[i % customers.length]!.push(search(customers[i % customers.length]!));
    await sleep(5);
  }
  return Promise.all(sent.map((one) => Promise.all(one)));
}

/** Returns the memory in use (MiB). */
async function residentMemory(): Promise<number> {
  const status = await readFile(`/proc/${service.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024;
}

test('at five times the capacity, a light customer is served, the others get their shares and quick rejections, and afterwards the service recovers', async () => {
  const [gentle, ...greedy] = await Promise.all(Array.from({ length: 9 }, () => app.customer()));
  await sendSteadily(greedy, capacity, 1_000); // opens all connections
  const before = await residentMemory();

  const load = sendSteadily(greedy, 5 * capacity, 5_000);
  const served: Seen[] = [];
  for (let i = 0; i < 8; i += 1) {
    await sleep(500);
    served.push(await search(gentle!));
  }
  const grown = (await residentMemory()) - before;
  const seen = await load;

  expect(served.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
  const all = seen.flat();
  const refused = all.filter(({ status }) => status === 503);
  const accepted = all.filter(({ status }) => status === 200);
  expect(refused.length + accepted.length).toBe(all.length);
  expect(refused.every(({ retryAfter }) => Number(retryAfter) >= 1)).toBe(true);
  expect(refused.length).toBeGreaterThan(accepted.length);
  const shares = seen.map((one) => one.filter(({ status }) => status === 200).length);
  expect(Math.min(...shares)).toBeGreaterThan(Math.max(...shares) / 3);
  expect(grown).toBeLessThan(200);

  await expect
    .poll(async () => (await sendSteadily(greedy, capacity / 4, 200)).flat().every(({ status }) => status === 200), {
      timeout: 5_000,
    })
    .toBe(true);
});
