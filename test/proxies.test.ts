import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, request, type IncomingMessage, type RequestListener, type RequestOptions } from 'node:http';
import { connect } from 'node:http2';
import { connect as connectTo, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { beforeAll, describe, expect, test } from 'vitest';
import { startApp } from './setup/app.ts';
import { atEnd, temporaryFolder } from './setup/at-end.ts';
import type { TestCustomer } from './setup/factories.ts';
import { needPrograms, startHaproxy, startNginx, startReadyHaproxy, tlsProxies } from './setup/proxies.ts';
import { startServerProcess, type ServerProcess } from './setup/server-process.ts';
import { makeLogin } from './setup/sessions.ts';

const { fastify: app, owner, customer, url: databaseUrl } = await startApp({ TRUST_PROXY: 'loopback' });
let target: string;

beforeAll(async () => {
  target = new URL(await app.listen({ host: '127.0.0.1', port: 0 })).host;
});

/** Opens connections from an address of this machine. */
function open(url: string, localAddress: string, count: number): Socket[] {
  const { hostname: host, port } = new URL(url);
  const one = () => connectTo({ host, port: Number(port), localAddress }).on('error', () => undefined);
  return Array.from({ length: count }, one);
}

/** Sends a request from an address of this machine, and returns the status of its answer. */
async function statusOf(url: string, localAddress: string, options: RequestOptions = {}, body = ''): Promise<number> {
  const sent = request(url, { localAddress, agent: false, signal: AbortSignal.timeout(60_000), ...options });
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  await buffer(answer);
  return answer.statusCode!;
}

/** Returns the address that the audit log records for a failed login, which `send` sends. */
async function recordedAddress(send: (login: string) => Promise<unknown>): Promise<string> {
  const { email, userId } = await makeLogin(app, (await customer()).id);
  await send(JSON.stringify({ email, password: 'not the password' }));
  const [failure] = await owner<[{ address: string }]>`select address from failed_logins where user_id = ${userId}`;
  return failure.address;
}

/** The same for a login with this header. */
const addressOf = (url: string, forwarded?: string): Promise<string> =>
  recordedAddress((body) => {
    const more = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
    return fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...more },
      body,
    });
  });

test('behind a trusted proxy the forwarded address is recorded, and only a valid address', async () => {
  const url = `http://${target}`;
  expect(await addressOf(url)).toBe('127.0.0.1');
  expect(await addressOf(url, '192.0.2.7')).toBe('192.0.2.7');
  expect(await addressOf(url, '6.6.6.6, ::ffff:192.0.2.7')).toBe('192.0.2.7');
  for (const junk of ['<script>', 'unknown', '6.6.6.6, unknown']) expect(await addressOf(url, junk)).toBe('127.0.0.1');
});

