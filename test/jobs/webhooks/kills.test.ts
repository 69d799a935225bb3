import { expect, test, vi } from 'vitest';
import { startApp } from '../../setup/app.ts';
import { startServerProcess } from '../../setup/server-process.ts';
import { loopback, makeEndpoint, record, startReceiver, status } from './receivers.ts';

const app = await startApp(loopback);

const startWorker = () =>
  startServerProcess(app.url, { ...loopback, WEBHOOK_SECRET_KEY: app.config.WEBHOOK_SECRET_KEY! }, [
    'src/cli.ts',
    'work',
    '--json',
  ]);

test('a worker that is killed between a POST and the note of it loses no event', async () => {
  const { id: customerId } = await app.customer();
  // Half of the requests get no answer before the kill.
  const receiver = await startReceiver((response, { event }) => {
    if (Number(event.data['n']) % 2 === 0) status(200)(response, null as never, null as never);
    else setTimeout(() => response.end(), 3_000);
  });
  const { id } = await makeEndpoint(app, customerId, receiver.url);
  const sent = Array.from({ length: 40 }, (_, n) => n);
  const gotten = () => new Set(receiver.received.map(({ event }) => Number(event.data['n'])));
  for (const [i, kills] of [0, 2].entries()) {
    const worker = await startWorker();
    await record(
      app,
      customerId,
      sent.slice(i * 20, i * 20 + 20).map((n) => ['contact.created', { n }] as const),
    );
    const before = receiver.received.length;
    await vi.waitFor(() => expect(receiver.received.length).toBeGreaterThan(before + kills), { timeout: 40_000 });
    await worker.stop('SIGKILL');
  }
  receiver.answer = status(200);
  const last = await startWorker();
  await vi.waitFor(() => expect(gotten().size).toBe(sent.length), { timeout: 60_000 });
  await vi.waitFor(
    async () => {
      const [row] = await app.owner`select lower(ahead)::int as next, pending from webhook_endpoints where id = ${id}`;
      expect(row).toEqual({ next: sent.length + 1, pending: 0 });
    },
    { timeout: 60_000 },
  );
  const [{ noted }] = await app.owner<[{ noted: string }]>`
    select count(distinct event_id) as noted from webhook_deliveries where endpoint_id = ${id} and ok`;
  expect(Number(noted)).toBe(sent.length);
  expect(await last.stop()).toBe(0);
});
