import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { maxFileBytes } from '../../src/schemas/imports.ts';
import { scopes, type Scope } from '../../src/schemas/scopes.ts';
import { beginImport, contactsCsv, newContacts, sendFile } from '../jobs/importing.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

const app = await startApp();
let port: number;

beforeAll(async () => {
  await app.fastify.listen({ port: 0, host: '127.0.0.1' });
  ({ port } = app.fastify.server.address() as AddressInfo);
});

const customer = customerOfEachTest(app);

const waiting = { ...newContacts, start: false } as const;

/** Opens a request that sends a file over a socket. The caller writes the body. */
function openUpload(id: string, headers: Record<string, string> = {}, caller = customer): ClientRequest {
  const call = request({
    port,
    agent: false,
    method: 'PUT',
    path: `/api/ext/imports/${id}/file`,
    headers: { authorization: `X-API-Key ${caller.key}`, 'content-type': 'text/csv', ...headers },
  });
  call.on('error', () => undefined);
  onTestFinished(() => void call.destroy());
  return call;
}

/** Returns the status and the body of the response to a request. */
async function answerTo(call: ClientRequest): Promise<{ status: number; body: Json }> {
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece as Buffer);
  return { status: response.statusCode!, body: JSON.parse(Buffer.concat(pieces).toString()) };
}

/** Returns the number of stored pieces of an import's file, and the hash of all of them. */
async function stored(id: string): Promise<{ pieces: number; bytes: number; hash: string }> {
  const chunks = await app.owner<{ data: Buffer }[]>`
    select data from import_chunks where import_id = ${id} order by number`;
  const file = Buffer.concat(chunks.map(({ data }) => data));
  return { pieces: chunks.length, bytes: file.length, hash: hashOf(file) };
}

const hashOf = (data: Buffer): string => createHash('sha256').update(data).digest('hex');

const statusOf = async (id: string): Promise<string> => (await customer.get(`/imports/${id}`)).body.status;

test.each([
  ['match with the mode create', { match: 'id' }, ['/match']],
  ['an upsert without a field to match', { mode: 'upsert' }, ['/match']],
  ['an upsert by id', { mode: 'upsert', match: 'id' }, ['/match']],
  ['companies by e-mail address', { object: 'companies', mode: 'update', match: 'work_email' }, ['/match']],
  ['a mapping of NDJSON', { format: 'ndjson', mapping: { Mail: 'work_email' } }, ['/mapping']],
  ['a type of no custom field', { mapping: { Mail: { field: 'work_email', type: 'text' } } }, ['/mapping/Mail']],
  ['a mapping to no field', { mapping: { 'a/b': 'nothing', Mail: 'work_email', No: null } }, ['/mapping/a~1b']],
  ['lists of companies', { object: 'companies', list_ids: [] }, ['/list_ids']],
])('beginning an import refuses %s', async (_name, settings, paths) => {
  const { status, body } = await customer.post('/imports', { ...newContacts, ...settings });
  expect(status).toBe(400);
  expect(body.errors.map(({ path }: { path: string }) => path)).toEqual(paths);
});

test('an import takes no file while three are under way, also if many files come at once, and keeps those that came late', async () => {
  const ids: string[] = [];
  for (let i = 0; i < 9; i += 1) ids.push(await beginImport(customer, newContacts));
  const send = (id: string) => sendFile(customer, id, 'work_email\na@x.example\n');
  const statuses = (await Promise.all(ids.slice(0, 8).map(send))).map(({ status }) => status);
  expect(statuses.filter((status) => status === 409)).toHaveLength(5);
  expect((await send(ids[8]!)).status).toBe(409);
  const found = await Promise.all(ids.map((id) => customer.get(`/imports/${id}`)));
  const ended = found.map(({ body }) => body.status);
  expect(ended.filter((status) => status === 'PENDING')).toHaveLength(3);
  expect(ended[8]).toBe('UPLOADING');
  await customer.post(`/imports/${ids[ended.indexOf('PENDING')]!}/cancel`);
  expect((await send(ids[8]!)).status).toBeLessThan(300);
});

test('an import that waits for a person is made and started beside three others, up to 20 of them', async () => {
  const waiting = { ...newContacts, start: false };
  const ids: string[] = [];
  for (let i = 0; i < 20; i += 1) ids.push(await beginImport(customer, waiting));
  expect((await customer.post('/imports', waiting)).status).toBe(409);
  for (const id of ids.slice(0, 4)) await sendFile(customer, id, 'work_email,phone_numbers\na@x.example,\n');
  const started: number[] = [];
  for (const id of ids.slice(0, 4)) started.push((await customer.post(`/imports/${id}/start`, {})).status);
  expect(started).toEqual([200, 200, 200, 409]);
});

const randomUuid = (): string => crypto.randomUUID();

