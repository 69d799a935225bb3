import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { startApp } from '../../setup/app.ts';

const app = await startApp();
let port: number;

beforeAll(async () => {
  await app.fastify.listen({ host: '127.0.0.1', port: 0 });
  port = (app.fastify.server.address() as AddressInfo).port;
});

const bodyBytes = 3_000_000;

/** Opens a connection, and sends the headers of a login with a body that is too large. Reads nothing yet. */
async function begin(connection: 'close' | 'keep-alive', bytes = bodyBytes): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true }).pause();
  await once(socket, 'connect');
  socket.write(
    [
      'POST /api/auth/login HTTP/1.1',
      'host: localhost',
      `connection: ${connection}`,
      'content-type: application/json',
      `content-length: ${bytes}`,
      '\r\n',
    ].join('\r\n'),
  );
  return socket;
}

/** Sends a body in small pieces, like a slow caller. Rejects if the connection is reset. */
async function sendBody(socket: Socket, bytes = bodyBytes): Promise<void> {
  const piece = Buffer.alloc(100_000, 'x');
  for (let sent = 0; sent < bytes; sent += piece.length) {
    await new Promise<void>((resolve, reject) => socket.write(piece, (error) => (error ? reject(error) : resolve())));
    await sleep(2);
  }
}

/** Reads until the service closes the connection. */
async function readAll(socket: Socket): Promise<string> {
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
}

describe('a body that is refused before it has arrived', () => {
  test('the caller that closes the connection after the response still reads it', async () => {
    for (let i = 0; i < 5; i += 1) {
      const socket = await begin('close');
      await sendBody(socket);
      expect(await readAll(socket)).toMatch(/^HTTP\/1\.1 413 [^]*"payload_too_large"/);
    }
  });

  test('the caller that keeps the connection sends the next request on it', async () => {
    const socket = await begin('keep-alive');
    await sendBody(socket);
    socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
    expect(await readAll(socket)).toMatch(/^HTTP\/1\.1 413 [^]*HTTP\/1\.1 200 /);
  });

  test('the connection is closed when the body has arrived, also if the caller leaves its end open', async () => {
    const connections = () => new Promise((resolve) => app.fastify.server.getConnections((_, count) => resolve(count)));
    const socket = await begin('close');
    expect(await connections()).toBe(1);
    await sendBody(socket);
    await expect.poll(connections, { timeout: 5_000 }).toBe(0);
    socket.destroy();
  });

  test('is discarded in small pieces, so that other callers are served in between', async () => {
    const connection = once(app.fastify.server, 'connection') as Promise<[Socket]>;
    const bytes = 20_000_000;
    const socket = await begin('close', bytes);
    const [served] = await connection;
    socket.write(Buffer.alloc(bytes, 'x'));
    let [most, before] = [0, served.bytesRead];
    while (!served.destroyed && before < bytes) {
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, served.bytesRead - before);
      before = served.bytesRead;
    }
    expect(before).toBeGreaterThan(bytes);
    expect(most).toBeLessThan(2 ** 18);
    expect(await readAll(socket)).toMatch(/^HTTP\/1\.1 413 /);
  });
});
