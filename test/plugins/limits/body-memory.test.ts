import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { startApp } from '../../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../../setup/factories.ts';

const { fastify, customer } = await startApp({ MAX_BUFFERED_MB: '16' });
const mebibyte = 2 ** 20;

beforeAll(() => fastify.listen({ host: '127.0.0.1', port: 0 }));

/** Opens a connection, and sends the head of a request. */
async function send(method: string, path: string, { key }: TestCustomer, length: number | 'chunked') {
  const { port } = fastify.server.address() as AddressInfo;
  const socket: Socket & { got: string } = Object.assign(connect({ host: '127.0.0.1', port }), { got: '' });
  socket.on('error', () => undefined).on('data', (data: Buffer) => (socket.got += data.toString('latin1')));
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  const size = length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`;
  const type = 'content-type: application/json';
  const head = [`${method} /api/ext${path} HTTP/1.1`, 'host: a', `authorization: X-API-Key ${key}`, type, size];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  return socket;
}

const read = (caller: TestCustomer, length: number | 'chunked') => send('POST', '/contacts/batch/read', caller, length);
const statusOf = (socket: { got: string }) => Number(/^HTTP\/1\.1 (\d+)/.exec(socket.got)?.[1]);
/** Waits until this many requests are past the check of their key, so that their bodies are counted. */
async function expectInFlight({ id }: TestCustomer, count: number): Promise<void> {
  await expect.poll(() => fastify.inFlight.heldBy(id), { timeout: 10_000 }).toBe(count);
}

test.each([
  ['a length', 4 * mebibyte, 2],
  ['no length', 'chunked', 1],
] as const)(
  'a body with %s for which there is no memory is 503 before it is read, small ones, files and others are not',
  async (_name, length, fitting) => {
    const [greedy, other] = [await customer(), await customer()];
    const id = await make(greedy, '/imports', { object: 'contacts', mode: 'create', format: 'csv' });
    const held: Socket[] = [];
    for (let count = 1; count <= fitting; count += 1) {
      held.push(await read(greedy, length));
      await expectInFlight(greedy, count);
    }
    const refused = await read(greedy, length);
    await expect.poll(() => statusOf(refused), { timeout: 10_000 }).toBe(503);
    expect(refused.got).toMatch(/retry-after: \d/i);
    expect(refused.got).toContain('"unavailable"');
    expect((await other.post('/contacts', contactBody())).status).toBe(201);
    const small = { ...contactBody(), custom_fields: { note: 'x'.repeat(4_000) } };
    expect((await greedy.post('/contacts', small)).status).toBe(201);
    held.push(await send('PUT', `/imports/${id}/file`, greedy, 200 * mebibyte));
    await expectInFlight(greedy, fitting + 1);
    for (const socket of held) socket.destroy();
    await expectInFlight(greedy, 0);
    const again = await read(greedy, length);
    await expectInFlight(greedy, 1);
    expect(again.got).toBe('');
  },
);
