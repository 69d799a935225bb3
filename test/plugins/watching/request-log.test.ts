import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { loggableError } from '../../../src/process/logger.ts';
import { mintToken } from '../../../src/access/credentials.ts';
import { makeRecords, password } from '../../contract/records.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, inject } from '../../setup/factories.ts';
import { startServerProcess } from '../../setup/server-process.ts';

const app = await startApp();

describe('x-request-id', () => {
  /** Requests that are answered by every part of the service. */
  const calls: [method: string, path: string, body?: string][] = [
    ['GET', '/healthz'],
    ['GET', '/nothing'],
    ['GET', '/%zz'],
    ['GET', '/api/ext/customer/summary'],
    ['POST', '/api/auth/login', '{"'],
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
    const harmful = ['', 'x'.repeat(65), 'a b', 'ä', '<script>'];
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
