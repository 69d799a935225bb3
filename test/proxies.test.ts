import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { connect } from 'node:http2';
import { connect as connectTo, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApp } from './setup/app.ts';
import { asSuperuser } from './setup/database.ts';
import type { TestCustomer } from './setup/factories.ts';
import { sendFlood } from './setup/flood.ts';
import { needHaproxy, noHaproxy, startHaproxy } from './setup/haproxy.ts';
import { hasNginx, startNginx } from './setup/nginx.ts';
import { startServerProcess, type ServerProcess } from './setup/server-process.ts';
import { makeLogin } from './setup/sessions.ts';
import { missingForTls, startTlsProxy } from './setup/tls-proxies.ts';

const { fastify: app, owner, customer, url: databaseUrl } = await startApp({ TRUST_PROXY: 'loopback' });
const running: { stop(): Promise<void> }[] = [];
let target: string;

beforeAll(async () => {
  target = new URL(await app.listen({ host: '127.0.0.1', port: 0 })).host;
});
afterAll(() => Promise.all(running.map((one) => one.stop())));

/** Opens connections from an address of this machine. */
function open(url: string, localAddress: string, count: number): Socket[] {
  const { hostname: host, port } = new URL(url);
  const one = () => connectTo({ host, port: Number(port), localAddress }).on('error', () => undefined);
  return Array.from({ length: count }, one);
}

/** Returns the address that the audit log records for a failed login with this header. */
async function recordedAddress(url: string, forwarded?: string): Promise<string> {
  const { email, userId } = await makeLogin(app, (await customer()).id);
  await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }),
    },
    body: JSON.stringify({ email, password: 'not the password' }),
  });
  const [failure] = await owner<[{ address: string }]>`select address from failed_logins where user_id = ${userId}`;
  return failure.address;
}

test('behind a trusted proxy the forwarded address is recorded, and only a valid address', async () => {
  const url = `http://${target}`;
  expect(await recordedAddress(url)).toBe('127.0.0.1');
  expect(await recordedAddress(url, '192.0.2.7')).toBe('192.0.2.7');
  expect(await recordedAddress(url, '6.6.6.6, ::ffff:192.0.2.7')).toBe('192.0.2.7');
  for (const junk of ['<script>', 'unknown', '6.6.6.6, unknown'])
    expect(await recordedAddress(url, junk)).toBe('127.0.0.1');
});