/** The two proxies, and how each is changed to stand behind another one, as its comments say. */
const supplied = [
  {
    name: 'nginx',
    need: needPrograms('nginx'),
    start: startNginx,
    behindAnother: (conf: string) =>
      conf.replace('#set_real_ip_from 192.0.2.10', 'set_real_ip_from 127.0.0.1').replaceAll('#real_ip', 'real_ip'),
  },
  {
    name: 'HAProxy',
    need: needPrograms('haproxy'),
    start: startReadyHaproxy,
    behindAnother: (cfg: string) =>
      cfg.replace(/#(http-request set-src|tcp-request)/g, '$1').replaceAll('src 192.0.2.10', 'src 127.0.0.1'),
  },
];

/** Shortens how long a supplied proxy waits for a silent caller, and lifts its limit for the document of the API. */
const withShortTimeouts = (text: string): string =>
  text
    .replaceAll(
      /(client_header_timeout|client_body_timeout|send_timeout|timeout client|timeout http-request|wait-for-body time) \d+s/g,
      '$1 3s',
    )
    .replace('rate=30r/m', 'rate=30000r/m')
    .replace('documents_of_source burst=30', 'documents_of_source burst=30000')
    .replace('(documents) gt 30 ', '(documents) gt 30000 ');

const document = 'GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n';
const misbehaviour: [does: string, connections: number, sends: string][] = [
  // So few that the service has time for others on a busy machine, too.
  ['reads nothing', 60, `${document.repeat(16)}${document.replace('a\r\n', 'a\r\nconnection: close\r\n')}`],
  ['sends half a head', 300, 'GET / HTTP/1.1\r\nhos'],
  [
    'sends a part of a body',
    300,
    'POST /api/auth/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{',
  ],
  ['sends nothing', 4_000, ''],
];

for (const { name, need, start, behindAnother } of supplied)
  describe.skipIf(need !== '')(`behind the supplied ${name} ${need}`, () => {
    const attacker = '127.0.0.9';
    let service: ServerProcess;
    let other: TestCustomer;

    beforeAll(async () => {
      service = await startServerProcess(databaseUrl, { TRUST_PROXY: 'loopback' });
      other = await customer();
    });

    /** Expects that another customer is served during an attack, 10 times at least, and that memory stays bounded. */
    async function expectOthersServed(url: string, attack: Promise<unknown> = Promise.resolve()): Promise<void> {
      const list = `${url}/api/ext/contacts/list`;
      const state = { isOver: false };
      const end = attack.finally(() => (state.isOver = true));
      const headers = {
        authorization: `X-API-Key ${other.key}`,
        'content-type': 'application/json',
        'content-length': 2,
      };
      for (let calls = 0; calls < 10 || !state.isOver; calls += 1)
        // On a busy machine a proxy may miss the health checks for a moment: like any client, they try again.
        await expect.poll(() => statusOf(list, '127.0.0.2', { method: 'POST', headers }, '{}')).toBe(200);
      await end;
      const status = await readFile(`/proc/${service.pid}/status`, 'utf8');
      expect(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]) / 1024, 'MiB').toBeLessThan(1024);
    }

    test('a caller cannot choose the recorded address', async () => {
      const { url } = await start(target);
      expect(await addressOf(url)).toBe('127.0.0.1');
      for (const chosen of ['6.6.6.6', '10.0.0.1, 127.0.0.1', '<script>', 'unknown', '1.2.3.4:5555'])
        expect(await addressOf(url, chosen), chosen).toBe('127.0.0.1');
    });

    test('and a second proxy, set up as its comments say, the address that this one forwards is recorded', async () => {
      const { url } = await start(target, behindAnother);
      for (const forwarded of ['192.0.2.7', '6.6.6.6, 192.0.2.7'])
        expect(await addressOf(url, forwarded)).toBe('192.0.2.7');
      expect(await addressOf(url, '<script>')).toBe('127.0.0.1');
    });

    test.each(misbehaviour)(
      'who %s on %i connections is cut, and others are served meanwhile',
      async (_, count, text) => {
        const { url } = await start(new URL(service.url).host, withShortTimeouts);
        const held = open(url, attacker, count);
        for (const socket of held) socket.pause().write(text);
        await expect.poll(() => held.every(({ connecting }) => !connecting)).toBe(true);
        await expectOthersServed(url);
        await expect.poll(() => openConnections(Number(new URL(url).port), attacker)).toBe(0);
        for (const socket of held) socket.destroy();
      },
    );

    test('who floods the health checks is limited, and others are served meanwhile', async () => {
      const { url } = await start(new URL(service.url).host);
      const statuses = new Set<number>();
      const flood = async () => {
        for (let n = 0; n < 50; n += 1) statuses.add(await statusOf(`${url}/readyz`, attacker));
      };
      await expectOthersServed(url, Promise.all(Array.from({ length: 32 }, flood)));
      expect(statuses).toEqual(new Set([200, 429]));
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      const many = await Promise.all(Array.from({ length: 100 }, () => fetch(`${url}/readyz`)));
      const refused = many.find(({ status }) => status === 429)!;
      expect(await refused.json()).toMatchObject({ statusCode: 429, code: 'rate_limited' });
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(refused.headers.get('x-request-id')).toMatch(/^[\w-]{32,36}$/);
    });
  });

