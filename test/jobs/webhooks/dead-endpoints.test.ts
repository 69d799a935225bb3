import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { startWorkers } from '../../../src/jobs/workers.ts';
import { startApp } from '../../setup/app.ts';
import { contextOf } from '../working.ts';
import { loopback, makeEndpoint, record, startReceiver } from './receivers.ts';

/** How many customers have dead endpoints, five each. The full number, 200, is for a run by hand. */
const customers = Number(process.env['DEAD_CUSTOMERS'] ?? 20);
/** Events of the healthy endpoint, one each 100 ms. */
const events = Number(process.env['HEALTHY_EVENTS'] ?? 100);

const app = await startApp({ ...loopback });
const silent = createServer((socket) => socket.resume().on('error', () => undefined)).listen(0, '127.0.0.1');
await once(silent, 'listening');
afterAll(() => void silent.close());

test(`a healthy endpoint does not wait for ${customers * 5} dead ones of ${customers} customers`, async () => {
  const dead = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
  const others: string[] = [];
  for (let i = 0; i < customers; i += 1) {
    const { id } = await app.customer();
    others.push(id);
    for (let n = 0; n < 5; n += 1) await makeEndpoint(app, id, dead);
  }
  const { id } = await app.customer();
  const receiver = await startReceiver();
  await makeEndpoint(app, id, receiver.url);
  for (const other of others)
    await record(
      app,
      other,
      Array.from({ length: 5 }, () => ['contact.created']),
    );
  const workers = await startWorkers({ ...contextOf(app), url: app.url });
  try {
    // While all dead endpoints are new, too.
    const fresh = Promise.all(Array.from({ length: 20 }, firstWait));
    // From now on the endpoint is known to work. The slots for others are all in use.
    await record(app, id, [['contact.created', { n: -1 }]]);
    await expect.poll(() => receiver.received.length, { timeout: 60_000 }).toBe(1);
    receiver.received.length = 0;
    const committed: number[] = [];
    for (let n = 0; n < events; n += 1) {
      await record(app, id, [['contact.created', { n }]]);
      committed.push(Date.now());
      if (n % 10 === 0) await record(app, others[n % others.length]!, [['contact.created']]);
      await sleep(100);
    }
    await expect.poll(() => receiver.received.length, { timeout: 60_000 }).toBe(events);
    const waits = receiver.received.map(({ at, event }) => at - committed[Number(event.data['n'])]!);
    // A dead endpoint takes 15 s, so whoever waits for one waits longer than this. Aim: p99 2 s.
    expect(median(waits, 'healthy')).toBeLessThanOrEqual(10_000);
    expect(median(await fresh, 'new')).toBeLessThanOrEqual(10_000);
  } finally {
    await workers.stop();
  }
});

/** Returns how long the first event of a new endpoint waits (ms). */
async function firstWait(_: unknown, n: number): Promise<number> {
  await sleep(n * 150);
  const { id } = await app.customer();
  const receiver = await startReceiver();
  await makeEndpoint(app, id, receiver.url);
  await record(app, id, [['contact.created']]);
  const committed = Date.now();
  await expect.poll(() => receiver.received.length, { timeout: 60_000 }).toBe(1);
  return receiver.received[0]!.at - committed;
}

function median(times: number[], name: string): number {
  const waits = times.toSorted((a, b) => a - b);
  const middle = waits[waits.length >> 1]!;
  const p99 = waits[Math.ceil(waits.length * 0.99) - 1]!;
  process.stdout.write(`${name}: median ${middle} ms, p99 ${p99} ms, longest ${waits.at(-1)} ms\n`);
  return middle;
}
