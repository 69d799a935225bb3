import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApp, type TestApp } from './setup/app.ts';
import { isOnCitus } from './setup/database.ts';
import { contactBody, type TestCustomer } from './setup/factories.ts';
import { startFaultyProxy, type FaultyProxy } from './setup/faulty-proxy.ts';
import { waitersOf } from './setup/locks.ts';
import { sendTo } from './setup/over-http.ts';
import { startServerProcess, type ServerProcess } from './setup/server-process.ts';

const limits = {
  STATEMENT_TIMEOUT_MS: '6000',
  DATABASE_QUEUE_MS: '500',
  DATABASE_TRANSACTION_CONNECTIONS: '4', // two for one customer
  SHUTDOWN_MS: '3000',
};

let app: TestApp;
let customer: TestCustomer;
let other: TestCustomer;
let proxy: FaultyProxy;
let service: ServerProcess;

beforeAll(async () => {
  app = await startApp();
  customer = await app.customer();
  other = await app.customer();
  proxy = await startFaultyProxy(app.url);
  service = await startServerProcess(proxy.through(app.url), limits);
});
afterAll(() => proxy?.close());

const contact = async (): Promise<string> => (await customer.post('/contacts', contactBody())).body.data.id;

/** Sends a request over a real socket. */
async function call(method: string, path: string, body?: object, key = customer.key, { url } = service) {
  const { headers, ...answer } = await sendTo({ url, key }, method, path, body);
  return { ...answer, retryAfter: headers.get('retry-after') };
}

const unavailable = {
  status: 503,
  retryAfter: expect.stringMatching(/^\d+$/),
  body: { statusCode: 503, code: 'unavailable' },
};

/** Locks a contact's row until the returned function is called. */
async function hold(id: string): Promise<() => Promise<void>> {
  const session = await app.owner.reserve();
  await session`begin`;
  await session`select from contacts where customer_id = ${customer.id} and id = ${id} for update`;
  return async () => {
    await session`rollback`;
    session.release();
  };
}

describe.skipIf(isOnCitus())(
  'the service keeps running, and answers every request in bounded time, when (needs one server)',
  () => {
    test("a customer's transaction slots are all taken: its reads still work, its writes get 503, other customers can write", async () => {
      const [id, free] = [await contact(), await contact()];
      const release = await hold(id);
      const stuck = [1, 2].map(() => call('PATCH', `/contacts/${id}`, { job_title: 'x' }));
      await waitersOf(app, 2);
      const refused = await call('PATCH', `/contacts/${free}`, { job_title: 'x' });
      expect(refused).toMatchObject(unavailable);
      expect(await call('GET', `/contacts/${free}`)).toMatchObject({ status: 200 });
      expect(await call('POST', '/contacts', contactBody(), other.key)).toMatchObject({ status: 201 });
      await release();
      expect((await Promise.all(stuck)).map(({ status }) => status)).toEqual([200, 200]);
      expect(await call('PATCH', `/contacts/${free}`, { job_title: 'x' })).toMatchObject({ status: 200 });
    });

    test('the database stops responding, and it recovers as soon as the database does', async () => {
      const id = await contact();
      expect((await call('GET', `/contacts/${id}`)).status).toBe(200);
      proxy.freeze();
      const answers = await Promise.all([
        call('GET', `/contacts/${id}`),
        call('PATCH', `/contacts/${id}`, { job_title: 'z' }),
        call('POST', '/contacts/list', { filters: { score: 0 } }),
      ]);
      for (const answer of answers) expect(answer).toMatchObject(unavailable);
      await expect.poll(async () => (await fetch(`${service.url}/readyz`)).status).toBe(503);
      expect((await fetch(`${service.url}/healthz`)).status).toBe(200);
      proxy.thaw();
      await expect.poll(async () => (await call('GET', `/contacts/${id}`)).status).toBe(200);
      expect((await call('GET', `/contacts/${id}`)).body.job_title).toBe('');
    });
  },
);

describe('SIGTERM', () => {
  /** The start of a request whose body never arrives completely. */
  async function halfARequest({ url }: ServerProcess): Promise<Socket> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.write(
      `POST /api/ext/contacts HTTP/1.1\r\nHost: x\r\nAuthorization: X-API-Key ${customer.key}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"first_name": `,
    );
    return socket;
  }

  test.skipIf(isOnCitus())(
    'finishes requests in flight, cuts off requests that never end, accepts no new ones, and exits with 0 (needs one server)',
    async () => {
      const stopping = await startServerProcess(app.url, limits);
      const id = await contact();
      const release = await hold(id);
      const slow = call('PATCH', `/contacts/${id}`, { job_title: 'kept' }, customer.key, stopping);
      const half = await halfARequest(stopping);
      const cutOff = once(half.resume(), 'close');
      await waitersOf(app, 1);
      const ended = stopping.stop('SIGTERM');
      await expect
        .poll(() =>
          fetch(`${stopping.url}/healthz`).then(
            ({ status }) => status,
            () => 'refused',
          ),
        )
        .not.toBe(200);
      await release();
      expect(await slow).toMatchObject({ status: 200 });
      expect((await customer.get(`/contacts/${id}`)).body.job_title).toBe('kept');
      await cutOff;
      expect(await ended).toBe(0);
    },
  );
});
