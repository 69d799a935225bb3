import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { takeFiles } from '../../../src/plugins/bodies/file-body.ts';
import { appWithoutDatabase } from '../../contract/declared.ts';

const silence = 400;
const mebibyte = 1024 * 1024;
/** More bytes than the kernel buffers for a connection that nobody reads. */
const large = 'x'.repeat(24 * mebibyte);

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** The real app, and the server's view of its connections. */
interface Server {
  app: FastifyInstance;
  /** The server's sockets, oldest first. */
  accepted: Socket[];
  /** Functions that answer the open requests of `/held`, in order of arrival. */
  held: (() => void)[];
  /** Number of requests to `/large` so far. */
  larges: number;
}

async function start(environment: Record<string, string> = {}): Promise<Server> {
  const app = appWithoutDatabase({ CONNECTION_SILENCE_MS: String(silence), ...environment });
  const server: Server = { app, accepted: [], held: [], larges: 0 };
  const route = { config: { access: { public: true as const } }, schema: { hide: true } };
  app.get('/large', route, async (_request, reply) => {
    server.larges += 1;
    return reply.type('text/plain').send(large);
  });
  app.get('/held', route, (_request, reply) => void server.held.push(() => void reply.send('released')));
  void app.register(async (within) => {
    takeFiles(within);
    const config = { ...route.config, isLong: true as const, takesFile: true as const };
    within.post('/file', { ...route, config }, async ({ raw }) => {
      let length = 0;
      for await (const piece of raw as AsyncIterable<Buffer>) length += piece.length;
      return String(length);
    });
  });
  app.server.on('connection', (socket) => server.accepted.push(socket));
  await app.listen({ host: '127.0.0.1', port: 0 });
  return server;
}

/** Shared by the tests that do not count connections. */
const shared = await start();
afterAll(() => shared.app.close());
beforeEach(() => {
  shared.accepted.length = 0;
  shared.held.length = 0;
});

/** Starts a server for one test only. */
async function startAlone(environment: Record<string, string>): Promise<Server> {
  const server = await start(environment);
  cleanUps.push(() => server.app.close());
  return server;
}

/** Opens a connection and waits until the server has accepted it. */
async function connectTo({ app, accepted }: Server, localAddress = '127.0.0.1'): Promise<Socket> {
  const { port } = app.server.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.on('error', () => undefined); // the server may close the connection with a reset
  cleanUps.push(() => socket.destroy());
  const before = accepted.length;
  await once(socket, 'connect');
  await expect.poll(() => accepted.length, { interval: 5, timeout: 10_000 }).toBeGreaterThan(before);
  return socket;
}

const get = (path: string, ...headers: string[]): string =>
  `GET ${path} HTTP/1.1\r\n${['host: a', ...headers].join('\r\n')}\r\n\r\n`;

/** Resolves when the socket is closed. */
const closed = (socket: Socket): Promise<unknown> =>
  socket.closed ? Promise.resolve() : new Promise((resolve) => socket.once('close', resolve));

/** Reads the bodies of `count` responses with a length. */
async function answers(socket: Socket, count: number): Promise<string[]> {
  let text = '';
  const bodies: string[] = [];
  for await (const data of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    text += data.toString('latin1');
    for (;;) {
      const [head, length] = /^HTTP\/1\.1 [\s\S]*?content-length: (\d+)[\s\S]*?\r\n\r\n/i.exec(text) ?? [];
      if (head === undefined || text.length < head.length + Number(length)) break;
      bodies.push(text.slice(head.length, head.length + Number(length)));
      text = text.slice(head.length + Number(length));
    }
    if (bodies.length >= count) break;
  }
  return bodies;
}

/** Reads one response of `/large` and discards it. */
async function takeLarge(socket: Socket): Promise<void> {
  let left: number | undefined;
  for await (const data of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    left = (left ?? data.indexOf('\r\n\r\n') + 4 + large.length) - data.length;
    if (left === 0) return;
  }
}

/** Returns whether the server still answers on this connection. */
async function isServed(socket: Socket): Promise<boolean> {
  socket.write(get('/healthz'));
  return (await answers(socket, 1)).length === 1;
}

const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms));

