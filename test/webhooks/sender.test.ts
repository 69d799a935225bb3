import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterAll, expect, test, vi } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { newSecret, SecretBox } from '../../src/accounts/webhook-targets.ts';
import { openSender, type Message, type SenderParts } from '../../src/accounts/webhook-sender.ts';
import { startReceiver, status } from '../jobs/webhooks/receivers.ts';

const development = { WEBHOOK_ALLOW_HTTP: 'on', WEBHOOK_ALLOW_PRIVATE: 'on' };
const closing: (() => unknown)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

function sender(environment: Record<string, string> = development, parts: SenderParts = {}) {
  const opened = openSender(parseConfig(environment), parts);
  closing.push(() => opened.close());
  return opened;
}

const secret = newSecret();
const message = (url: string, more: Partial<Message> = {}): Message => ({
  url,
  id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
  body: '{"type":"webhook.test"}',
  sentAt: new Date(),
  secrets: [secret],
  ...more,
});

async function listen(server: Server): Promise<number> {
  closing.push(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Starts a server whose connections are watched. */
async function serve(listener: RequestListener) {
  const server = createServer(listener);
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
  });
  closing.push(() => server.closeAllConnections());
  return { url: `http://127.0.0.1:${await listen(server)}/`, sockets };
}

test('a sealed secret can be read with its key, for its customer, and unchanged only', () => {
  const key = (byte: number) => new SecretBox(Buffer.alloc(32, byte).toString('base64'));
  const sealed = key(1).seal('a', secret);
  expect(key(1).open('a', sealed)).toBe(secret);
  const bent = Buffer.from(sealed);
  bent[20]! ^= 1;
  expect(() => key(2).open('a', sealed)).toThrow(/authenticate/);
  expect(() => key(1).open('b', sealed)).toThrow(/authenticate/);
  expect(() => key(1).open('a', bent)).toThrow(/authenticate/);
});

