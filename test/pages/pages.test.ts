import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { scopes } from '../../src/schemas/scopes.ts';
import { eventTypes } from '../../src/schemas/events.ts';
import { declaredRoutes } from '../contract/declared.ts';
import { startApp } from '../setup/app.ts';
import { LogOutput } from '../../src/process/logger.ts';
import { checkLogLine } from '../setup/captured-logs.ts';
import { expectPage, filesOf, textOf, Visitor, visitorOf } from './visitor.ts';

const { hidden } = await declaredRoutes();
const routes = hidden.filter(({ url }) => /^\/app(\/|$)/.test(url));
const nobodysId = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
const pathOf = (url: string) => url.replace(':id', nobodysId);

const app = await startApp();
const visitor = await visitorOf(app.fastify, (await app.customer()).id);

test('the routes of the pages require a session, but for the login, links that set a password, and static files', () => {
  const open = routes.filter(({ access }) => 'public' in access).map(({ url }) => url);
  expect([...new Set(open)].toSorted()).toEqual([
    '/app/files/pages.js',
    '/app/files/style.css',
    '/app/link',
    '/app/link/:link',
    '/app/login',
  ]);
});

const posts = routes.filter(({ method }) => method === 'POST').map(({ url }) => url);
test.each(posts)('POST %s without the token of a form is 403', async (url) => {
  const other = await visitorOf(app.fastify, (await app.customer()).id);
  const { form_token: foreign = '' } = await other.fieldsOf('/app/password');
  for (const fields of [{}, { form_token: 'x-y' }, { form_token: foreign }, { form_token: ['a', 'b'] }] as never[]) {
    expectPage(await visitor.post(pathOf(url), fields), 403, 'This is not allowed');
  }
});

test('the routes of the pages of admins, and those that spend credits, are 403 for members', async () => {
  const ofAdmins =
    /^\/app\/(approvals|audit|fields|keys\/|pipelines|users|webhooks|jobs\/:id\/cancel|lists\/:id\/(enrich|verify)|prospects\/unlock)/;
  const member = await visitorOf(app.fastify, (await app.customer()).id, 'member');
  const { form_token = '' } = await member.fieldsOf('/app/password');
  for (const { url, method } of routes.filter((route) => ofAdmins.test(route.url))) {
    const isSent = method === 'POST';
    const { status } = isSent ? await member.post(pathOf(url), { form_token }) : await member.send(method, pathOf(url));
    expect([method, url, status]).toEqual([method, url, 403]);
  }
  expect(textOf(await member.get('/app/users'))).toContain('Only an admin may do this. Ask one of yours. Today');
});

test('the routes of the pages change nothing with GET', async () => {
  const tables = ['api_keys', 'audit_events', 'idempotency_records', 'imports', 'jobs', 'sessions', 'users'];
  const stored = () =>
    Promise.all(tables.map((table) => app.owner`select to_jsonb(t) as row from ${app.owner(table)} t order by 1`));
  const before = await stored();
  const gets = routes.filter(({ method }) => method !== 'POST');
  for (const { url, method } of gets)
    expect((await visitor.send(method, pathOf(url))).status, `${method} ${url}`).toBeLessThan(500);
  expect(await stored()).toEqual(before);
});

const asked = (): [string, string][] => [
  ['GET', '/app'],
  ['GET', '/app/login'],
  ['GET', '/app/keys'],
  ['GET', '/app/unknown'],
  ['GET', `/app/keys/${nobodysId}/revoke`],
  ['PUT', '/app/keys'],
  ['POST', '/app/keys/new'],
  ['GET', '/app/%ff'],
  ['GET', '/app/files/style.css'],
  ['GET', '/app/files/secret'],
];
const shown = (of: Visitor) => Promise.all(asked().map(([method, url]) => of.send(method, url)));

test('every answer has a content security policy without exceptions, and no other host in it', async () => {
  for (const answer of [...(await shown(visitor)), ...(await shown(new Visitor(app.fastify)))]) {
    const policy = answer.headers['content-security-policy'] as string;
    expect(policy).toBe(
      "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data:;connect-src 'self';" +
        "form-action 'self';base-uri 'none';frame-ancestors 'none'",
    );
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.headers['referrer-policy']).toBe('same-origin');
    expect(answer.body).not.toMatch(/<[^>]+\b(src|href|action)="(https?:)?\/\//);
    expect(answer.body).not.toMatch(/<[^>]+\s(style|on\w+)=|<script(?![^>]*\bsrc=)/);
  }
});

test('every answer is a page, errors too, and is stored by no cache', async () => {
  const answers = await shown(visitor);
  const pages = answers.filter(({ status }) => status !== 303).slice(0, -2);
  expect(pages.map(({ status }) => status)).toEqual([200, 200, 200, 404, 404, 405, 403, 400]);
  for (const { headers } of pages)
    expect([headers['content-type'], headers['cache-control']]).toEqual(['text/html; charset=utf-8', 'no-store']);
  expect(pages[5]!.headers['allow']).toBe('GET, HEAD');
});

