import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { testExamples } from './examples.ts';
import { root, startTourService } from './tour.ts';
import { truncateJournalOf } from '../setup/journal.ts';

type Client = any; // eslint-disable-line typescript/no-explicit-any -- the types of the installed client have a test of their own

// The client is packed, installed into an empty folder, compiled there and used against the real service.
const run = promisify(execFile);
const service = await startTourService();
const { argumentsOf, expectTour } = service;
const examples = ['nightly-sync.ts', 'two-way-sync.ts', 'webhook-receiver.ts'] as const;
let folder: string;
let packedFiles: string[];
let SalesData: new (options: object) => Client;
let SalesDataError: new () => Error;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'typescript-client-'));
  const source = join(root, 'clients', 'typescript');
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: source });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [{ filename: string; files: { path: string }[] }];
  packedFiles = packed.files.map(({ path }) => path);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', packed.filename], { cwd: folder });
  await copyFile(join(import.meta.dirname, 'tours', 'tour.ts'), join(folder, 'tour.ts'));
  for (const name of examples) await copyFile(join(source, 'examples', name), join(folder, name));
  const installed = join(folder, 'node_modules', 'sales-data-client', 'dist', 'index.js');
  ({ SalesData, SalesDataError } = await import(installed));
}, 240_000);
afterAll(() => rm(folder, { recursive: true }));

test('the packed client has the built files only', () => {
  const isExpected = (path: string) => /^(dist\/.*\.(js|d\.ts)|package\.json|README\.md)$/.test(path);
  expect(packedFiles).toContain('dist/index.js');
  expect(packedFiles.filter((path) => !isExpected(path))).toEqual([]);
});

test('the packed client has types for a strict program', async () => {
  const options = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--noEmit', '--types', 'node'];
  const roots = ['--typeRoots', join(root, 'node_modules', '@types'), '--skipLibCheck'];
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { stdout } = await run(process.execPath, [tsc, ...options, ...roots, 'tour.ts', ...examples], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  expect(stdout).toBe('');
}, 120_000);

test('retries with the same key, cuts batches, follows cursors, waits, and throws an error of a class for each status', async () => {
  const { stdout } = await run(process.execPath, ['tour.ts', ...(await argumentsOf())], { cwd: folder });
  const classes = { permission: 'PermissionError', timeout: 'TimeoutError', connection: 'ConnectionError' };
  await expectTour(stdout, classes);
}, 180_000);

testExamples(service, examples, (name) => ({ command: process.execPath, words: [name], cwd: folder }));

/** Starts a server that handles requests so, and returns a client of it. */
async function clientOf(handle: RequestListener, options: object = {}): Promise<Client> {
  const server = createServer(handle);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return new SalesData({ baseUrl: `http://127.0.0.1:${port}`, key: 'sda_x', maxRetries: 0, ...options });
}

/** Returns the error of a call, which must be one of the package. */
const failure = (call: Promise<unknown>): Promise<Client> =>
  call.then(
    () => expect.unreachable('the call has succeeded'),
    (error: Error) => {
      expect(error).toBeInstanceOf(SalesDataError);
      return error;
    },
  );

test('an aborted call is an AbortError, whatever it waits for', async () => {
  const why = new Error('no longer needed');
  const later = () => {
    const given = new AbortController();
    setTimeout(() => given.abort(why), 50);
    return { signal: given.signal };
  };
  const silent = await clientOf(() => undefined, { maxRetries: 4 });
  const busy = await clientOf((_, response) => void response.writeHead(503, { 'retry-after': '60' }).end(), {
    maxRetries: 4,
  });
  const halfway = await clientOf((_, response) => void response.write('id\r\n'));
  const aborted = { name: 'AbortError', cause: why };
  expect(await failure(silent.listContacts({}, { signal: AbortSignal.abort(why) }))).toMatchObject(aborted);
  expect(await failure(silent.listContacts({}, later()))).toMatchObject(aborted);
  expect(await failure(busy.listContacts({}, later()))).toMatchObject(aborted);
  const given = new AbortController();
  const file = await halfway.exportContacts({ body: {} }, { signal: given.signal });
  given.abort(why);
  expect(await failure(new Response(file).text())).toMatchObject(aborted);
});

test('the feed is followed from a cursor: nothing is missed, nothing comes twice, and an end of what is kept is told', async () => {
  const customer = await service.app.customer();
  const api = new SalesData({ baseUrl: service.url, key: customer.key });
  const make = (name: string) => api.createProduct({ body: { name, price: 1, unit: 'piece' } });
  const made: string[] = [];
  for (const name of 'abcde') made.push((await make(name)).data.id);
  let cursor: string | undefined;
  const seen: string[] = [];
  // Each reader handles one page and stops.
  for (let n = 0; n < 3; n += 1)
    for await (const page of api.events.follow({ cursor, limit: 2, types: ['product.created'] })) {
      seen.push(...page.events.map(({ data }: Client) => data.id));
      ({ cursor } = page);
      expect(page.hasMore).toBe(n < 2);
      break;
    }
  expect(seen).toEqual(made);
  const enough = new Error('enough');
  const waited = api.events.follow({ cursor, expand: true }, async (events: Client[], next: string) => {
    cursor = next;
    if (events.length === 0) return;
    expect(events).toMatchObject([{ type: 'product.created', record: { name: 'f' } }]);
    throw enough;
  });
  await Promise.all([expect(waited).rejects.toBe(enough), make('f')]);
  const given = new AbortController();
  const aborted = failure(api.events.follow({ cursor, signal: given.signal }, () => given.abort(enough)));
  await make('g');
  expect(await aborted).toMatchObject({ name: 'AbortError', cause: enough });
  await truncateJournalOf(service.app.owner, customer.id);
  await make('h');
  const error = await failure(api.events.follow({ cursor }).next());
  expect(error).toMatchObject({ name: 'CursorExpiredError', code: 'cursor_expired' });
  expect(error.message).toMatch(/Export all records anew/);
});

test('who follows the feed waits while the service is unavailable, but not for a wrong URL or key', async () => {
  const answers = [200, 503, 502, 200];
  const asked: (string | undefined)[] = [];
  const odd = await clientOf((request, response) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      asked.push(JSON.parse(body).paginate.cursor);
      response.writeHead(answers.shift()!, { 'x-next-cursor': `c${answers.length}` }).end('[]');
    });
  });
  const cursors: string[] = [];
  for await (const { cursor } of odd.events.follow()) {
    cursors.push(cursor);
    if (cursors.length === 2) break;
  }
  expect(cursors).toEqual(['c3', 'c0']);
  expect(asked).toEqual([undefined, 'c3', 'c3', 'c3']);
  for (const status of [503, 401]) {
    const refusing = await clientOf((_, response) => void response.writeHead(status).end());
    expect(await failure(refusing.events.follow().next())).toMatchObject({ status });
  }
});

