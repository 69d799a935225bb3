import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase, type SharedDatabase } from '../../src/database/db.ts';
import { startApp } from '../setup/app.ts';
import { isOnCitus } from '../setup/database.ts';
import { contactBody, type TestCustomer } from '../setup/factories.ts';
import { lockTable, waitersOf } from '../setup/locks.ts';

const testApp = await startApp();
const limits = {
  LOG_LEVEL: 'trace',
  OVERLOAD_MS: '0',
  REQUEST_TIMEOUT_MS: '500',
  DATABASE_QUEUE_MS: '60000',
  DATABASE_SEARCH_CONNECTIONS: '2',
  DATABASE_TRANSACTION_CONNECTIONS: '2',
};

let customer: TestCustomer;
let db: SharedDatabase;
let app: FastifyInstance;

beforeAll(async () => {
  customer = await testApp.customer();
  const config = parseConfig({ ...limits, DATABASE_URL: testApp.url });
  db = openDatabase(config, testApp.url);
  app = buildApp({ config, db, catalog: testApp.catalog });
  await app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await app.close();
  await db.close();
});

const patience = { timeout: 10_000, interval: 20 };
const head = (method: string, path: string, length: number): string =>
  [
    `${method} /api/ext${path} HTTP/1.1`,
    'host: x',
    `authorization: X-API-Key ${customer.key}`,
    'content-type: application/json',
    `content-length: ${length}`,
    '\r\n',
  ].join('\r\n');

/** Sends a request over its own socket. */
function send(method: string, path: string, body: object, to = app): Socket {
  const text = JSON.stringify(body);
  const socket = connect((to.server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(head(method, path, Buffer.byteLength(text)) + text);
  return socket;
}

/** Reads a response until it is complete or the server closes the connection. */
async function answerOf(socket: Socket): Promise<string> {
  const [first] = (await once(socket, 'data')) as [Buffer];
  return first.toString();
}

const filtered = { filters: { job_title: { contains: 'a' } } };

describe.skipIf(isOnCitus())('a request whose time is up (needs one server)', () => {
  test.each([
    ['a search', '/contacts/list', filtered, 0],
    ['a look-up, whose statement is not cancelled: a cancel request could hit another one', '/contacts/list', {}, 1],
    ['a transaction', '/contacts', contactBody(), 0],
  ])('is 503 with Retry-After, and its statement is ended: %s', async (_what, path, body, left) => {
    const release = await lockTable(testApp, 'contacts');
    const answer = await answerOf(send('POST', path, body));
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer).toMatch(/^retry-after: 1\r$/m);
    expect(answer).toContain('"code":"unavailable"');
    await waitersOf(testApp, left);
    await release();
    await waitersOf(testApp, 0);
    const next = await customer.post('/contacts/list', filtered);
    expect(next.status).toBe(200);
    expect(next.body).toEqual([]);
  });

  test('before its body has arrived is 503, and its connection is closed', async () => {
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
    socket.write(`${head('POST', '/contacts', 500)}{"first_name": `);
    const closed = once(socket, 'close');
    const answer = await answerOf(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer).toMatch(/^connection: close\r$/m);
    await closed;
  });
});

describe.skipIf(isOnCitus())('a caller that hangs up (needs one server)', () => {
  let other: FastifyInstance;

  beforeAll(async () => {
    const patient = parseConfig({ ...limits, REQUEST_TIMEOUT_MS: '60000', DATABASE_URL: testApp.url });
    other = buildApp({ config: patient, db, catalog: testApp.catalog });
    await other.listen({ host: '127.0.0.1', port: 0 });
  });
  afterAll(() => other.close());

  test('gets its search cancelled and its slot released', async () => {
    const release = await lockTable(testApp, 'contacts');
    const sockets = [1, 2, 3].map(() => send('POST', '/contacts/list', filtered, other));
    await waitersOf(testApp, 1);
    for (const socket of sockets) socket.destroy();
    await waitersOf(testApp, 0);
    await expect.poll(() => other.inFlight.taken, patience).toBe(0);
    await release();
    expect((await customer.post('/contacts/list', filtered)).status).toBe(200);
  });

  test('still gets its write committed', async () => {
    const release = await lockTable(testApp, 'contacts');
    const socket = send('POST', '/contacts', contactBody({ first_name: 'Hung', last_name: 'Up' }), other);
    await waitersOf(testApp, 1);
    socket.destroy();
    await release();
    const count = async () => (await customer.post('/contacts/list', { filters: { last_name: 'Up' } })).body.length;
    await expect.poll(count, patience).toBe(1);
  });
});