/** The two proxies, and how each is changed to stand behind another one, as its comments say. */
const supplied = [
  {
    name: 'nginx',
    isMissing: !hasNginx,
    start: startNginx,
    behindAnother: (conf: string) =>
      conf.replace('#set_real_ip_from 192.0.2.10', 'set_real_ip_from 127.0.0.1').replaceAll('#real_ip', 'real_ip'),
  },
  {
    name: 'HAProxy',
    isMissing: noHaproxy,
    start: startThroughHaproxy,
    behindAnother: (cfg: string) =>
      cfg.replace(/#(http-request set-src|tcp-request)/g, '$1').replaceAll('src 192.0.2.10', 'src 127.0.0.1'),
  },
];

describe.each(supplied)('behind the supplied $name', ({ isMissing, start, behindAnother }) => {
  test.skipIf(isMissing)('a caller cannot choose the recorded address', async () => {
    const proxy = await start(target);
    running.push(proxy);
    expect(await recordedAddress(proxy.url)).toBe('127.0.0.1');
    for (const chosen of ['6.6.6.6', '10.0.0.1, 127.0.0.1', '<script>', 'unknown', '1.2.3.4:5555'])
      expect(await recordedAddress(proxy.url, chosen), chosen).toBe('127.0.0.1');
  });

  test.skipIf(isMissing)(
    'and a second proxy, set up as its comments say, the address that this one forwards is recorded',
    async () => {
      const proxy = await start(target, behindAnother);
      running.push(proxy);
      for (const forwarded of ['192.0.2.7', '6.6.6.6, 192.0.2.7'])
        expect(await recordedAddress(proxy.url, forwarded)).toBe('192.0.2.7');
      expect(await recordedAddress(proxy.url, '<script>')).toBe('127.0.0.1');
    },
  );
});

describe.skipIf(!hasNginx)('behind the supplied nginx', () => {
  test('one address has at most 100 requests at a time, and others are served meanwhile', async () => {
    const arrived: Socket[] = [];
    const answer = 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';
    let isSilent = false;
    const silent = createServer((socket) => {
      if (isSilent) arrived.push(socket);
      else socket.end(answer);
    }).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const nginx = await startNginx(`127.0.0.1:${(silent.address() as AddressInfo).port}`);
    running.push(nginx, { stop: async () => void silent.close() });
    isSilent = true;
    const greedy = open(nginx.url, '127.0.0.9', 110);
    for (const socket of greedy) socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => greedy.filter(({ bytesRead }) => bytesRead > 0).length, { timeout: 20_000 }).toBe(10);
    const refused = greedy.find(({ bytesRead }) => bytesRead > 0);
    expect(refused!.read()?.toString()).toMatch(/^HTTP\/1.1 429 [^]*\r\nX-Content-Type-Options: nosniff\r\n/);
    await expect.poll(() => arrived.length, { timeout: 20_000 }).toBe(100);
    const [other] = open(nginx.url, '127.0.0.2', 1);
    other!.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => arrived.length, { timeout: 20_000 }).toBe(101);
    for (const socket of [...greedy, other!, ...arrived]) socket.destroy();
  });

  test('a file of 24 MiB can be uploaded, as it is and packed', async () => {
    const nginx = await startNginx(target);
    running.push(nginx);
    const caller = await customer();
    const file = `first_name\n${'Ada\n'.repeat(6 * 2 ** 20)}`;
    for (const body of [file, gzipSync(file)]) {
      const begun = await caller.post('/imports', { object: 'contacts', mode: 'create', format: 'csv', start: false });
      const { id } = begun.body.data as { id: string };
      const answer = await fetch(`${nginx.url}/api/ext/imports/${id}/file`, {
        method: 'PUT',
        headers: {
          authorization: `X-API-Key ${caller.key}`,
          ...(typeof body === 'string' ? {} : { 'content-encoding': 'gzip' }),
        },
        body,
      });
      expect(await answer.json()).toMatchObject({ id, status: 'UPLOADED' });
      const [stored] = await owner`select file_bytes::integer as bytes from imports where id = ${id}`;
      expect(stored!['bytes']).toBe(file.length);
    }
  });

  test('a body that is too large is answered by the service, however fast it is sent', async () => {
    const nginx = await startNginx(target);
    running.push(nginx);
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ email: 'x'.repeat(3_000_000) });
    for (let i = 0; i < 60; i += 1) {
      const answer = await fetch(`${nginx.url}/api/auth/login`, { method: 'POST', headers, body });
      expect(await answer.json()).toMatchObject({ statusCode: 413, code: 'payload_too_large' });
    }
  });

  test('a link with which a password is set stands in no log, whether or not the service answers', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nginx-logs-'));
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
    await rm(folder, { recursive: true });
  });

  test('an export that fails half-way is cut for the caller too, and a whole one is whole', async () => {
    const nginx = await startNginx(target);
    running.push(nginx);
    const { id, key } = await customer();
    await owner`
      insert into contacts (customer_id, first_name, last_name, work_email, custom_fields, folded)
      select ${id}, 'Ada', 'Lovelace', 'ada@example.com', jsonb_build_object('note', repeat('x', 4000)),
        '{"first_name": "ada", "last_name": "lovelace", "work_email": "ada@example.com", "job_title": "", "industry": "",
          "location_locality": "", "location_country": "", "location_region": ""}'
      from generate_series(1, 8000)`;
    const start = () =>
      fetch(`${nginx.url}/api/ext/contacts/export`, {
        method: 'POST',
        headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ format: 'csv' }),
      });
    expect((await (await start()).text()).split('\r\n').length).toBe(8_002);
    const cut = await start();
    const reader = cut.body!.getReader();
    await reader.read();
    const session = await owner.reserve();
    await session`begin`;
    await session`lock table contacts in access exclusive mode`;
    const rest = (async () => {
      while (!(await reader.read()).done);
    })();
    rest.catch(() => undefined);
    await expect.poll(() => terminateWaiting(), { timeout: 20_000 }).toBe(1);
    await expect(rest).rejects.toThrow('terminated');
    await session`rollback`;
    session.release();
  });
});

