import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { startServerProcess } from '../setup/server-process.ts';

const { url: databaseUrl } = await startApp();

/** Returns the status of `/healthz`, or `refused` if the server does not listen any more. */
const health = (url: string) =>
  fetch(`${url}/healthz`).then(
    ({ status }) => status,
    () => 'refused',
  );

const request = 'GET /api/ext/products HTTP/1.1\r\nHost: x\r\nX-Request-Id: late-1\r\n\r\n';

test.each([0, 30])('a request of which %i bytes arrived before the close gets the usual error body', async (early) => {
  const server = await startServerProcess(databaseUrl);
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.write(request.slice(0, early));
  // Connections are accepted in order, so the server has accepted the one above when it answers this one.
  expect(await health(server.url)).toBe(200);
  const stopped = server.stop();
  await expect.poll(() => health(server.url)).toBe('refused');
  socket.write(request.slice(early));
  const [head, body] = (await text(socket)).split('\r\n\r\n') as [string, string];
  expect(JSON.parse(body)).toEqual({
    statusCode: 503,
    error: 'Service Unavailable',
    code: 'unavailable',
    message: 'This instance of the service is stopping',
  });
  const headers = head.toLowerCase().split('\r\n');
  expect(headers).toEqual(
    expect.arrayContaining([
      'http/1.1 503 service unavailable',
      'connection: close',
      'retry-after: 1',
      'x-request-id: late-1',
    ]),
  );
  expect(await stopped).toBe(0);
});