describe.skipIf(needPrograms('nginx') !== '')('behind the supplied nginx', () => {
  /** Starts nginx in front of a server that handles requests so. */
  async function before(handle: RequestListener): Promise<string> {
    const server = createServer(handle).listen(0, '127.0.0.1');
    atEnd(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, 'listening');
    return (await startNginx(`127.0.0.1:${(server.address() as AddressInfo).port}`)).url;
  }

  test('one address has at most 100 requests at a time, and others are served meanwhile', async () => {
    let arrived = 0;
    const url = await before(() => (arrived += 1));
    const greedy = open(url, '127.0.0.9', 110);
    for (const socket of greedy) socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => greedy.filter(({ bytesRead }) => bytesRead > 0).length).toBe(10);
    const refused = greedy.find(({ bytesRead }) => bytesRead > 0);
    expect(refused!.read()?.toString()).toMatch(/^HTTP\/1.1 429 [^]*\r\nX-Content-Type-Options: nosniff\r\n/);
    await expect.poll(() => arrived).toBe(100);
    const [other] = open(url, '127.0.0.2', 1);
    other!.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => arrived).toBe(101);
    for (const socket of [...greedy, other!]) socket.destroy();
  });

  test('a file of 24 MiB can be uploaded', async () => {
    const { url } = await startNginx(target);
    const caller = await customer();
    const begun = await caller.post('/imports', { object: 'contacts', mode: 'create', format: 'csv', start: false });
    const { id } = begun.body.data as { id: string };
    const answer = await fetch(`${url}/api/ext/imports/${id}/file`, {
      method: 'PUT',
      headers: { authorization: `X-API-Key ${caller.key}` },
      body: `first_name\n${'Ada\n'.repeat(6 * 2 ** 20)}`,
    });
    expect(await answer.json()).toMatchObject({ id, status: 'UPLOADED' });
  });

  test('a link with which a password is set stands in no log, whether or not the service answers', async () => {
    const folder = await temporaryFolder();
    for (const server of [target, '127.0.0.1:1']) {
      const [log, errors] = ['access', 'errors'].map((name) => join(folder, name));
      const nginx = await startNginx(server, (conf) =>
        conf.replace('listen 80;', `access_log ${log}; error_log ${errors} info; listen 80;`),
      );
      for (const path of ['/app/link/sdlink_secret', '//app/%6cink/sdlink_secret', '/app/login'])
        await (await fetch(nginx.url + path)).text();
      await nginx.stop();
      const logged = (await readFile(log!, 'utf8')) + (await readFile(errors!, 'utf8'));
      expect(logged).toContain('/app/login');
      expect(logged).not.toContain('sdlink_secret');
    }
  });

  test('a file that the service cuts half-way is cut for the caller too', async () => {
    const url = await before((_, response) => {
      response.write('x'.repeat(1_000_000), () => response.destroy());
    });
    await expect(fetch(url).then((answer) => answer.text())).rejects.toThrow('terminated');
  });
});

const needHaproxy = needPrograms('haproxy');

