import { expect, test } from 'vitest';
import { startApp, type TestApp } from '../setup/app.ts';
import { makeLogin, password } from '../setup/sessions.ts';
import { inject } from '../setup/factories.ts';
import { expectPage, filesOf, filledFields, textOf, Visitor, visitorOf } from './visitor.ts';

const app = await startApp();
const secure = await startApp({ PUBLIC_URL: 'https://sales.example.com' });
const limited = await startApp({
  RATE_LIMITS: 'on',
  RATE_LIMIT_LOGIN: '2',
  RATE_LIMIT_PAGES: '3',
  RATE_LIMIT_UNAUTHENTICATED: '4',
});

const customer = async (of: TestApp = app) => (await of.customer()).id;
const wrongCookies = [{}, { login: 'another' }] as const;

test('a login leads to the pages, and sets a cookie that scripts and other sites cannot use', async () => {
  const { email } = await makeLogin(app.fastify, await customer());
  const visitor = new Visitor(app.fastify);
  const answer = await visitor.logIn(email);
  expect([answer.status, answer.location]).toEqual([303, '/app']);
  const [session] = [answer.headers['set-cookie']].flat();
  expect(session).toMatch(
    /^session=sdsession_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/,
  );
  expect(textOf(await visitor.get('/app/keys'))).toContain(email);
});

