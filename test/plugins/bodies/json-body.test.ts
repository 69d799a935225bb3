import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { Login } from '../../../src/schemas/accounts.ts';
import { appWithoutDatabase } from '../../contract/declared.ts';

const app = appWithoutDatabase();
// Without a credential, and with the body limit of other routes.
app.post(
  '/probe',
  { bodyLimit: 2 ** 20, config: { access: { public: true } }, schema: { body: Login } },
  async () => null,
);
afterAll(() => app.close());

/** Sends a body. Returns the message for the missing fields, or the fault that prevented parsing. */
async function messageOf(payload: string | Buffer, headers: Record<string, string> = {}): Promise<string> {
  const answer = await app.inject({
    method: 'POST',
    url: '/probe',
    headers: { 'content-type': 'application/json', ...headers },
    payload,
  });
  const { code, message, errors } = answer.json() as {
    code: string;
    message: string;
    errors?: { path: string }[];
  };
  if (code === 'validation_failed' && errors![0]!.path === '') return message;
  return answer.statusCode === 400 ? 'read' : `${answer.statusCode}`;
}

const nested = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

test('a body nests up to 64 levels deep, the outermost counted', async () => {
  expect(await messageOf(nested(64))).toBe('read');
  expect(await messageOf(`{"a":${'{"b":'.repeat(63)}1${'}'.repeat(63)}}`)).toBe('read');
  for (const levels of [65, 100_000, 500_000])
    expect(await messageOf(nested(levels)), String(levels)).toBe('the body is nested deeper than 64 levels');
  expect(await messageOf(`{"a":${'{"b":'.repeat(64)}1${'}'.repeat(64)}}`)).toMatch(/deeper than 64/);
});

test('brackets in texts and names, and objects next to each other, add no depth', async () => {
  const open = '[{'.repeat(100);
  expect(await messageOf(JSON.stringify({ a: open, [open]: `\\"${open}\\`, b: `\\\\"${open}` }))).toBe('read');
  expect(await messageOf(JSON.stringify({ a: Array.from({ length: 1_000 }, () => [{}]) }))).toBe('read');
});

test('a repeated property name is rejected instead of dropping one of the values', async () => {
  const twice = 'the body names a property of one object twice';
  for (const body of ['{"a":1,"a":1}', String.raw`{"a":1,"\u0061":2}`, '{"b":[{"a":{},"a":{}}]}', '{"":1,"":2}'])
    expect(await messageOf(body), body).toBe(twice);
  for (const body of ['{"a":{"a":{"a":1}},"b":{"a":1}}', '{"a:":1,"a":":","b":"\\":"}', '{"a":[{"a":1},{"a":1}]}'])
    expect(await messageOf(body), body).toBe('read');
});

test.each([
  ['{"a":1,}', ': it breaks off at character 8'],
  ['{"a":1,\n  b:2}', ': it breaks off at line 2, column 3'],
  ['{"a":undefined}', ': u is unexpected'],
  ['{"a":"x', ': it breaks off at character 8'],
  ['{"a":1}{}', ': it goes on behind its end at character 8'],
  ['{"a":é}', ''],
])(
  'a body that is not valid JSON is refused with the place, as far as the parser names it: %j',
  async (body, where) => {
    expect(await messageOf(body)).toBe(`the body is not valid JSON${where}`);
  },
);

test('a body that is compressed, or declared so, is 415', async () => {
  const answers = [
    messageOf(gzipSync('{}'), { 'content-encoding': 'gzip' }),
    messageOf('{}', { 'content-encoding': 'gzip' }),
    messageOf('{}', { 'content-encoding': 'identity, br' }),
  ];
  expect(await Promise.all(answers)).toEqual(['415', '415', '415']);
  expect(await messageOf('{}', { 'content-encoding': 'Identity' })).toBe('read');
});

test('a byte order mark is accepted', async () => {
  expect(await messageOf('\ufeff{}')).toBe('read');
});

test('the content type of a request without a body does not matter', async () => {
  const pages = ['/healthz', '/openapi.json', '/docs/', '/docs/start.js', '/app/login', '/app/files/style.css'];
  for (const type of ['text/plain', 'foo', 'multipart/form-data', '']) {
    const headers = { 'content-type': type };
    for (const url of pages) expect((await app.inject({ url, headers })).statusCode, `${url} ${type}`).toBe(200);
    expect(await messageOf('', headers), type).toBe('read'); // as `{}`, which lacks fields
  }
  expect(await messageOf('{}', { 'content-type': 'text/plain' })).toBe('415');
});
