import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { freePort } from '../setup/free-port.ts';
import { startServerProcess } from '../setup/server-process.ts';

const { url: databaseUrl } = await startApp();

/** Sends a GET on a connection of its own. Returns status and body, and whether the server closes the connection. */
const get = (url: string) =>
  new Promise<{ status: number; body: unknown; closes: boolean }>((resolve, reject) => {
    const sent = request(url, { headers: { connection: 'keep-alive' } }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.on('end', () =>
        resolve({
          status: answer.statusCode!,
          body: JSON.parse(text) as unknown,
          closes: answer.headers.connection === 'close',
        }),
      );
    });
    sent.on('error', reject);
    sent.end();
  });

test('serve, with SHUTDOWN_GRACE_MS still serves for that time after SIGTERM, but says that it is not ready and closes connections', async () => {
  const metricsPort = String(await freePort());
  const server = await startServerProcess(databaseUrl, { SHUTDOWN_GRACE_MS: '3000', METRICS_PORT: metricsPort });
  expect(await get(`${server.url}/healthz`)).toEqual({ status: 200, body: { status: 'ok' }, closes: false });
  const began = performance.now();
  const stopped = server.stop();
  await expect.poll(() => get(`${server.url}/readyz`)).toMatchObject({ status: 503, body: { status: 'stopping' } });
  expect(await get(`http://127.0.0.1:${metricsPort}/readyz`)).toMatchObject({ body: { status: 'stopping' } });
  expect(await get(`${server.url}/healthz`)).toEqual({ status: 200, body: { status: 'ok' }, closes: true });
  expect(await stopped).toBe(0);
  expect(performance.now() - began).toBeGreaterThan(2_900);
  await expect(get(`${server.url}/healthz`)).rejects.toThrow('ECONNREFUSED');
});

test('serve, with SHUTDOWN_GRACE_MS ends at once with exit code 1 after a second signal', async () => {
  const server = await startServerProcess(databaseUrl, { SHUTDOWN_GRACE_MS: '600000' });
  void server.stop();
  await expect.poll(() => get(`${server.url}/readyz`)).toMatchObject({ status: 503 });
  expect(await server.stop()).toBe(1);
});

test('serve, with SHUTDOWN_GRACE_MS stops at once after SIGINT, as a terminal sends it', async () => {
  const server = await startServerProcess(databaseUrl, { SHUTDOWN_GRACE_MS: '600000' });
  expect(await server.stop('SIGINT')).toBe(0);
});

const lateRequest = 'GET /api/ext/products HTTP/1.1\r\nHost: x\r\nX-Request-Id: late-1\r\n\r\n';

test.each([0, 30])('a request of which %i bytes arrived before the close gets the usual error body', async (early) => {
  const server = await startServerProcess(databaseUrl);
  const { hostname, port } = new URL(server.url);
  const status = () =>
    get(`${server.url}/healthz`).then(
      (answer) => answer.status,
      () => 'refused',
    );
  const socket = connect(Number(port), hostname);
  socket.write(lateRequest.slice(0, early));
  // Connections are accepted in order, so the server has accepted the one above when it answers this one.
  expect(await status()).toBe(200);
  const stopped = server.stop();
  await expect.poll(status).toBe('refused');
  socket.write(lateRequest.slice(early));
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