test('a page about a record that does not exist says so, and where deleted ones are restored', async () => {
  const gone = await visitor.get(`/app/contacts/${nobodysId}`);
  expectPage(gone, 404, /This contact does not exist .* can be restored under Deleted/);
  expect(gone.body).toContain('<a href="/app/deleted">Deleted</a>');
  expect(textOf(await visitor.get(`/app/keys/${nobodysId}/revoke`))).not.toContain('restored');
});

test('an unknown page has the menu for users, is 404 for others, and leads to the login when a session has ended', async () => {
  const menu = '<nav id="menu"';
  const unknown = await visitor.get('/app/nix');
  expectPage(unknown, 404, 'This page does not exist');
  expect(unknown.body).toContain(menu);
  expect(textOf(await visitor.get('/app/constructor'))).not.toContain('Back to');
  const stranger = new Visitor(app.fastify);
  const seen = await stranger.get('/app/nix');
  expectPage(seen, 404, 'This page does not exist');
  expect(seen.body).not.toContain(menu);
  stranger.cookies.set('session', 'x');
  expect((await stranger.get('/app/nix')).location).toBe('/app/login?next=%2Fapp%2Fnix&ended=1');
});

test('a form that is too large is 413, and the page says how large it may be', async () => {
  const stranger = new Visitor(app.fastify);
  const tooLarge = (kibibytes: number) => ({ email: 'x'.repeat(kibibytes * 1024) });
  expectPage(await stranger.submit('/app/login', tooLarge(16)), 413, 'larger than 16 KiB');
  expectPage(await visitor.submit('/app/password', tooLarge(256)), 413, 'larger than 256 KiB');
  expect((await visitor.submit('/app/password', tooLarge(200))).status).toBe(400);
});

test('a form with more than 1,000 fields is 413, and one that repeats a field more often than the API allows is 400', async () => {
  const { form_token } = (await visitor.fieldsOf('/app/lists/new')) as { form_token: string };
  const repeated = (name: string, times: number) => ({ form_token, [name]: Array<string>(times).fill('') });
  expectPage(await visitor.post('/app/lists/new', repeated('anything', 1_000)), 413, 'more than 1,000 fields');
  for (const [url, name, most] of [
    ['/app/lists/new', 'field', 50],
    ['/app/opportunities/new', 'product', 300],
    ['/app/keys/new', 'permissions', scopes.length],
    ['/app/webhooks/new', 'types', eventTypes.length],
    ['/app/duplicates/merge', 'id', 21],
  ] as const) {
    const answers = [await visitor.post(url, repeated(name, most + 1)), await visitor.post(url, repeated(name, most))];
    const isRefused = answers.map((answer) => textOf(answer).includes(`t most ${most} of these`));
    expect([url, ...isRefused]).toEqual([url, true, false]);
    for (const { body } of answers) expect(Buffer.byteLength(body)).toBeLessThan(300_000);
  }
});

test('static files of this release can be kept for good, because their URL changes with them', async () => {
  const files = filesOf(await visitor.get('/app/login'));
  expect(files).toHaveLength(2);
  for (const url of files) {
    const { headers, status } = await new Visitor(app.fastify).get(url);
    expect([status, headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable']);
    expect(url).toMatch(/\?v=[0-9a-f]{12}$/);
    const other = await new Visitor(app.fastify).get(url.replace(/v=.*/, 'v=another'));
    expect(other.headers['cache-control']).toBe('public, max-age=0');
  }
});

test('logs and metrics name the route, without what follows the question mark', async () => {
  const lines: string[] = [];
  const { write } = LogOutput.prototype;
  LogOutput.prototype.write = (line: string) => {
    lines.push(line);
    checkLogLine(line);
  };
  await visitor.get('/app/keys?done=a-secret-of-mine');
  await new Visitor(app.fastify).get('/app/login?next=%2Fapp%2Fa-secret-of-mine');
  LogOutput.prototype.write = write;
  expect(lines.filter((line) => line.includes('"route":"/app/keys"'))).toHaveLength(1);
  expect(lines.filter((line) => line.includes('a-secret-of-mine'))).toEqual([]);
  const { body } = await app.fastify.inject('/metrics');
  expect(body).toMatch(/route="\/app\/keys"/);
  expect(body).not.toContain('a-secret-of-mine');
});

test('files are compressed for browsers that can read it', async () => {
  const visitor = new Visitor(app.fastify);
  for (const url of filesOf(await visitor.get('/app/login'))) {
    const plain = await visitor.get(url, { 'accept-encoding': 'identity' });
    const { rawPayload, headers } = await app.fastify.inject({ url, headers: { 'accept-encoding': 'br, gzip' } });
    expect([headers['content-encoding'], plain.headers['content-encoding']]).toEqual(['gzip', undefined]);
    expect(gunzipSync(rawPayload).toString()).toBe(plain.body);
    expect(headers['vary']).toContain('accept-encoding');
  }
});
