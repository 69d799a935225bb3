import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';

const app = appWithoutDatabase();
app.get('/half', { config: { access: { public: true } } }, (_request, reply) => {
  reply.hijack();
  reply.raw.write('half an answer');
});
beforeAll(() => app.listen({ host: '127.0.0.1', port: 0 }));
afterAll(() => app.close());

/**
 * Sends chunks over a socket of its own, each after the response to the previous one, and reads until the server closes
 * it.
 */
const talk = (...bytes: string[]): Promise<string> => talkTo(app.server, ...bytes);

async function talkTo(server: Pick<typeof app.server, 'address'>, ...bytes: string[]): Promise<string> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const heard: Buffer[] = [];
  const closed = once(socket, 'close');
  socket.on('data', (data: Buffer) => heard.push(data));
  for (const [i, some] of bytes.entries()) {
    if (i > 0) await once(socket, 'data');
    socket.write(some);
  }
  await closed;
  return Buffer.concat(heard).toString();
}

const statusesIn = (answers: string): number[] =>
  [...answers.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));

function parse(answer: string): { status: number; headers: string; body: unknown } {
  const [head, body] = answer.split('\r\n\r\n');
  return { status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(head!)?.[1]), headers: head!, body: JSON.parse(body!) };
}

const get = (path: string, ...headers: string[]): string =>
  `GET ${path} HTTP/1.1\r\n${['host: a', ...headers].join('\r\n')}\r\n\r\n`;

const connectRequest = 'CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n';

test.each([
  ['a broken request line', 'nonsense\r\n\r\n', 400, 'validation_failed'],
  ['an unknown method', 'FETCH / HTTP/1.1\r\nhost: a\r\n\r\n', 400, 'validation_failed'],
  ['the start of a TLS connection', '\u0016\u0003\u0001\u0002\u0000\u0001', 400, 'validation_failed'],
  ['a header with a control character', get('/healthz', 'x-a: \u0001'), 400, 'validation_failed'],
  ['two lengths', get('/healthz', 'content-length: 1', 'content-length: 2'), 400, 'validation_failed'],
  [
    'a length beside chunks',
    get('/healthz', 'content-length: 5', 'transfer-encoding: chunked'),
    400,
    'validation_failed',
  ],
  [
    'a chunk without a length',
    `${get('/healthz', 'transfer-encoding: chunked', 'content-type: application/json')}zz\r\n`,
    400,
    'validation_failed',
  ],
  ['oversized headers', get('/healthz', `x-a: ${'x'.repeat(100_000)}`), 431, 'headers_too_large'],
  ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n', 400, 'validation_failed'],
  ['two Hosts', get('/healthz', 'host: b'), 400, 'validation_failed'],
  ['two content types', get('/healthz', 'content-type: text/plain', 'content-type: a/b'), 400, 'validation_failed'],
  ['two idempotency keys', get('/healthz', 'idempotency-key: a', 'idempotency-key: b'), 400, 'validation_failed'],
  ['two credentials', get('/healthz', 'authorization: a', 'authorization: b'), 400, 'validation_failed'],
  ['an unknown transfer coding', get('/healthz', 'transfer-encoding: gzip, chunked'), 400, 'validation_failed'],
  ['an unknown expectation', get('/healthz', 'expect: 200-maybe'), 417, 'expectation_failed'],
  ['CONNECT', connectRequest, 405, 'method_not_allowed'],
])(
  'a request that HTTP forbids or the service does not support gets an error body, and its connection ends: %s',
  async (_what, bytes, statusCode, code) => {
    const { status, headers, body } = parse(await talk(bytes));
    expect(status).toBe(statusCode);
    expect(body).toMatchObject({ statusCode, error: expect.any(String), code, message: expect.stringMatching(/\S/) });
    expect(headers).toMatch(/^x-request-id: [A-Za-z0-9._-]{1,64}$/m);
    expect(headers).toMatch(/^connection: close$/m);
  },
);

test('a request of HTTP/1.0 needs no Host', async () => {
  expect(parse(await talk('GET /healthz HTTP/1.0\r\n\r\n')).status).toBe(200);
});

test('a body sent after 100-continue is accepted', async () => {
  const head = ['content-type: application/json', 'expect: 100-continue', 'content-length: 2', 'connection: close'];
  const answers = await talk(get('/healthz', ...head), '{}');
  expect(statusesIn(answers)).toEqual([100, 200]);
});

