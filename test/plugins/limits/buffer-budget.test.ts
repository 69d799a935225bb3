import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { startApp, type TestApp } from '../../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../../setup/factories.ts';

const testApp = await startApp({ MAX_BUFFERED_MB: '16' });
const hurried = await startApp({ MAX_BUFFERED_MB: '16', REQUEST_TIMEOUT_MS: '4000' });
const mebibyte = 2 ** 20;

beforeAll(async () => {
  for (const { fastify } of [testApp, hurried]) await fastify.listen({ host: '127.0.0.1', port: 0 });
});

/** Opens a connection, sends a request and reads what comes, unless `isDeaf`. */
async function send(text: string, isDeaf = false, { fastify } = testApp): Promise<Socket & { got: string }> {
  const { port } = fastify.server.address() as AddressInfo;
  const socket = Object.assign(connect({ host: '127.0.0.1', port }), { got: '' });
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  if (isDeaf) socket.pause();
  else socket.on('data', (data: Buffer) => (socket.got += data.toString('latin1')));
  socket.write(text);
  return socket;
}

const head = (path: string, key: string, length: number | 'chunked'): string =>
  [
    `POST ${path} HTTP/1.1`,
    'host: a',
    `authorization: X-API-Key ${key}`,
    'content-type: application/json',
    length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`,
    '\r\n',
  ].join('\r\n');
const read = ({ key }: TestCustomer, length: number | 'chunked') =>
  head('/api/ext/contacts/batch/read', key, length) + (length === 'chunked' ? '' : '{"items": [');

const statusOf = (socket: { got: string }) => Number(/^HTTP\/1\.1 (\d+)/.exec(socket.got)?.[1]);
/** Waits until this many requests are past the check of their key, which means that room was taken for their bodies. */
async function expectInFlight(customer: TestCustomer, count: number): Promise<void> {
  await expect.poll(() => testApp.fastify.inFlight.heldBy(customer.id), { timeout: 10_000 }).toBe(count);
}

test.each([
  ['a length', 4 * mebibyte],
  ['no length', 'chunked'],
] as const)(
  'bodies with %s for which there is no room get 503 before they are read, and room is free again afterwards',
  async (_name, length) => {
    const [greedy, other] = [await testApp.customer(), await testApp.customer()];
    const held: Socket[] = [];
    for (const count of length === 'chunked' ? [1] : [1, 2]) {
      held.push(await send(read(greedy, length)));
      await expectInFlight(greedy, count);
    }
    const refused = await send(read(greedy, length));
    await expect.poll(() => statusOf(refused), { timeout: 10_000 }).toBe(503);
    expect(refused.got).toMatch(/retry-after: \d/i);
    expect(refused.got).toContain('"unavailable"');
    expect((await other.post('/contacts', contactBody())).status).toBe(201);
    for (const socket of held) socket.destroy();
    await expectInFlight(greedy, 0);
    expect((await greedy.post('/contacts/batch/read', { items: [], match: 'id' })).status).not.toBe(503);
    const again = await send(read(greedy, length));
    await expectInFlight(greedy, 1);
    expect(again.got).toBe('');
  },
);

test('an upload counts with the part of its file that is in memory', async () => {
  const [greedy, other] = [await testApp.customer(), await testApp.customer()];
  const upload = async (customer: TestCustomer) => {
    const id = await make(customer, '/imports', { object: 'contacts', mode: 'create', format: 'csv' });
    return head(`/api/ext/imports/${id}/file`, customer.key, 200 * mebibyte).replace('POST', 'PUT');
  };
  const request = await upload(greedy);
  const held: Socket[] = [];
  // Half of the room. Only the latest upload of an import is used, but the others last as long as their callers want.
  for (let count = 1; count <= 8; count += 1) {
    held.push(await send(request));
    await expectInFlight(greedy, count);
  }
  const refused = await send(request);
  await expect.poll(() => statusOf(refused), { timeout: 10_000 }).toBe(503);
  expect((await send(await upload(other))).got).toBe('');
  await expectInFlight(other, 1);
  for (const socket of held) socket.destroy();
  await expectInFlight(greedy, 0);
});

test.each(['an errors file', 'an export'])('%s counts with the part of it that is in memory', async (kind) => {
  const [greedy, other] = [await testApp.customer(), await testApp.customer()];
  const body = '{"format":"csv"}';
  const request = async (customer: TestCustomer) =>
    kind === 'an export'
      ? head('/api/ext/contacts/export', customer.key, body.length) + body
      : head(`/api/ext/imports/${await failedImport(customer)}/errors`, customer.key, 0).replace('POST', 'GET');
  const wanted = await request(greedy);
  const fillers: Socket[] = [];
  // Unfinished bodies take all room of this customer but half a mebibyte.
  for (const bytes of [4 * mebibyte, 3.5 * mebibyte]) {
    fillers.push(await send(read(greedy, bytes)));
    await expectInFlight(greedy, fillers.length);
  }
  const refused = await send(wanted);
  await expect.poll(() => statusOf(refused), { timeout: 10_000 }).toBe(503);
  expect(refused.got).toMatch(/retry-after: \d/i);
  const served = await send(await request(other));
  await expect.poll(() => statusOf(served), { timeout: 10_000 }).toBe(200);
  served.destroy();
  await expectInFlight(other, 0);
  fillers.pop()!.destroy();
  await expectInFlight(greedy, 1);
  // Without a reader, a download lasts and keeps its room.
  if (kind === 'an export') return;
  for (let count = 2; count <= 5; count += 1) {
    await send(wanted, true);
    await expectInFlight(greedy, count);
  }
  const fifth = await send(wanted);
  await expect.poll(() => statusOf(fifth), { timeout: 10_000 }).toBe(503);
});

/** Creates an import with 24 MiB of failed records. */
async function failedImport(customer: TestCustomer): Promise<string> {
  const id = await make(customer, '/imports', { object: 'contacts', mode: 'create', format: 'ndjson' });
  await testApp.owner`
    update imports set status = 'FAILED', file_bytes = 1, finished_at = now(), total = 3, failed = 3 where id = ${id}`;
  await testApp.owner`
    insert into import_errors (customer_id, import_id, position, lines)
    select ${customer.id}, ${id}, n, repeat('x', ${8 * mebibyte}::integer) from generate_series(0, 2) n`;
  return id;
}

test('an answer that its caller does not take leaves half of the room to others, and reads of that caller get 503', async () => {
  const [greedy, other] = [await testApp.customer(), await testApp.customer()];
  await leaveAnswerUnread(testApp, greedy);
  const summary = () => greedy.get('/customer/summary');
  expect((await summary()).headers['retry-after']).toBeDefined();
  expect((await other.get('/customer/summary')).status).toBe(200);
});

/** Sends a request with a large answer and does not read it. Returns when the answer takes all room of the customer. */
async function leaveAnswerUnread(app: TestApp, customer: TestCustomer): Promise<Socket> {
  const rows = await app.owner`
    insert into contacts (customer_id, first_name, last_name, work_email, custom_fields, folded)
    select ${customer.id}, 'Ada', 'Lovelace', 'ada@example.com',
      (select jsonb_object_agg('k' || k, repeat('x', 3000)) from generate_series(1, 10) k),
      '{"first_name": "ada", "last_name": "lovelace", "work_email": "ada@example.com", "job_title": "", "industry": "",
        "location_locality": "", "location_country": "", "location_region": ""}'
    from generate_series(1, 600)
    returning id`;
  const body = { items: rows.map(({ id }) => ({ id: id as string })) };
  const text = JSON.stringify(body);
  const deaf = await send(head('/api/ext/contacts/batch/read', customer.key, text.length) + text, true, app);
  const summary = async () => (await customer.get('/customer/summary')).status;
  await expect.poll(summary, { timeout: 30_000, interval: 10 }).toBe(503);
  return deaf;
}

test('the answer of a write waits for room beyond the time of the request, and is then sent once', async () => {
  const [greedy, other] = [await hurried.customer(), await hurried.customer()];
  const id = await make(greedy, '/contacts', contactBody());
  const deaf = await leaveAnswerUnread(hurried, greedy);
  // Without a body, which would find no room.
  const write = await send(head(`/api/ext/contacts/${id}`, greedy.key, 0).replace('POST', 'DELETE'), false, hurried);
  const stored = () => hurried.owner`select from contacts where customer_id = ${greedy.id} and id = ${id}`;
  await expect.poll(async () => (await stored()).count, { timeout: 10_000 }).toBe(0);
  // A later request whose body never ends.
  const late = await send(read(other, 100), false, hurried);
  await expect.poll(() => statusOf(late), { timeout: 20_000 }).toBe(503);
  expect(write.got).toBe('');
  deaf.destroy();
  await expect.poll(() => statusOf(write), { timeout: 10_000 }).toBe(200);
  expect(write.got.match(/HTTP\/1.1/g)).toHaveLength(1);
});

test('the answer of a write waits for room', async () => {
  const customer = await testApp.customer();
  const id = await make(customer, '/contacts', contactBody());
  const session = await testApp.owner.reserve();
  await session`begin`;
  await session`select from contacts where customer_id = ${customer.id} and id = ${id} for update`;
  const change = { job_title: 'Engineer' };
  let status = 0;
  const write = customer.patch(`/contacts/${id}`, change).then((answer) => (status = answer.status));
  await expectInFlight(customer, 1);
  // Unfinished bodies take all room of this customer but ten bytes.
  const left = 8 * mebibyte - JSON.stringify(change).length - 10;
  const fillers = [await send(read(customer, 4 * mebibyte)), await send(read(customer, left - 4 * mebibyte))];
  await expectInFlight(customer, 3);
  await session`rollback`;
  session.release();
  const title = async () => (await testApp.owner`select job_title from contacts where id = ${id}`)[0]!['job_title'];
  await expect.poll(title, { timeout: 10_000 }).toBe('Engineer');
  expect((await testApp.customer()).id).not.toBe(customer.id); // some rounds of the event loop
  expect(status).toBe(0);
  for (const socket of fillers) socket.destroy();
  await write;
  expect(status).toBe(200);
});
