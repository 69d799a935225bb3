import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { readUnacknowledged, receivedBytes } from '../../src/network/socket-progress.ts';

const server = createServer();
const sockets: Socket[] = [];
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
});

/** Both ends of a connection. The reader reads only when told to. */
async function pair(): Promise<{ writer: Socket; reader: Socket }> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const reader = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  const [writer] = await accepted;
  sockets.push(writer, reader);
  return { writer, reader };
}

const receivedFrom = async (socket: Socket): Promise<number> => receivedBytes(socket, await readUnacknowledged());

/** Waits until two consecutive readings are equal. */
async function settled(socket: Socket): Promise<number> {
  let seen = -1;
  await expect
    .poll(async () => seen === (seen = await receivedFrom(socket)), { interval: 50, timeout: 10_000 })
    .toBe(true);
  return seen;
}

test.skipIf(process.platform !== 'linux')(
  'a peer that takes less than the kernel asks for at a time makes progress',
  async () => {
    const { writer, reader } = await pair();
    writer.write(Buffer.alloc(24 * 1024 * 1024));
    const before = await settled(writer);
    const nodes = () => receivedBytes(writer, new Map());
    const nodesBefore = nodes();
    expect(before).toBeGreaterThan(0);
    let read = 0;
    reader.on('readable', () => undefined);
    await expect
      .poll(
        async () => {
          read += ((reader.read() as Buffer | null) ?? '').length; // the bytes that have arrived: 64 KiB at most
          return receivedFrom(writer);
        },
        { interval: 10, timeout: 20_000 },
      )
      .toBeGreaterThan(before);
    expect(await settled(writer)).toBeGreaterThanOrEqual(read);
    // Node's own numbers are unchanged: only the kernel's show the progress.
    expect(nodes()).toBe(nodesBefore);
  },
);

test('a peer that takes nothing makes no progress, whatever is written meanwhile', async () => {
  const { writer } = await pair();
  writer.write(Buffer.alloc(24 * 1024 * 1024));
  const before = await settled(writer);
  writer.write(Buffer.alloc(1024));
  expect(await receivedFrom(writer)).toBe(before);
});