test('a file that stops coming is a TimeoutError, one that is cut off a ConnectionError', async () => {
  const stalling = await clientOf((_, response) => void response.write('id\r\n'), { timeoutMs: 2_000 });
  const file: ReadableStream<Uint8Array> = await stalling.exportContacts({ body: {} });
  const reader = file.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('id\r\n');
  expect((await failure(reader.read())).name).toBe('TimeoutError');
  const cutting = await clientOf((_, response) => void response.write('id\r\n', () => response.destroy()));
  const cut = failure(cutting.exportContacts({ body: {} }).then((whole: ReadableStream) => new Response(whole).text()));
  expect((await cut).name).toBe('ConnectionError');
});

test.each(['<html>', 'null', '5', '{"data": null}', '{"data": {"results": null}}'])(
  'a response of another form is an error of the package: %s',
  async (text) => {
    const odd = await clientOf((_, response) => void response.end(text));
    const message = `The response ${text === '<html>' ? 'is not JSON' : 'has an unexpected form'}. Is baseUrl the URL of the service?`;
    expect((await failure(odd.each('listContacts').next())).message).toBe(message);
    expect(await failure(odd.batch('createContactBatch', [{}]))).toMatchObject({ message, results: [] });
  },
);

const caps = '{"message": "m", "available": 2, "code": ';
test.each<[what: string, status: number, headers: Record<string, string>, body: string, expected: object]>([
  [
    'faults of another form are left out',
    400,
    {},
    '{"code": 4, "message": [], "errors": [null, 5, {"path": 1}, {"path": "/a", "message": "b"}]}',
    { name: 'ValidationError', code: 'http_400', errors: [{ path: '/a', message: 'b' }] },
  ],
  ['a spend cap', 402, {}, `${caps}"spend_cap_exceeded"}`, { name: 'SpendCapExceededError', body: { available: 2 } }],
  ['too few credits', 402, {}, `${caps}"insufficient_credits"}`, { name: 'InsufficientCreditsError' }],
  ['404', 404, {}, '{}', { name: 'NotFoundError' }],
  ['412', 412, {}, '{}', { name: 'PreconditionFailedError' }],
  ['422', 422, {}, '{}', { name: 'IdempotencyMismatchError' }],
  ['JSON that is no object', 200, {}, 'null', { message: expect.stringMatching('unexpected form') as string }],
  ['Retry-After 7', 503, { 'retry-after': '7' }, '{}', { name: 'UnavailableError', retryAfter: 7 }],
  ...['', '-1', 'Mon, 23 Nov 2026 06:00:00 GMT'].map(
    (wait): [string, number, Record<string, string>, string, object] => [
      `Retry-After "${wait}"`,
      503,
      { 'retry-after': wait },
      '{}',
      { name: 'UnavailableError', retryAfter: undefined },
    ],
  ),
])(
  'a response that is no success, or odd, becomes an error of its class: %s',
  async (_, status, headers, body, expected) => {
    const odd = await clientOf((_request, response) => void response.writeHead(status, headers).end(body));
    expect(await failure(odd.getCredits())).toMatchObject(expected);
  },
);