describe.skipIf(noHaproxy)(`behind the supplied HAProxy ${needHaproxy}`, () => {
  async function start(): Promise<string> {
    const haproxy = await startThroughHaproxy(target);
    running.push(haproxy);
    return haproxy.url;
  }

  test('one address holds at most 500 connections, and others are served meanwhile', async () => {
    const url = await start();
    const greedy = open(url, '127.0.0.9', 520);
    const refused = () => greedy.filter(({ readableEnded, destroyed }) => readableEnded || destroyed);
    for (const socket of greedy) socket.resume();
    await expect.poll(() => refused().length, { timeout: 20_000 }).toBe(20);
    const [other] = open(url, '127.0.0.2', 1);
    other!.write('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => other!.read()?.toString(), { timeout: 20_000 }).toContain(' 200 ');
    for (const socket of [...greedy, other!]) socket.destroy();
  });

  test('metrics are not forwarded, however their path is written', async () => {
    const url = await start();
    expect((await fetch(`http://${target}/metrics`)).status).toBe(200);
    for (const path of ['/metrics', '/metrics?x', '/%6detrics', '/metric%73'])
      expect(await fetch(url + path).then(({ status }) => status), path).toBe(404);
  });

  test('without a ready instance, requests get 503 with an error body and the id of the request', async () => {
    const haproxy = await startHaproxy(['127.0.0.1:1']);
    running.push(haproxy);
    await expect.poll(haproxy.ready, { timeout: 30_000, interval: 50 }).toEqual([]);
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
    const url = await start();
    const statuses: number[] = [];
    for (let n = 0; n < 31; n += 1) statuses.push((await fetch(`${url}/openapi.json`)).status);
    expect(statuses).toEqual([...Array<number>(30).fill(200), 429]);
  });
});

describe.each(supplied)(
  'behind the supplied $name, while one address misbehaves, all calls of others succeed',
  ({ isMissing, start }) => {
    const document = 'GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n';
    const attacker = '127.0.0.9';
    let service: ServerProcess;
    let other: TestCustomer;

    beforeAll(async () => {
      if (isMissing) return;
      service = await startServerProcess(databaseUrl, { TRUST_PROXY: 'loopback' });
      running.push({ stop: async () => void (await service.stop()) });
      other = await customer();
    });

    /** Starts the proxy in front of the service. Returns its address. */
    async function startProxy(edit?: (text: string) => string): Promise<string> {
      const proxy = await start(new URL(service.url).host, edit);
      running.push(proxy);
      return proxy.url;
    }

    /** Expects that all calls of another customer succeed during an attack, 10 at least, and that memory stays bounded. */
    async function expectOthersServed(url: string, attack: Promise<unknown> = Promise.resolve()): Promise<void> {
      const state = { isOver: false };
      const end = attack.finally(() => (state.isOver = true));
      for (let calls = 0; calls < 10 || !state.isOver; calls += 1) {
        const sent = request(`${url}/api/ext/contacts/list`, {
          method: 'POST',
          headers: { authorization: `X-API-Key ${other.key}`, 'content-type': 'application/json', 'content-length': 2 },
          localAddress: '127.0.0.2',
          agent: false,
          signal: AbortSignal.timeout(30_000),
        });
        sent.end('{}');
        const [answer] = (await once(sent, 'response')) as [IncomingMessage];
        await buffer(answer);
        expect(answer.statusCode).toBe(200);
      }
      await end;
      const status = await readFile(`/proc/${service.pid}/status`, 'utf8');
      expect(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]) / 1024, 'MiB').toBeLessThan(1024);
    }

    test.skipIf(isMissing).each([
      [
        'reads nothing on 300 connections',
        300,
        `${document.repeat(16)}${document.replace('a\r\n', 'a\r\nconnection: close\r\n')}`,
      ],
      ['sends half a head on 300 connections', 300, 'GET / HTTP/1.1\r\nhos'],
      [
        'sends a part of a body on 300 connections',
        300,
        'POST /api/auth/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{',
      ],
      ['sends nothing on 4,000 connections', 4_000, ''],
    ])('who %s is cut', async (_does, count, text) => {
      const url = await startProxy(withShortTimeouts);
      const held = open(url, attacker, count);
      for (const socket of held) socket.pause().write(text);
      await expect.poll(() => held.every(({ connecting }) => !connecting)).toBe(true);
      await expectOthersServed(url);
      await expect.poll(() => openConnections(Number(new URL(url).port), attacker)).toBe(0);
      for (const socket of held) socket.destroy();
    });

    test.skipIf(isMissing)('who floods the health checks is limited', async () => {
      const url = await startProxy();
      const callers = Array.from({ length: 32 }, () => ({ localAddress: attacker, key: '' }));
      const sent = sendFlood({ callers, method: 'GET', url: `${url}/readyz`, body: '', each: 50 });
      await expectOthersServed(url, sent);
      const statuses = await sent;
      expect(Object.keys(statuses)).toEqual(['200', '429']);
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      const many = await Promise.all(Array.from({ length: 100 }, () => fetch(`${url}/readyz`)));
      const refused = many.find(({ status }) => status === 429)!;
      expect(await refused.json()).toMatchObject({ statusCode: 429, code: 'rate_limited' });
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(refused.headers.get('x-request-id')).toMatch(/^[\w-]{32,36}$/);
    });
  },
);

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

