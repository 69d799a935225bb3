import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { loggableError } from '../../../src/process/logger.ts';
import { mintToken } from '../../../src/access/credentials.ts';
import { makeRecords, password } from '../../contract/records.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, inject } from '../../setup/factories.ts';
import { startServerProcess } from '../../setup/server-process.ts';

const app = await startApp();
const root = join(import.meta.dirname, '..', '..', '..');

describe('x-request-id', () => {
  /** Requests that are answered by every part of the service. */
  const calls: [method: string, path: string, body?: string][] = [
    ['GET', '/healthz'],
    ['HEAD', '/healthz'],
    ['GET', '/nothing'],
    ['GET', '/%zz'],
    ['PUT', '/healthz'],
    ['GET', '/api/ext/customer/summary'],
    ['POST', '/api/auth/login', '{"'],
    ['POST', '/api/auth/login', 'x'.repeat(1_100_000)],
    ['GET', '/openapi.json'],
  ];

  test.each(calls)('is in the response to %s %s', async (method, path, body) => {
    const own = await inject(app.fastify, method, path, body);
    expect(own.headers['x-request-id']).toMatch(/^[A-Za-z0-9._-]{1,64}$/);
    expect(own.headers['x-content-type-options']).toBe('nosniff');
    const given = await inject(app.fastify, method, path, body, { 'x-request-id': 'Job_7.retry-2' });
    expect(given.headers['x-request-id']).toBe('Job_7.retry-2');
  });

  test("is the caller's only if it is well-formed", async () => {
    const harmful = ['', 'x'.repeat(65), 'a b', 'a\tb', 'ä', '<script>', 'a,b', '{}', 'a;b'];
    for (const given of harmful) {
      const { headers } = await inject(app.fastify, 'GET', '/healthz', undefined, { 'x-request-id': given });
      expect(headers['x-request-id'], given).toMatch(/^[0-9a-f-]{36}$/);
    }
    const longest = 'x'.repeat(64);
    const { headers } = await inject(app.fastify, 'GET', '/healthz', undefined, { 'x-request-id': longest });
    expect(headers['x-request-id']).toBe(longest);
  });
});

test('the log has a JSON line for every response, and no secret', async () => {
  const { customer, adminEmail } = await makeRecords(app);
  const server = await startServerProcess(app.url);
  const call = async (method: string, path: string, headers: object, body?: object) => {
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', 'x-request-id': 'traced', ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: answer.status, body: (await answer.json()) as { token: string; data: { key: string } } };
  };

  const nobody = randomUUID();
  const unknown = mintToken('sda').reveal();
  const login = await call('POST', '/api/auth/login', {}, { email: adminEmail, password });
  const { token } = login.body;
  const bySession = { authorization: `Bearer ${token}` };
  const generated = await call('POST', '/api/api-key/generate', bySession, { name: 'a', expiration: 7 });
  const { key } = generated.body.data;
  const byKey = { authorization: `X-API-Key ${key}` };
  const statuses = [login.status, generated.status];
  const calls: Parameters<typeof call>[] = [
    ['POST', '/api/auth/login', {}, { email: adminEmail, password: 'a wrong secret' }],
    ['POST', '/api/ext/contacts', byKey, contactBody({ first_name: 'Zenobia' })],
    ['GET', '/api/ext/customer/summary', { authorization: `X-API-Key ${unknown}` }],
    ['POST', '/api/ext/contacts', byKey, { first_name: 'Zenobia' }],
    ['GET', `/api/ext/contacts/${nobody}`, byKey],
  ];
  for (const given of calls) statuses.push((await call(...given)).status);
  await server.stop();
  const linesOf = () => server.log.map((one) => JSON.parse(one) as Record<string, unknown>);
  await expect.poll(() => linesOf().filter(({ msg }) => msg === 'answered').length).toBe(statuses.length);
  const lines = linesOf();

  expect(statuses).toEqual([200, 201, 401, 201, 401, 400, 404]);
  const answered = lines.filter(({ msg }) => msg === 'answered');
  expect(answered.map(({ status }) => status)).toEqual(statuses);
  expect(answered[3]).toMatchObject({
    reqId: 'traced',
    method: 'POST',
    route: '/api/ext/contacts',
    customer: customer.id,
    key: expect.stringMatching(/^[0-9a-f-]{36}$/),
    address: '127.0.0.1',
    created: expect.stringMatching(/^[0-9a-f-]{36}$/),
    ms: expect.any(Number),
  });
  expect(answered[1]).toMatchObject({ user: expect.any(String), address: '127.0.0.1' });
  expect(answered[4]).toMatchObject({ code: 'unauthorized', address: '127.0.0.1' });
  expect(answered[5]).toMatchObject({ code: 'validation_failed', at: expect.arrayContaining(['/last_name']) });
  expect(answered[6]).toMatchObject({ code: 'not_found', id: nobody, key: expect.any(String) });
  expect(lines.filter(({ reason }) => reason).map(({ reason }) => reason)).toEqual(['wrong_password', 'unknown']);
  for (const secret of [password, 'a wrong secret', 'Zenobia', ...[token, key, unknown].map((one) => one.slice(-20))])
    expect(JSON.stringify(lines)).not.toContain(secret);
});

