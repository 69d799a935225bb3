import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';

const app = appWithoutDatabase();
beforeAll(() => app.listen({ host: '127.0.0.1', port: 0 }));
afterAll(() => app.close());

/** Sends bytes over a socket of its own and reads until the server ends it. */
async function talk(...bytes: string[]): Promise<string> {
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  const heard: Buffer[] = [];
  socket.on('data', (data: Buffer) => heard.push(data));
  for (const some of bytes) socket.write(some);
  await once(socket, 'close');
  return Buffer.concat(heard).toString();
}

function parse(answer: string): { status: number; headers: string; body: unknown } {
  const [head, body] = answer.split('\r\n\r\n');
  return { status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(head!)?.[1]), headers: head!, body: JSON.parse(body!) };
}

const get = (path: string, ...headers: string[]): string =>
  `GET ${path} HTTP/1.1\r\n${['host: a', ...headers].join('\r\n')}\r\n\r\n`;

describe('what is no HTTP gets an answer in the words of the contract', () => {
  const malformed = { statusCode: 400, error: 'Bad Request', code: 'validation_failed', message: expect.any(String) };

  test.each([
    ['a broken request line', 'nonsense\r\n\r\n'],
    ['an unknown method', 'FETCH / HTTP/1.1\r\nhost: a\r\n\r\n'],
    ['an unknown protocol', 'GET / HTTQ/1.1\r\nhost: a\r\n\r\n'],
    ['the start of a TLS connection', '\u0016\u0003\u0001\u0002\u0000\u0001'],
    ['a header without a name', 'GET /healthz HTTP/1.1\r\n: a\r\n\r\n'],
    ['a header with a control character', get('/healthz', 'x-a: \u0001')],
    ['two lengths', get('/healthz', 'content-length: 1', 'content-length: 2')],
    ['a length that is no number', get('/healthz', 'content-length: x')],
    ['a length beside chunks', get('/healthz', 'content-length: 5', 'transfer-encoding: chunked')],
    [
      'a chunk without a length',
      `${get('/healthz', 'transfer-encoding: chunked', 'content-type: application/json')}zz\r\n`,
    ],
  ])('%s', async (_what, bytes) => {
    const { status, headers, body } = parse(await talk(bytes));
    expect(status).toBe(400);
    expect(body).toEqual(malformed);
    expect(headers).toMatch(/^x-request-id: [A-Za-z0-9._-]{1,64}$/m);
    expect(headers).toMatch(/^connection: close$/m);
  });

  test('headers past every measure', async () => {
    const { status, body } = parse(await talk(get('/healthz', `x-a: ${'x'.repeat(100_000)}`)));
    expect(status).toBe(431);
    expect(body).toMatchObject({ statusCode: 431, code: 'headers_too_large' });
  });
});

test('after all that the server still answers', async () => {
  const answer = parse(await talk(get('/healthz', 'connection: close')));
  expect(answer).toMatchObject({ status: 200, body: { status: 'ok' } });
});

test('a caller that goes away in the middle of its request harms nobody', async () => {
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(
    'POST /api/auth/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{',
  );
  await once(socket, 'connect');
  socket.resetAndDestroy();
  await once(socket, 'close');
  expect(parse(await talk(get('/healthz', 'connection: close'))).status).toBe(200);
});