async function startThroughHaproxy(
  server: string,
  edit?: (cfg: string) => string,
): Promise<{ url: string; stop(): Promise<void> }> {
  const haproxy = await startHaproxy([server], edit);
  while ((await haproxy.ready()).length === 0) await sleep(50);
  return haproxy;
}

const needTls =
  missingForTls.length > 0 ? `(needs ${missingForTls.join(', ')}: apt-get install ${missingForTls.join(' ')})` : '';

describe.skipIf(needTls !== '')(`behind TLS, set up as the handbook says ${needTls}`, () => {
  test.each(['nginx', 'haproxy', 'caddy'] as const)(
    '%s serves over HTTP/2 with HSTS, hides the metrics, and forwards the address of the caller',
    async (name) => {
      const proxy = await startTlsProxy(name, target);
      try {
        const ready = await ask(proxy.url, 'GET', '/readyz');
        expect(ready).toMatchObject({ status: 200, hsts: 'max-age=31536000' });
        for (const path of ['/metrics', '/%6Detrics', '/metrics/', '//metrics', '/./metrics', '/metrics?x=1'])
          expect((await ask(proxy.url, 'GET', path)).body, path).not.toContain('nodejs_');
        const { email, userId } = await makeLogin(app, (await customer()).id);
        const login = JSON.stringify({ email, password: 'not the password' });
        const refused = await ask(proxy.url, 'POST', '/api/auth/login', login, { 'x-forwarded-for': '6.6.6.6' });
        expect(refused).toMatchObject({ status: 401, hsts: 'max-age=31536000' });
        const rows = await owner`select address from failed_logins where user_id = ${userId}`;
        expect(rows).toEqual([{ address: '127.0.0.1' }]);
      } finally {
        await proxy.stop();
      }
    },
  );
});

/** Sends one request over HTTP/2. The certificate is not checked. */
async function ask(
  url: string,
  method: string,
  path: string,
  body?: string,
  more: Record<string, string> = {},
): Promise<{ status: number; hsts: unknown; body: string }> {
  const session = connect(url, { rejectUnauthorized: false });
  try {
    const stream = session.request({
      ':method': method,
      ':path': path,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...more,
    });
    stream.end(body);
    const headers = await new Promise<Record<string, unknown>>((resolve, reject) => {
      stream.once('response', resolve).once('error', reject);
      session.once('error', reject);
    });
    const parts = (await stream.setEncoding('utf8').toArray()) as string[];
    return { status: Number(headers[':status']), hsts: headers['strict-transport-security'], body: parts.join('') };
  } finally {
    session.close();
  }
}
/** Terminates the service's sessions that wait for a lock. Returns their number. */
const terminateWaiting = async (): Promise<number> =>
  asSuperuser(async (sql) => {
    const { count } = await sql`
      select pg_terminate_backend(pid)
      from pg_stat_activity
      where datname = ${new URL(databaseUrl).pathname.slice(1)} and wait_event_type = 'Lock'`;
    return count;
  });