test('the log has the lines of successful probes at level debug, and those of failed ones at level info', async () => {
  const server = await startServerProcess(app.url, { LOG_LEVEL: 'debug', SHUTDOWN_GRACE_MS: '600000' });
  const statusOf = async (path: string, method = 'GET') => (await fetch(server.url + path, { method })).status;
  for (const path of ['/healthz', '/readyz', '/metrics']) expect(await statusOf(path)).toBe(200);
  expect(await statusOf('/healthz', 'HEAD')).toBe(200);
  expect(await statusOf('/healthz', 'PUT')).toBe(405);
  expect(await statusOf('/openapi.json')).toBe(200);
  void server.stop();
  await expect.poll(() => statusOf('/readyz')).toBe(503);
  expect(await statusOf('/readyz')).toBe(503); // now the line of the one before is written
  await server.stop('SIGKILL');
  const answered = server.log
    .map((one) => JSON.parse(one) as Record<string, unknown>)
    .filter(({ msg }) => msg === 'answered')
    .map(({ level, method, route, status }) => [level, method, route, status]);
  expect(answered.slice(0, 6)).toEqual([
    [20, 'GET', '/healthz', 200],
    [20, 'GET', '/readyz', 200],
    [20, 'GET', '/metrics', 200],
    [20, 'HEAD', '/healthz', 200],
    [30, 'PUT', '/healthz', 405],
    [30, 'GET', '/openapi.json', 200],
  ]);
  expect(answered.at(-1)).toEqual([30, 'GET', '/readyz', 503]);
});

test('the log does not prevent the process from ending when its reader is gone', async () => {
  const script = `
      import { logger } from './src/process/logger.ts';
      import { parseConfig } from './src/process/config.ts';
      const log = logger(parseConfig({}));
      process.stdin.once('end', () => { log.info('one'); log.info('two'); process.exit(0); }).resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: root, stdio: 'pipe' });
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stderr.destroy();
  child.stdin.end();
  expect(await once(child, 'exit')).toEqual([0, null]);
});

test('the log shows neither the values nor the statement of a driver error', () => {
  const thrown = Object.assign(new Error('invalid input syntax for type uuid: "secret"'), {
    name: 'PostgresError',
    code: '22P02',
    detail: 'secret',
    query: 'secret',
    parameters: ['secret'],
  });
  expect(JSON.stringify(loggableError(thrown))).not.toContain('secret');
  expect(
    loggableError(Object.assign(thrown, { code: '23505', message: 'duplicate key', stack: 'at a' })),
  ).toMatchObject({
    code: '23505',
    message: 'duplicate key',
  });
});
