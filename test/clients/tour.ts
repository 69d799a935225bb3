import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, expect } from 'vitest';
import { loopback } from '../jobs/webhooks/receivers.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { nodeEnvironment } from '../setup/cli.ts';
import { grant } from '../setup/factories.ts';
import { makeSession } from '../setup/sessions.ts';
import { startServerProcess } from '../setup/server-process.ts';

/** The root folder of the repository. */
export const root = join(import.meta.dirname, '..', '..');

const contacts = '/api/ext/contacts';

/** The real service, with a worker and a lying proxy, for the program `tour` of a client. */
export interface TourService {
  app: TestApp;
  url: string;
  /** Creates a customer. Returns the arguments of the program: two URLs and three keys. */
  argumentsOf(): Promise<string[]>;
  /** Asserts what the program has printed, and that it has repeated a call with the same key. */
  expectTour(printed: string, errorClasses: Record<'permission' | 'timeout' | 'connection', string>): Promise<void>;
}

/** Starts the service. It ends after the tests of the file. */
export async function startTourService(): Promise<TourService> {
  const app = await startApp(loopback);
  const { url } = await startServerProcess(app.url);
  const proxy = await startLyingProxy(url, { [contacts]: ['busy', 'cut'] });
  const env = {
    ...nodeEnvironment,
    PATH: process.env['PATH'],
    DATABASE_URL: app.url,
    VERIFY_DNS_SERVERS: '127.0.0.1:1',
    LOG_LEVEL: 'fatal',
    ...loopback,
    WEBHOOK_SECRET_KEY: app.config.WEBHOOK_SECRET_KEY,
  };
  const worker = spawn(process.execPath, ['src/cli.ts', 'work', '--json'], { cwd: root, env, stdio: 'ignore' });
  afterAll(() => {
    worker.kill('SIGKILL');
    proxy.close();
  });
  return {
    app,
    url,
    argumentsOf: async () => {
      const customer = await app.customer();
      await grant(app.fastify, customer.id, 'verification', 10);
      const [reader, limited] = [await customer.withScopes(['contacts:read']), await customer.withCaps({})];
      const session = await makeSession(app.fastify, customer.id);
      await session.call('PATCH', `/api/api-key/spend-caps/${limited.keyId}`, { approve_over: { records: 2 } });
      return [url, proxy.url, customer.key, reader.key, limited.key];
    },
    expectTour: async (printed, classes) => {
      expect(JSON.parse(printed)).toMatchObject(seenBy(classes));
      const keys = proxy.keysOf(contacts);
      expect(keys).toHaveLength(3);
      expect(new Set(keys).size).toBe(1);
      const [written] = await app.owner<[{ count: number }]>`
        select count(*)::integer as count from contacts where work_email = 'lied@example.com'`;
      expect(written.count).toBe(1);
    },
  };
}

const seenBy = ({ permission, timeout, connection }: Record<'permission' | 'timeout' | 'connection', string>) => ({
  created: expect.stringMatching(/^[0-9a-f-]{36}$/) as unknown,
  batch: { length: 2_500, failed: [1_700] },
  emails: 2_500,
  nobody: null,
  lists: ['Three', 'Two', 'One'],
  job: { status: 'COMPLETED', processed: 2, last: 'COMPLETED' },
  companies: [2, [4]],
  unreadable: 'FAILED',
  exported: 2_500,
  errors: [
    { class: 'ValidationError', status: 400, code: 'validation_failed', paths: ['/work_email'] },
    { class: 'AuthenticationError', status: 401, code: 'http_401' },
    { class: permission, status: 403, code: 'http_403' },
    { class: 'ConflictError', status: 409, code: 'conflict', paths: ['/external_id'] },
    { class: 'ApprovalRequiredError', status: 202 },
    { class: timeout },
    { class: connection },
  ],
});

/** What the proxy does with a request instead of forwarding it faithfully. */
type Lie = 'busy' | 'cut';

/** A proxy that treats the first requests to some paths badly. */
interface LyingProxy {
  url: string;
  /** The values of Idempotency-Key of the requests to a path, in their order. */
  keysOf(path: string): (string | undefined)[];
  close(): void;
}

/**
 * Starts an HTTP proxy. With the lie `busy` it answers 503 with `Retry-After: 1` and forwards nothing; with `cut` it forwards
 * the request, waits for the response, and closes the connection instead of sending it.
 * @param lies what happens to the first requests to a path, in their order; later ones are forwarded
 */
async function startLyingProxy(target: string, lies: Record<string, Lie[]>): Promise<LyingProxy> {
  const keys: Record<string, (string | undefined)[]> = {};
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const path = incoming.url!;
    (keys[path] ??= []).push(incoming.headers['idempotency-key'] as string | undefined);
    const body = await buffer(incoming);
    const lie = lies[path]?.shift();
    if (lie === 'busy') return void outgoing.writeHead(503, { 'retry-after': '1' }).end();
    const forwarded = request(new URL(path, target), { method: incoming.method!, headers: incoming.headers });
    forwarded.end(body);
    const [response] = (await once(forwarded, 'response')) as [IncomingMessage];
    if (lie === 'cut') {
      await buffer(response);
      return void outgoing.destroy();
    }
    response.pipe(outgoing.writeHead(response.statusCode!, response.headers));
  };
  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch(() => outgoing.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keysOf: (path) => keys[path] ?? [],
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