const needs: [string, object, Scope[]][] = [
  ['create contacts', newContacts, ['contacts:create']],
  ['update companies', { object: 'companies', mode: 'update', format: 'csv' }, ['companies:update']],
  [
    'upsert contacts',
    { object: 'contacts', mode: 'upsert', match: 'work_email', format: 'csv' },
    ['contacts:create', 'contacts:update'],
  ],
];

test.each(needs)('the scopes of an import are those that starting it needs: %s', async (_name, settings, needed) => {
  const id = await beginImport(customer, { ...settings, start: false });
  for (const missing of needed) {
    const caller = await customer.withScopes(scopes.filter((scope) => scope !== missing));
    expect((await caller.post('/imports', settings)).status).toBe(403);
    expect((await caller.post('/imports/list', {})).body).toEqual([]);
    const unknown = await caller.get(`/imports/${randomUuid()}`);
    expect(unknown.status).toBe(404);
    const answers = [
      await caller.get(`/imports/${id}`),
      await caller.patch(`/imports/${id}`, {}),
      await caller.get(`/imports/${id}/preview`),
      await caller.get(`/imports/${id}/errors`),
      await caller.post(`/imports/${id}/start`),
      await caller.post(`/imports/${id}/cancel`),
      await sendFile(caller, id, 'x'),
    ];
    for (const { status, body } of answers) expect({ status, body }).toEqual({ status: 404, body: unknown.body });
  }
  const only = await customer.withScopes(needed);
  expect((await only.get(`/imports/${id}`)).status).toBe(200);
  expect((await only.post('/imports/list', {})).body).toHaveLength(1);
  expect((await only.post(`/imports/${id}/cancel`)).status).toBe(200);
});

test('the file of an import is stored as it was sent, whatever its content type and its pieces', async () => {
  const file = randomBytes(3 * 1024 * 1024 + 17);
  for (const type of ['text/csv; charset=utf-8', 'application/json', 'a b/c', '', undefined]) {
    const id = await beginImport(customer, waiting);
    const call = openUpload(id, type === undefined ? {} : { 'content-type': type });
    if (type === undefined) call.removeHeader('content-type');
    for (let from = 0; from < file.length; from += 333_333) call.write(file.subarray(from, from + 333_333));
    call.end();
    const { status, body } = await answerTo(call);
    expect({ status, state: body.status }, type).toEqual({ status: 200, state: 'UPLOADED' });
    expect(await stored(id)).toEqual({ pieces: 4, bytes: file.length, hash: hashOf(file) });
    await customer.post(`/imports/${id}/cancel`);
    expect((await stored(id)).pieces).toBe(0);
  }
});

test('the file of an import is not taken from a form, whose boundaries would be read as records', async () => {
  const id = await beginImport(customer);
  const type = { 'content-type': 'multipart/form-data; boundary=x' };
  const sent = await customer.call('PUT', `/imports/${id}/file`, contactsCsv(), type);
  expect(sent).toMatchObject({ status: 415, body: { message: expect.stringMatching(/^Send the bytes/) } });
  expect((await customer.get(`/imports/${id}`)).body.status).toBe('UPLOADING');
});

test.each([
  ['sent gzipped', { 'content-encoding': 'gzip' }],
  ['a gzip file itself', {}],
])('the file of an import is unpacked if it is %s', async (_name, headers) => {
  const id = await beginImport(customer, waiting);
  const file = Buffer.from(contactsCsv('Ada,Lovelace,ada@example.com,'.repeat(100_000)));
  const call = openUpload(id, headers);
  call.end(gzipSync(file));
  expect((await answerTo(call)).status).toBe(200);
  expect((await stored(id)).hash).toBe(hashOf(file));
});

test.each([
  ['no gzip', 400, Buffer.from('no gzip at all'), { 'content-encoding': 'gzip' }],
  ['cut gzip', 400, gzipSync(randomBytes(100_000)).subarray(0, 50_000), { 'content-encoding': 'gzip' }],
  ['a cut gzip file', 400, gzipSync(randomBytes(100_000)).subarray(0, 50_000), {}],
  ['long and only begins like gzip', 400, Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(2 ** 26)]), {}],
  ['in another encoding', 415, Buffer.from('x'), { 'content-encoding': 'br' }],
])('the file of an import is refused if it is %s, and leaves nothing', async (_name, status, body, headers) => {
  const id = await beginImport(customer, waiting);
  const call = openUpload(id, headers);
  call.end(body);
  expect((await answerTo(call)).status).toBe(status);
  expect((await stored(id)).pieces).toBe(0);
  expect(await statusOf(id)).toBe('UPLOADING');
});