describe('no request gets two responses or the response of another', () => {
  const post = (path: string) =>
    `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;

  test.each<[string, string[], number[]]>([
    ['a fault in the body of a request that was refused before', [post('/api/ext/contacts'), 'zz\r\n'], [401]],
    ['a fault in the body of a request that waits', [`${post('/api/auth/login')}zz\r\n`], [400]],
    ['a fault after an answered request', [get('/healthz'), 'nonsense\r\n\r\n'], [200, 400]],
    ['a fault behind a request that waits', [`${get('/healthz')}nonsense\r\n\r\n`], []],
    ['a CONNECT behind a request that waits', [`${get('/healthz')}${connectRequest}`], []],
    ['a length that does not say where the body ends', [`${get('/healthz', 'transfer-encoding: gzip')}{}`], [400]],
  ])('%s', async (_what, bytes, statuses) => {
    expect(statusesIn(await talk(...bytes))).toEqual(statuses);
  });

  test('a fault behind an answer that has begun ends the connection without another answer', async () => {
    const answers = await talk(get('/half'), 'nonsense\r\n\r\n');
    expect(answers).toContain('half an answer');
    expect(statusesIn(answers)).toEqual([200]);
  });
});

test('no more than MAX_CONNECTIONS are open, and one without a byte is closed while its caller has to read or to send', async () => {
  const limited = appWithoutDatabase({ MAX_CONNECTIONS: '2' });
  onTestFinished(() => limited.close());
  const { server } = limited;
  const times = { headersTimeout: 10_000, requestTimeout: 30_000, timeout: 30_000, maxConnections: 2 };
  expect(server).toMatchObject(times);
  server.timeout = 300;
  const large = 'x'.repeat(24 * 2 ** 20); // more than the kernel buffers
  limited.get('/large', { config: { access: { public: true } }, schema: { hide: true } }, async () => large);
  await limited.listen({ host: '127.0.0.1', port: 0 });
  const open = async (bytes: string): Promise<Socket> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(bytes);
    return socket;
  };
  const closed = (socket: Socket) => new Promise((resolve) => socket.resume().once('close', resolve));
  const body =
    'POST /api/auth/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{';
  const reader = await open(get('/large'));
  const senderClosed = closed(await open(body));
  await closed(await open(get('/healthz')));
  await senderClosed;
  const count = () => new Promise((resolve) => server.getConnections((_, open) => resolve(open)));
  await expect.poll(count, { timeout: 20_000 }).toBe(0);
  expect(reader.bytesRead).toBeLessThan(large.length);
});

test('a caller that does not close its side cannot keep a connection open', async () => {
  const { port } = app.server.address() as AddressInfo;
  const count = () => new Promise((resolve) => app.server.getConnections((_error, open) => resolve(open)));
  await expect.poll(count).toBe(0);
  const kept = ['nonsense\r\n\r\n', connectRequest].map((bytes) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.write(bytes);
    return socket.resume();
  });
  await Promise.all(kept.map((socket) => once(socket, 'end')));
  expect(await count()).toBe(2);
  await expect.poll(count, { timeout: 20_000 }).toBe(0);
  for (const socket of kept) socket.destroy();
});

test('the page of the documentation allows scripts and styles of this service only', async () => {
  const pages = [await app.inject('/docs/'), await app.inject('/docs/')];
  const policies = pages.map(({ headers }) => headers['content-security-policy'] as string);
  expect(policies[0]).toMatch(/default-src 'none'; script-src 'self'; style-src 'self' 'nonce-[\w+/=]{24}';/);
  expect(policies[0]).not.toMatch(/unsafe/);
  expect(policies[0]).not.toBe(policies[1]);
  expect(pages[0]!.payload).not.toMatch(/<script[^>]*>[^<]|<style| on\w+=|https?:/);
  expect((await app.inject('/docs')).headers.location).toBe('/docs/');
});

test.each(['[', '', '::1', '%', '@', 'a b', '//', '\u00e9'])(
  'paths without a key answer the header Host %j',
  async (host) => {
    for (const path of ['/docs', '/docs/', '/openapi.json', '/healthz', '/app', '/app/login', '/']) {
      const [status] = statusesIn(await talk(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`));
      expect([path, status]).toEqual([path, expect.toSatisfy((one: number) => one < 500)]);
    }
  },
);

test('the documentation serves its own files only', async () => {
  const dots = ['%00', '..%5cx', '%2e%2e', '%2e%2e/%2e%2e/package.json', '..%2f..%2fpackage.json', '.env'];
  const others = ['nope', '', 'index.html%00.png', 'scalar.js/', 'style.css%20', '%c3%a9', 'x'.repeat(300)];
  for (const name of [...dots, ...others])
    for (const folder of ['/docs/js/', '/docs/static/']) {
      const { status, body } = parse(await talk(get(`${folder}${name}`, 'connection: close')));
      expect([folder + name, status]).toEqual([folder + name, 404]);
      expect(body).toMatchObject({ statusCode: 404, code: 'not_found' });
    }
});

test('programs find the handbook as text, from an overview that names what is there', async () => {
  const overview = await app.inject('/llms.txt');
  expect([overview.statusCode, overview.headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8']);
  const links = [...overview.body.matchAll(/\]\((\/[^)]+)\)/g)].map(([, link]) => link!);
  expect(links).toContain('/docs/agents.md');
  for (const link of links) expect((await app.inject(link)).statusCode, link).toBe(200);
  expect((await app.inject('/docs/api.md')).headers['content-type']).toBe('text/markdown; charset=utf-8');
});