test('sends one signed POST, and says how it ended', async () => {
  const receiver = await startReceiver();
  const old = newSecret();
  const outcome = await sender().send(message(receiver.url, { secrets: [secret, old] }), 2_000);
  expect(outcome).toEqual({ ok: true, status: 200, error: null, ms: expect.any(Number), retryAfter: null });
  const [{ headers, body }] = receiver.received as [(typeof receiver.received)[0]];
  expect(headers).toMatchObject({ 'content-type': 'application/json', 'user-agent': /^sales-data-api\// });
  for (const key of [secret, old]) new Webhook(key).verify(body, headers as Record<string, string>);
  expect(() => new Webhook(newSecret()).verify(body, headers as Record<string, string>)).toThrow(/No matching/);
});

test.each([
  [204, { ok: true, error: null }],
  [299, { ok: true, error: null }],
  [301, { ok: false, error: 'redirect' }],
  [404, { ok: false, error: 'status' }],
  [410, { ok: false, error: 'status' }],
  [503, { ok: false, error: 'status' }],
])('judges by the status %i', async (code, expected) => {
  const receiver = await startReceiver(status(code, { location: 'http://127.0.0.1:9/' }));
  expect(await sender().send(message(receiver.url), 2_000)).toMatchObject({ ...expected, status: code });
  expect(receiver.received).toHaveLength(1);
});

test('reads how long the receiver asks to wait, by its own clock', async () => {
  const ask = async (headers: Record<string, string>) => {
    const receiver = await startReceiver(status(503, headers));
    return (await sender().send(message(receiver.url), 2_000)).retryAfter;
  };
  expect(await ask({ 'retry-after': '120' })).toBe(120);
  expect(await ask({ date: 'Mon, 01 Jan 2001 00:00:00 GMT', 'retry-after': 'Mon, 01 Jan 2001 01:00:00 GMT' })).toBe(
    3600,
  );
  for (const nonsense of ['soon', '-5', '1e9']) expect(await ask({ 'retry-after': nonsense })).toBeNull();
});

test('does not wait for the body of an answer, and takes little of it, however large or slow it is', async () => {
  let sent = 0;
  const large = await serve((_request, response) => {
    const block = Buffer.alloc(64 * 1024);
    const write = () => {
      while (!response.destroyed && response.write(block)) sent += block.length;
      response.once('drain', write);
    };
    write();
  });
  const slow = await serve((_request, response) => {
    response.writeHead(200).flushHeaders();
    const timer = setInterval(() => response.write('x'), 100);
    response.on('close', () => clearInterval(timer));
  });
  const sending = sender();
  for (const { url, sockets } of [large, slow]) {
    expect(await sending.send(message(url), 5_000)).toMatchObject({ ok: true });
    await vi.waitFor(() => expect(sockets.size).toBe(0), { timeout: 5_000 });
  }
  expect(sent).toBeLessThan(50_000_000);
});

test('gives up a receiver that is silent, or answers byte by byte, when its time is over', async () => {
  const silent = await listen(createTcpServer((socket) => socket.resume().on('error', () => undefined)));
  const trickling = await listen(
    createTcpServer((socket) => {
      const answer = [...'HTTP/1.1 200 OK\r\nx: ', ...'a'.repeat(1_000)].values();
      const timer = setInterval(() => socket.write(answer.next().value!), 20);
      socket.resume().on('error', () => undefined);
      socket.on('close', () => clearInterval(timer));
    }),
  );
  for (const port of [silent, trickling]) {
    const outcome = await sender().send(message(`http://127.0.0.1:${port}/`), 1_000);
    expect(outcome).toMatchObject({ ok: false, error: 'timeout', status: null });
    expect(outcome.ms).toBeGreaterThan(990);
  }
});

test('says why there was no answer', async () => {
  const closed = createTcpServer();
  const port = await listen(closed);
  await new Promise((resolve) => closed.close(resolve));
  expect(await sender().send(message(`http://127.0.0.1:${port}/`), 2_000)).toMatchObject({
    error: 'connect',
    status: null,
  });

  const plain = await startReceiver();
  const tls = await sender().send(message(plain.url.replace('http:', 'https:')), 2_000);
  expect(tls).toMatchObject({ error: 'tls', status: null });

  const nowhere = { resolve: () => Promise.reject(Object.assign(new Error('none'), { code: 'ENOTFOUND' })) };
  expect(await sender({}, nowhere).send(message('https://nowhere.invalid/'), 2_000)).toMatchObject({ error: 'dns' });

  const never = { resolve: () => new Promise<never>(() => undefined) };
  expect(await sender({}, never).send(message('https://slow.invalid/'), 300)).toMatchObject({ error: 'timeout' });
});

test('connects to no address that is not public, whatever the look-up returns', async () => {
  const dial = vi.fn<() => void>();
  for (const addresses of [
    ['169.254.169.254'],
    ['127.0.0.1', '10.0.0.1'],
    ['::1'],
    ['::ffff:192.168.0.1'],
    ['64:ff9b::7f00:1'],
    ['2002:a00:1::'],
  ]) {
    const sending = sender({}, { resolve: async () => addresses, dial: () => dial });
    const outcome = await sending.send(message('https://receiver.example/'), 2_000);
    expect(outcome, addresses.join()).toMatchObject({ ok: false, error: 'address', status: null });
  }
  for (const url of ['https://127.0.0.1/', 'https://[::1]/', 'https://localhost/', 'https://a.localhost/'])
    expect(await sender({}, { dial: () => dial }).send(message(url), 2_000)).toMatchObject({ error: 'address' });
  expect(dial).not.toHaveBeenCalled();
});

test('connects to the address that it has checked: a name that changes meanwhile is not looked up again', async () => {
  const answers = [['8.8.8.8', '127.0.0.1'], ['127.0.0.1']];
  const resolve = vi.fn<() => Promise<string[]>>(async () => answers.shift()!);
  const dialled: (readonly string[])[] = [];
  const sending = sender(
    {},
    {
      resolve,
      dial: (addresses) => (_options, callback) => {
        dialled.push(addresses);
        callback(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), null);
      },
    },
  );
  expect(await sending.send(message('https://rebound.example/'), 2_000)).toMatchObject({ error: 'connect' });
  expect(dialled).toEqual([['8.8.8.8']]);
  expect(await sending.send(message('https://rebound.example/'), 2_000)).toMatchObject({ error: 'address' });
  expect(dialled).toHaveLength(1);
});