describe('a peer that reads nothing', () => {
  test('has at most one response in memory however often it asks, and is closed', async () => {
    const server = await startAlone({ CONNECTION_SILENCE_MS: '1500' });
    const { accepted } = server;
    const socket = await connectTo(server);
    socket.pause();
    socket.write(get('/large').repeat(30));
    let most = 0;
    while (!accepted[0]!.destroyed) {
      most = Math.max(most, accepted[0]!.writableLength);
      await pause(5);
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThan(large.length + mebibyte);
    expect(server.larges).toBe(1);
  });

  test('is closed even if it keeps sending', async () => {
    const { accepted } = shared;
    const socket = await connectTo(shared);
    socket.pause();
    socket.write(get('/large'));
    const rest = get('/healthz');
    for (let i = 0; !accepted[0]!.destroyed; i = (i + 1) % rest.length) {
      socket.write(rest[i]!);
      await pause(20);
    }
    expect(socket.bytesRead).toBeLessThan(large.length);
  });

  test('is closed when it also ignores the response to invalid HTTP', async () => {
    const { accepted } = shared;
    const socket = await connectTo(shared);
    socket.allowHalfOpen = true;
    socket.write('nonsense\r\n\r\n');
    await closed(accepted[0]!);
    expect(socket.writableEnded).toBe(false);
  });
});

test('a peer that reads a large response slowly gets all of it', async () => {
  const socket = await connectTo(shared);
  socket.write(get('/large', 'connection: close'));
  let length = 0;
  for await (const data of socket as AsyncIterable<Buffer>) {
    length += data.length;
    await pause(silence / 100);
  }
  expect(length).toBeGreaterThan(large.length);
});

describe('a request that does not arrive', () => {
  const head =
    'POST /api/auth/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n';

  test('has its connection closed when its bytes stop coming', async () => {
    const { accepted } = shared;
    const socket = await connectTo(shared);
    socket.write(`${head}{`);
    await closed(accepted[0]!);
    expect(accepted[0]!.bytesRead).toBe(head.length + 1);
  });

  test('has its connection closed when less than 1 KiB/s of it comes', async () => {
    const { accepted } = shared;
    const socket = await connectTo(shared);
    socket.write(head.replace('50', '16000'));
    // One byte after another, for longer than the time within which the connection must be closed.
    for (let i = 0; i < 500 && !accepted[0]!.destroyed; i++) {
      socket.write(' ');
      await pause(silence / 40);
    }
    expect(accepted[0]!.bytesRead).toBeLessThan(head.length + 300);
  });

  test('keeps its connection while more than 1 KiB/s of it comes', async () => {
    const socket = await connectTo(shared);
    const body = `{"email": 5}${' '.repeat(12_000)}`;
    socket.write(head.replace('50', String(body.length)));
    for (let sent = 0; sent < body.length; sent += 200) {
      socket.write(body.slice(sent, sent + 200));
      await pause(silence / 20);
    }
    expect((await answers(socket, 1))[0]).toContain('/password');
  });

  test('keeps its connection while a byte of a file comes now and then', async () => {
    const { accepted } = shared;
    const socket = await connectTo(shared);
    socket.write('POST /file HTTP/1.1\r\nhost: a\r\ncontent-length: 40\r\n\r\n');
    for (let i = 0; i < 40; i++) {
      socket.write('x');
      await pause(silence / 10);
    }
    expect(await answers(socket, 1)).toEqual(['40']);
    expect(accepted[0]!.destroyed).toBe(false);
  });

  test("is subject to Node's timeouts for headers and the whole request", async () => {
    const { app } = shared;
    expect(app.server).toMatchObject({ headersTimeout: 10_000, requestTimeout: 30_000 });
  });
});

test('a request with a long run time is not cut off while its peer waits', async () => {
  const { held, accepted } = shared;
  const socket = await connectTo(shared);
  socket.write(get('/held'));
  await expect.poll(() => held.length).toBe(1);
  await pause(2 * silence);
  expect(accepted[0]!.destroyed).toBe(false);
  held[0]!();
  expect(await answers(socket, 1)).toEqual(['released']);
});

describe('pipelined requests', () => {
  test('are answered in order, one at a time', async () => {
    const { held } = shared;
    const socket = await connectTo(shared);
    socket.write(get('/held') + get('/healthz') + get('/held') + get('/nowhere'));
    const got = answers(socket, 4);
    for (const count of [1, 2]) {
      await expect.poll(() => held.length).toBe(count);
      held[count - 1]!();
    }
    const [first, second, third, fourth] = await got;
    expect([first, third]).toEqual(['released', 'released']);
    expect(second).toContain('ok');
    expect(fourth).toContain('not_found');
  });

  test('are all answered, up to a limit that no client needs', async () => {
    const socket = await connectTo(shared);
    for (let round = 0; round < 3; round++) {
      socket.write(get('/healthz').repeat(33));
      expect(await answers(socket, 33)).toHaveLength(33);
    }
    socket.write(get('/healthz').repeat(1_000));
    await closed(socket);
  });

  test('are not read while one of them waits', async () => {
    const { held, accepted } = shared;
    const socket = await connectTo(shared);
    socket.write(get('/held') + get('/healthz'));
    await expect.poll(() => held.length).toBe(1);
    const { bytesRead } = accepted[0]!;
    for (let i = 0; i < 10; i++) {
      socket.write(get('/healthz'));
      await pause(5);
    }
    expect(accepted[0]!.bytesRead).toBe(bytesRead);
    held[0]!();
    expect(await answers(socket, 12)).toHaveLength(12);
  });

  test('are not read even when Node resumes the socket after a large response', async () => {
    const { held, accepted } = shared;
    const socket = await connectTo(shared);
    socket.pause();
    socket.write(get('/large'));
    await expect.poll(() => accepted[0]!.writableLength).toBeGreaterThan(0);
    socket.write(get('/held').repeat(3));
    await expect.poll(() => accepted[0]!.bytesRead).toBeGreaterThan(get('/large').length);
    const { bytesRead } = accepted[0]!;
    await takeLarge(socket);
    await expect.poll(() => held.length).toBe(1);
    socket.write(get('/healthz'));
    await pause(50);
    expect(accepted[0]!.bytesRead).toBe(bytesRead);
    for (let i = 0; i < 3; i++) {
      await expect.poll(() => held.length).toBe(i + 1);
      held[i]!();
    }
    expect(await answers(socket, 4)).toHaveLength(4);
  });

  test('may have bodies', async () => {
    const socket = await connectTo(shared);
    const body = JSON.stringify({ email: 5, padding: 'x'.repeat(15_000) });
    const one = `POST /api/auth/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    socket.write(one.repeat(5) + get('/healthz'));
    const got = await answers(socket, 6);
    expect(got.slice(0, 5).every((text) => text.includes('/email'))).toBe(true);
    expect(got[5]).toContain('ok');
  });

  test('after one that closes the connection are not started', async () => {
    const { held } = shared;
    const socket = await connectTo(shared);
    socket.write(get('/healthz', 'connection: close') + get('/held'));
    await answers(socket, 2);
    await closed(socket);
    expect(held).toHaveLength(0);
  });

  test('of a peer that disconnected are not started', async () => {
    const { held, accepted } = shared;
    const socket = await connectTo(shared);
    socket.write(get('/held').repeat(5));
    await expect.poll(() => held.length).toBe(1);
    socket.resetAndDestroy();
    held[0]!();
    await closed(accepted[0]!);
    await pause(20);
    expect(held).toHaveLength(1);
  });
});

describe('when all connection slots are taken', () => {
  const limits = { MAX_CONNECTIONS: '4' };
  const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'];

  test('a new connection replaces the one that has been idle longest', async () => {
    const server = await startAlone(limits);
    const sockets: Socket[] = [];
    for (const address of addresses) sockets.push(await connectTo(server, address));
    for (const used of [sockets[0]!, sockets[3]!, sockets[1]!]) expect(await isServed(used)).toBe(true);
    const [a, b, c, d] = sockets as [Socket, Socket, Socket, Socket];
    const next = await connectTo(server, '127.0.0.6');
    await closed(c);
    const another = await connectTo(server, '127.0.0.7');
    await closed(a);
    for (const kept of [b, d, next, another]) expect(await isServed(kept)).toBe(true);
  });

  test('a busy connection is never closed: the new one is', async () => {
    const server = await startAlone(limits);
    const { held } = server;
    const sockets: Socket[] = [];
    for (const address of addresses) sockets.push(await connectTo(server, address));
    for (const socket of sockets) socket.write(get('/held'));
    await expect.poll(() => held.length).toBe(4);
    await closed(await connectTo(server, '127.0.0.6'));
    for (const release of held) release();
    for (const socket of sockets) expect(await answers(socket, 1)).toEqual(['released']);
    expect(await isServed(await connectTo(server, '127.0.0.6'))).toBe(true);
  });
});

describe('one address', () => {
  test('holds no more connections than remain free, and loses an idle one for each further one', async () => {
    const server = await startAlone({ MAX_CONNECTIONS: '8' });
    const { app } = server;
    const other = await connectTo(server, '127.0.0.2');
    const greedy: Socket[] = [];
    for (let i = 0; i < 20; i++) greedy.push(await connectTo(server, '127.0.0.9'));
    await Promise.all(greedy.slice(0, -3).map(closed));
    for (const socket of [other, ...greedy.slice(-3)]) expect(await isServed(socket)).toBe(true);
    await expect.poll(() => count(app)).toBe(4);
  });

  test('gets no further connection when all of its own are busy', async () => {
    const server = await startAlone({ MAX_CONNECTIONS: '8' });
    const { held } = server;
    for (let i = 0; i < 4; i++) (await connectTo(server, '127.0.0.9')).write(get('/held'));
    await expect.poll(() => held.length).toBe(4);
    await closed(await connectTo(server, '127.0.0.9'));
    expect(await isServed(await connectTo(server, '127.0.0.2'))).toBe(true);
    for (const release of held) release();
  });

  test('may hold all connections if it is a trusted proxy', async () => {
    const server = await startAlone({ MAX_CONNECTIONS: '8', TRUST_PROXY: '127.0.0.9' });
    const sockets: Socket[] = [];
    for (let i = 0; i < 8; i++) sockets.push(await connectTo(server, '127.0.0.9'));
    for (const socket of sockets) expect(await isServed(socket)).toBe(true);
  });

  const count = (app: FastifyInstance): Promise<number> =>
    new Promise((resolve) => app.server.getConnections((_error, number) => resolve(number)));
});