test('what stands beside the body is refused instead of dropped', async () => {
  const api = await clientOf((_, response) => void response.end('[]'));
  await expect(api.listContacts({ paginate: { limit: 1 } })).rejects.toThrow(
    /^listContacts does not take paginate here \(allowed: body\)/,
  );
  expect(await api.listContacts({ body: { paginate: { limit: 1 } } })).toEqual([]);
});

test('reading pages ends if the cursor does not change', async () => {
  const odd = await clientOf((_, response) => void response.setHeader('x-next-cursor', 'same').end('[{}]'));
  const read = async () => {
    for await (const contact of odd.each('listContacts')) expect(contact).toEqual({});
  };
  expect((await failure(read())).message).toBe('The service returned the same page again.');
});

const id = '00000000-0000-4000-8000-000000000000';
// After 503 the database may have been lost while the service committed.
test.each<[what: string, timesAfter503: number, call: (api: Client) => Promise<unknown>]>([
  ['a delete', 1, (api) => api.deleteContact({ id })],
  ['a change with If-Match', 1, (api) => api.updateContact({ id, body: {} }, { ifMatch: '"1"' })],
  ['a change of products', 1, (api) => api.updateOpportunity({ id, body: { products: { remove: [id] } } })],
  ['a rotation of a key', 1, (api) => api.rotateApiKey({ id, body: {} })],
  ['a read', 2, (api) => api.listContacts()],
  ['a create', 2, (api) => api.createContact({ body: {} })],
  ['the start of an import', 2, (api) => api.startImport({ id })],
  ['a change', 2, (api) => api.updateContact({ id, body: {} })],
])('%s is repeated after 429, and after 503 sent %i times in all', async (_, timesAfter503, call) => {
  for (const [status, times] of [
    [429, 2],
    [503, timesAfter503],
  ] as const) {
    // prettier-ignore
    let requests = 0;
    const handle: RequestListener = (_request, response) => {
      requests += 1;
      response.writeHead(status, { 'retry-after': '0' }).end('{}');
    };
    expect(await failure(call(await clientOf(handle, { maxRetries: 1 })))).toMatchObject({ status });
    expect(requests).toBe(times);
  }
});

test.each([
  ['whose file has arrived before goes on', 409, 'COMPLETED', ['POST', 'PUT', 'GET', 'GET'], { created: 2, failed: 1 }],
  [
    'whose file is refused is cancelled, and its error is thrown',
    413,
    'UPLOADING',
    ['POST', 'PUT', 'POST cancel'],
    { name: 'PayloadTooLargeError' },
  ],
])('an import %s', async (_what, status, state, expected, outcome) => {
  const calls: string[] = [];
  const api = await clientOf(({ method, url }, response) => {
    calls.push(url!.endsWith('/cancel') ? `${method} cancel` : method!);
    response.statusCode = method === 'PUT' ? status : 200;
    const body = { code: 'no', message: 'no', data: { id: 'x' }, id: 'x', status: state, created: 2, failed: 1 };
    response.end(JSON.stringify(body));
  });
  const imported = api.importContacts('first_name\nAda', { mode: 'create', format: 'csv' });
  const became = await imported.catch((error: Error) => error);
  expect(became).toMatchObject(outcome);
  expect(calls).toEqual(expected);
});

test('the message of an error names the first faults', async () => {
  const [baseUrl, , key] = await argumentsOf();
  const api = new SalesData({ baseUrl, key });
  const { message, errors } = await failure(api.createContact({ body: { last_name: 5, birth_year: 'x' } }));
  expect(errors).toHaveLength(5);
  const [first, second, third] = errors.map(
    (fault: { path: string; message: string }) => `${fault.path}: ${fault.message}`,
  );
  expect(message).toBe(`5 values are not valid (${first}; ${second}; ${third}; and 2 more)`);
  expect((await failure(api.listContacts({ body: { paginate: { limit: 101 } } }))).message).toBe(
    '/paginate/limit: must be <= 100',
  );
});

test('a batch that stops says what was written', async () => {
  const [baseUrl, , key] = await argumentsOf();
  const people = Array.from({ length: 1_003 }, (_, i) => ({
    first_name: 'A',
    last_name: 'B',
    phone_numbers: [],
    work_email: `a${i}@example.com`,
    job_title: i === 1_002 ? 'x'.repeat(6 * 2 ** 20) : '',
  }));
  const error = await failure(new SalesData({ baseUrl, key }).batch('createContactBatch', people));
  expect([error.name, error.results.length]).toEqual(['PayloadTooLargeError', 1_002]);
  expect(error.results.at(-1)).toMatchObject({ index: 1_001, status: 'created' });
});