describe.skipIf(needHaproxy !== '')(`behind the supplied HAProxy ${needHaproxy}`, () => {
  test('one address holds at most 500 connections, and others are served meanwhile', async () => {
    const { url } = await startReadyHaproxy(target);
    const greedy = open(url, '127.0.0.9', 520);
    const refused = () => greedy.filter(({ readableEnded, destroyed }) => readableEnded || destroyed);
    for (const socket of greedy) socket.resume();
    await expect.poll(() => refused().length).toBe(20);
    const [other] = open(url, '127.0.0.2', 1);
    other!.write('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => other!.read()?.toString()).toContain(' 200 ');
    for (const socket of [...greedy, other!]) socket.destroy();
  });

  test('without a ready instance, requests get 503 with an error body and the id of the request', async () => {
    const haproxy = await startHaproxy(['127.0.0.1:1']);
    await expect.poll(haproxy.ready).toEqual([]);
    const call = (id: string) => fetch(`${haproxy.url}/api/ext/products`, { headers: { 'x-request-id': id } });
    const answer = await call('mine-1');
    expect([answer.status, await answer.json()]).toMatchObject([503, { statusCode: 503, code: 'unavailable' }]);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'x-request-id': 'mine-1',
      'retry-after': '1',
      'x-content-type-options': 'nosniff',
    });
    expect((await call('not valid')).headers.get('x-request-id')).toMatch(/^[\da-f-]{36}$/);
    await fetch(`${haproxy.url}/app/link/of-a-password`);
    await expect.poll(haproxy.log).toMatch(/ 503 \d+ SC GET \/api\/ext\/products id=mine-1\n/);
    expect(haproxy.log()).not.toContain('of-a-password');
    // What the alert ProxyRefuses compares.
    const metrics = await haproxy.metrics();
    expect(metrics).toMatch(/^haproxy_frontend_http_responses_total\{proxy="public",code="5xx"\} 3$/m);
    expect(metrics).toMatch(/^haproxy_server_http_responses_total\{proxy="api",server="[^"]+",code="5xx"\} 0$/m);
  });

  test('the document of the API is read at most 30 times a minute by one address', async () => {
    const { url } = await startReadyHaproxy(target);
    const statuses: number[] = [];
    for (let n = 0; n < 31; n += 1) statuses.push((await fetch(`${url}/openapi.json`)).status);
    expect(statuses).toEqual([...Array<number>(30).fill(200), 429]);
  });
});

/** Returns how many connections from an address the server at a local port has neither refused nor closed. */
async function openConnections(port: number, from: string): Promise<number> {
  const address = Buffer.from(from.split('.').map(Number).toReversed()).toString('hex').toUpperCase();
  const end = port.toString(16).toUpperCase().padStart(4, '0');
  const established = '01';
  const rows = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((row) => row.trim().split(/\s+/));
  const isOpen = ([, local, remote, state]: string[]) =>
    local?.endsWith(`:${end}`) && remote?.startsWith(`${address}:`) && state === established;
  return rows.filter(isOpen).length;
}

const needTls = needPrograms('nginx', 'haproxy', 'caddy', 'openssl');

describe.skipIf(needTls !== '')(`behind TLS, set up as the handbook says ${needTls}`, () => {
  test.each(Object.entries(tlsProxies))(
    '%s serves over HTTP/2 with HSTS, hides the metrics, and forwards the address of the caller',
    async (_, start) => {
      const url = (await start(target)).url.replace('http:', 'https:');
      const login = { ':method': 'POST', ':path': '/api/auth/login', 'content-type': 'application/json' };
      expect(await ask(url, { ':path': '/readyz' })).toMatchObject({ status: 200, hsts: 'max-age=31536000' });
      for (const path of ['/metrics', '/%6Detrics', '/metrics/', '//metrics', '/./metrics', '/metrics?x=1'])
        expect((await ask(url, { ':path': path })).body, path).not.toContain('nodejs_');
      const address = await recordedAddress(async (body) => {
        const refused = await ask(url, { ...login, 'x-forwarded-for': '6.6.6.6' }, body);
        expect(refused).toMatchObject({ status: 401, hsts: 'max-age=31536000' });
      });
      expect(address).toBe('127.0.0.1');
    },
  );
});

/** Sends one request over HTTP/2. The certificate is not checked. */
async function ask(
  url: string,
  headers: Record<string, string>,
  body?: string,
): Promise<{ status: number; hsts: unknown; body: string }> {
  const session = connect(url, { rejectUnauthorized: false });
  try {
    const stream = session.request(headers).end(body);
    const answer = await new Promise<Record<string, unknown>>((resolve, reject) => {
      stream.once('response', resolve).once('error', reject);
      session.once('error', reject);
    });
    const parts = (await stream.setEncoding('utf8').toArray()) as string[];
    return { status: Number(answer[':status']), hsts: answer['strict-transport-security'], body: parts.join('') };
  } finally {
    session.close();
  }
}
