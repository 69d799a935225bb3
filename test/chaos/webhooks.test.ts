import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  loopback,
  makeEndpoint,
  record,
  startReceiver,
  status,
  verify,
  type Receiver,
} from '../jobs/webhooks/receivers.ts';
import { runAlone } from '../setup/alone.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { Tenacious } from './rig.ts';

runAlone();

// Chaos test of webhooks. Two workers send to receivers that fail now and then; the workers are killed, and frozen for longer
// than they can have an endpoint. In the end each receiver must have got each event.
const seconds = Number(process.env['WEBHOOKS_SECONDS'] ?? 10);
const receivers = 6;

let app: TestApp;
let workers: Tenacious[] = [];

beforeAll(async () => {
  app = await startApp(loopback);
  const environment = { ...loopback, DATABASE_URL: app.url, WEBHOOK_SECRET_KEY: app.config.WEBHOOK_SECRET_KEY! };
  workers = [0, 1].map(() => new Tenacious(['src/cli.ts', 'work', '--json'], { ...environment, LOG_LEVEL: 'error' }));
  await Promise.all(workers.map((one) => one.ready()));
}, 60_000);
afterAll(() => Promise.all(workers.map((one) => one.stop())), 60_000);

test(
  `for ${seconds} s of kills and frozen workers: each event comes, and at most ten of an endpoint at a time`,
  async () => {
    const all = await Promise.all(Array.from({ length: receivers }, start));
    const stopping = AbortSignal.timeout(seconds * 1_000);
    const harmed = { kills: 0, frozen: 0 };
    await Promise.all([...all.map((one) => write(one, stopping)), harm(stopping, harmed)]);
    for (const { receiver } of all) receiver.answer = status(200);
    for (const { id, receiver, secret, sent } of all) {
      await expect
        .poll(
          async () => {
            await app.owner`update webhook_deliveries set due_at = now() where endpoint_id = ${id} and due_at is not null`;
            await app.owner`update webhook_endpoints set next_at = now() where id = ${id} and pending > 0`;
            const [row] =
              await app.owner`select pending, lower(ahead)::integer as next from webhook_endpoints where id = ${id}`;
            return row;
          },
          { timeout: 120_000 + seconds * 500, interval: 500 },
        )
        .toEqual({ pending: 0, next: sent + 1 });
      expect(new Set(receiver.received.map(({ event }) => event.data['n'])).size).toBe(sent);
      expect(receiver.maxOpen).toBeLessThanOrEqual(10);
      verify(secret, receiver.received.at(-1)!);
    }
    const [sent, got] = [
      all.reduce((sum, one) => sum + one.sent, 0),
      all.flatMap(({ receiver }) => receiver.received).length,
    ];
    process.stdout.write(`webhooks: ${JSON.stringify({ sent, got, ...harmed })}\n`);
    expect(workers.flatMap(({ complaints }) => complaints).slice(0, 3)).toEqual([]);
  },
  seconds * 2_000 + 900_000,
);

interface Target {
  customerId: string;
  id: string;
  secret: string;
  receiver: Receiver;
  sent: number;
}

async function start(): Promise<Target> {
  const { id: customerId } = await app.customer();
  const receiver = await startReceiver((response, received, request) => {
    const luck = randomInt(100);
    if (luck < 3) request.socket.destroy();
    else setTimeout(() => status(luck < 8 ? 500 : 200)(response, received, request), luck < 12 ? 1_000 : luck);
  });
  const { id, secret } = await makeEndpoint(app, customerId, receiver.url);
  return { customerId, id, secret, receiver, sent: 0 };
}

/** Records events until the time is over. */
async function write(target: Target, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    const events = Array.from(
      { length: randomInt(1, 20) },
      (_, i) => ['contact.created', { n: target.sent + i }] as const,
    );
    await record(app, target.customerId, events);
    target.sent += events.length;
    await sleep(randomInt(1_000));
  }
}

/** Kills or freezes one of the workers, again and again. */
async function harm(stopping: AbortSignal, harmed: { kills: number; frozen: number }): Promise<void> {
  const pause = (ms: number) => sleep(ms, undefined, { signal: stopping }).catch(() => undefined);
  for (let i = 0; !stopping.aborted; i += 1) {
    await Promise.all(workers.map((one) => one.ready()));
    await pause(randomInt(1_000, 8_000));
    const victim = workers[randomInt(workers.length)]!;
    if (i % 3 === 2) {
      victim.signal('SIGSTOP');
      harmed.frozen += 1;
      await pause(35_000);
      // It is ready again at once, and does not know how long it stood still.
      victim.signal('SIGCONT');
    } else {
      victim.signal('SIGKILL');
      harmed.kills += 1;
    }
  }
}