test('the file of an import of more than 256 MiB unpacked is refused while it is unpacked, and leaves nothing', async () => {
  const id = await beginImport(customer, waiting);
  const call = openUpload(id, { 'content-encoding': 'gzip' });
  const answered = answerTo(call);
  // Of zeros alone, one piece of the body would be stored for so long that the connection seems dead.
  const member = gzipSync(Buffer.concat([randomBytes(8_192), Buffer.alloc(1024 * 1024)]));
  call.end(Buffer.concat(Array.from({ length: 400 }, () => member)));
  const { status, body } = await answered;
  expect({ status, code: body.code }).toEqual({ status: 413, code: 'payload_too_large' });
  expect((await stored(id)).pieces).toBe(0);
  expect(await statusOf(id)).toBe('UPLOADING');
}, 400_000);

test('the file of an import of more than 256 MiB is refused by its Content-Length, before the import is looked for', async () => {
  const call = openUpload(randomUuid(), { 'content-length': String(maxFileBytes + 1) });
  call.write('x');
  expect((await answerTo(call)).status).toBe(413);
});

test('the file of an import leaves nothing if the connection breaks, and can be sent again', async () => {
  const id = await beginImport(customer, waiting);
  const call = openUpload(id);
  call.write(Buffer.alloc(2_500_000));
  await expect.poll(async () => (await stored(id)).pieces, { timeout: 10_000 }).toBe(2);
  call.destroy();
  await expect.poll(async () => (await stored(id)).pieces, { timeout: 10_000 }).toBe(0);
  expect(await statusOf(id)).toBe('UPLOADING');
  expect((await sendFile(customer, id, contactsCsv())).status).toBe(200);
  expect((await sendFile(customer, id, contactsCsv())).status).toBe(409);
});

test('the file of an import is that of the upload that began last, if several are sent at once', async () => {
  const id = await beginImport(customer, waiting);
  const early = openUpload(id);
  early.write(Buffer.alloc(1_500_000, 'a'));
  await expect.poll(async () => (await stored(id)).pieces, { timeout: 10_000 }).toBe(1);
  const late = openUpload(id);
  late.write(Buffer.alloc(1_500_000, 'b'));
  await expect
    .poll(
      async () => (await app.owner`select from import_chunks where import_id = ${id} and get_byte(data, 0) = 98`).count,
      { timeout: 10_000 },
    )
    .toBe(1);
  const refused = answerTo(early);
  early.write(Buffer.alloc(1_500_000, 'a')); // not the end: it is refused as soon as it has more to store
  expect((await refused).status).toBe(409);
  late.end();
  expect((await answerTo(late)).status).toBe(200);
  expect((await stored(id)).hash).toBe(hashOf(Buffer.alloc(1_500_000, 'b')));
});

test('the file of an import may take longer than other requests, and holds no connection of the database meanwhile', async () => {
  const { server } = app.fastify;
  const { requestTimeout, headersTimeout } = server;
  Object.assign(server, { requestTimeout: 1_000, headersTimeout: 500 });
  onTestFinished(() => void Object.assign(server, { requestTimeout, headersTimeout }));
  const id = await beginImport(customer, waiting);
  const call = openUpload(id);
  const answered = answerTo(call);
  const before = performance.now();
  while (performance.now() - before < 2_500) {
    call.write('some,header\n');
    await sleep(100);
  }
  expect(app.db.limiters.map(({ name, inside }) => [name, inside])).toEqual(
    app.db.limiters.map(({ name }) => [name, 0]),
  );
  call.end();
  expect((await answered).status).toBe(200);
});

test('a waiting import is changed and started only after its upload', async () => {
  const id = await beginImport(customer, waiting);
  const calls = () =>
    Promise.all([
      customer.patch(`/imports/${id}`, { dry_run: true }),
      customer.get(`/imports/${id}/preview`),
      customer.post(`/imports/${id}/start`),
    ]);
  const tooEarly = { status: 409, body: { message: 'The import has no file yet: send it first' } };
  expect(await calls()).toMatchObject([tooEarly, tooEarly, tooEarly]);
  expect((await customer.get(`/imports/${id}/errors`)).status).toBe(409);
  await sendFile(customer, id, contactsCsv());
  const changed = await customer.patch(`/imports/${id}`, { dry_run: true });
  expect(changed).toMatchObject({ status: 200, body: { id, dry_run: true, status: 'UPLOADED' } });
  expect((await customer.patch(`/imports/${id}`, { mapping: { Mail: 'nothing' } })).status).toBe(400);
  expect((await customer.patch(`/imports/${id}`, { list_ids: [randomUuid()] })).status).toBe(404);
  expect((await customer.get(`/imports/${id}/errors`)).body).toBe(
    'first_name,last_name,work_email,phone_numbers,_line,_error,_warning\r\n',
  );
  const started = await customer.post(`/imports/${id}/start`);
  expect(started).toMatchObject({ status: 200, body: { id, status: 'PENDING' } });
  const tooLate = {
    status: 409,
    body: { message: 'The import has been started or cancelled: this is possible only before' },
  };
  expect(await calls()).toMatchObject([tooLate, tooLate, tooLate]);
});