test('a login over https sets a cookie for this host only, sent over https only', async () => {
  const { email } = await makeLogin(secure.fastify, await customer(secure));
  const visitor = new Visitor(secure.fastify);
  const page = await visitor.get('/app/login');
  expect(page.headers['set-cookie']).toMatch(
    /^__Host-login=[\w-]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
  const answer = await visitor.logIn(email);
  expect([answer.headers['set-cookie']].flat()[0]).toMatch(
    /^__Host-session=\w+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
  expect((await visitor.get('/app/keys')).status).toBe(200);
  const plain = new Visitor(secure.fastify);
  plain.cookies.set('session', visitor.cookies.get('__Host-session')!);
  expect((await plain.get('/app/keys')).status).toBe(303);
});

test.each([
  ['a wrong password', (email: string) => ({ email, password: 'wrong horse battery' })],
  ['an unknown e-mail address', () => ({ email: 'nobody@example.com', password })],
])('a login with %s is 401, with the form again', async (_what, given) => {
  const { email } = await makeLogin(app.fastify, await customer());
  const visitor = new Visitor(app.fastify);
  const answer = await visitor.submit('/app/login', given(email));
  expect([answer.status, visitor.cookies.has('session')]).toEqual([401, false]);
  expect(textOf(answer)).toContain('The e-mail address or the password is wrong.');
  expect(filledFields(answer.body, '/app/login')['form_token']).toMatch(/./);
  expect(answer.body).not.toContain('horse');
});

test.each(wrongCookies)('a login without the token of its form is 403: cookies %j', async (cookies) => {
  const { email } = await makeLogin(app.fastify, await customer());
  const visitor = new Visitor(app.fastify);
  const { form_token: token = '' } = await visitor.fieldsOf('/app/login');
  const send = (form_token: string) => visitor.post('/app/login', { email, password, form_token });
  expect((await visitor.post('/app/login', { email, password })).status).toBe(403);
  expect((await send(`${token}x`)).status).toBe(403);
  visitor.cookies.clear();
  for (const [name, value] of Object.entries(cookies)) visitor.cookies.set(name, value);
  expect((await send(token)).status).toBe(403);
  expect(visitor.cookies.has('session')).toBe(false);
});

test('a login is limited together with the logins of the API', async () => {
  const { email } = await makeLogin(limited.fastify, await customer(limited));
  const visitor = new Visitor(limited.fastify);
  const wrong = { email, password: 'wrong horse battery' };
  expect((await inject(limited.fastify, 'POST', '/api/auth/login', wrong)).status).toBe(401);
  expect((await visitor.submit('/app/login', wrong)).status).toBe(401);
  const refused = await visitor.submit('/app/login', { email, password });
  expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([429, true]);
  expect(textOf(refused)).toContain('Too many failed logins');
});

test.each([
  ['/app/keys/new?preset=crm', '/app/keys/new?preset=crm'],
  ['https://evil.example/app', '/app'],
  ['//evil.example/app', '/app'],
  ['/\\evil.example', '/app'],
  ['/app/../api/ext/contacts', '/app'],
  ['/apple', '/app'],
  ['javascript:alert(1)', '/app'],
])('a login leads back only to pages: %s', async (next, expected) => {
  const { email } = await makeLogin(app.fastify, await customer());
  const visitor = new Visitor(app.fastify);
  const fields = await visitor.fieldsOf(`/app/login?next=${encodeURIComponent(next)}`, '/app/login');
  expect(fields['next']).toBe(expected);
  const answer = await visitor.post('/app/login', { ...fields, next, email, password });
  expect(answer.location).toBe(expected);
});

test('a session that has ended leads to the login, which says so and leads back', async () => {
  const visitor = await visitorOf(app.fastify, await customer());
  await app.owner`update sessions set expires_at = now() where user_id = ${visitor.user.userId}`;
  const answer = await visitor.get('/app/keys/new?preset=crm');
  expect([answer.status, answer.location]).toEqual([303, '/app/login?next=%2Fapp%2Fkeys%2Fnew%3Fpreset%3Dcrm&ended=1']);
  expect(visitor.cookies.has('session')).toBe(false);
  expect(textOf(await visitor.get(answer.location!))).toContain('Your session has ended');
  const { email } = visitor.user;
  expect((await visitor.submit(answer.location!, { email, password })).location).toBe('/app/keys/new?preset=crm');
});

test('a session that is missing leads to the login without that message', async () => {
  const visitor = new Visitor(app.fastify);
  expect((await visitor.get('/app')).location).toBe('/app/login');
  expect((await visitor.get('/app/keys')).location).toBe('/app/login?next=%2Fapp%2Fkeys');
  const login = textOf(await visitor.get('/app/login'));
  expect(login).not.toContain('ended');
  expect(login).toMatch(/Forgot your password.* Ask an admin of your company/);
});

test('a session ends with the logout, and its token works nowhere any more', async () => {
  const visitor = await visitorOf(app.fastify, await customer());
  const token = visitor.cookies.get('session')!;
  expect((await visitor.submit('/app/keys', {}, '/app/logout')).location).toBe('/app/login?done=out');
  expect(visitor.cookies.has('session')).toBe(false);
  visitor.cookies.set('session', token);
  expect((await visitor.get('/app/keys')).status).toBe(303);
  const { status } = await inject(app.fastify, 'GET', '/api/api-key', undefined, {
    authorization: `Bearer ${token}`,
  });
  expect(status).toBe(401);
});

test('a session in a cookie opens no endpoint of the API, and a bearer token opens no page', async () => {
  const visitor = await visitorOf(app.fastify, await customer());
  const token = visitor.cookies.get('session')!;
  const cookie = { cookie: `session=${token}` };
  for (const path of ['/api/api-key', '/api/ext/customer/summary'])
    expect((await inject(app.fastify, 'GET', path, undefined, cookie)).status).toBe(401);
  expect((await inject(app.fastify, 'POST', '/api/auth/logout', undefined, cookie)).status).toBe(401);
  const page = await new Visitor(app.fastify).get('/app/keys', { authorization: `Bearer ${token}` });
  expect(page.location).toBe('/app/login?next=%2Fapp%2Fkeys');
});

test('a session counts its pages under a limit of their own, static files apart', async () => {
  const visitor = await visitorOf(limited.fastify, await customer(limited));
  const [first, second] = [await visitor.get('/app/keys'), await visitor.get('/app/keys')];
  expect([first, second].map(({ headers }) => headers['ratelimit'])).toEqual([
    expect.stringMatching(/^"pages";r=2;t=\d+$/),
    expect.stringMatching(/^"pages";r=1;t=\d+$/),
  ]);
  for (const url of filesOf(first)) expect((await visitor.get(url)).status).toBe(200);
  await visitor.get('/app/keys');
  const refused = await visitor.get('/app/keys');
  expect([refused.status, refused.headers['content-type']]).toEqual([429, 'text/html; charset=utf-8']);
});

test('a session that is guessed is 429 before long, and opening pages without a session never is', async () => {
  const address = { 'x-forwarded-for': '192.0.2.1' };
  const visitor = new Visitor(limited.fastify);
  for (let i = 0; i < 6; i++) expect((await visitor.get('/app/keys', address)).status).toBe(303);
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) {
    visitor.cookies.set('session', `guess${i}`);
    statuses.push((await visitor.get('/app/keys', address)).status);
  }
  expect(statuses).toEqual([303, 303, 303, 303, 429, 429]);
});

test('GET / leads a browser to the pages, and is an unknown route for everybody else', async () => {
  for (const method of ['GET', 'HEAD']) {
    const answer = await new Visitor(app.fastify).send(method, '/');
    expect([answer.status, answer.location]).toEqual([303, '/app']);
  }
  expect((await inject(app.fastify, 'GET', '/')).status).toBe(404);
});

const fresh = 'staple of another kind';
const change = { current_password: password, new_password: fresh, repeated: fresh };

test('the page for the password changes it, keeps this session and ends the others', async () => {
  const visitor = await visitorOf(app.fastify, await customer(), 'member');
  const other = new Visitor(app.fastify);
  await other.logIn(visitor.user.email);
  const answer = await visitor.submit('/app/password', change);
  expect([answer.status, answer.location]).toEqual([303, '/app/password?done=1']);
  expect(textOf(await visitor.get(answer.location!))).toContain('Your password is changed');
  expect((await other.get('/app/keys')).status).toBe(303);
  expect((await new Visitor(app.fastify).logIn(visitor.user.email, fresh)).status).toBe(303);
});

test.each([
  ['a wrong current one', { current_password: 'wrong horse battery' }, 401, 'This is not your password.'],
  ['a short new one', { new_password: 'short', repeated: 'short' }, 400, 'Must have at least 12 characters.'],
  ['the current one', { new_password: password, repeated: password }, 400, 'This is the current password.'],
  ['a different repetition', { repeated: 'staple of no kind' }, 400, 'This differs from the new password.'],
])('the page for the password refuses %s beside its field', async (_what, wrong, status, message) => {
  const visitor = await visitorOf(app.fastify, await customer());
  const answer = await visitor.submit('/app/password', { ...change, ...wrong });
  expectPage(answer, status, message);
  expect(answer.body).toContain('aria-invalid="true"');
  expect(answer.body).not.toMatch(/staple|horse/);
  expect((await new Visitor(app.fastify).logIn(visitor.user.email)).status).toBe(303);
});
