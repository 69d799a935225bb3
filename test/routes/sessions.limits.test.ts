import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { inject, unique, type Answer } from '../setup/factories.ts';
import { atOnce, firstLine, freshAddress, inTurn, limitsOf } from '../setup/limits.ts';
import { makeLogin, makeSession, password } from '../setup/sessions.ts';

const {
  fastify: app,
  owner,
  customer,
} = await startApp({
  RATE_LIMITS: 'on',
  RATE_LIMIT_LOGIN: '2',
  RATE_LIMIT_UNAUTHENTICATED: '3',
  TRUST_PROXY: '127.0.0.1',
});

const wrong = 'wrong horse battery';
const newAccount = async () => (await makeLogin(app, (await customer()).id)).email;
const nobody = () => `${unique('nobody')}@example.com`;

const loginFrom = (address: string, email: string, secret: string): Promise<Answer> =>
  inject(app, 'POST', '/api/auth/login', { email, password: secret }, { 'x-forwarded-for': address });

function expectRefusal(answer: Answer): void {
  expect(answer).toMatchObject({
    status: 429,
    body: { code: 'rate_limited', message: expect.stringContaining('"login"') },
  });
  expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
}

test('failed logins of an account from an address are limited, however its e-mail is spelled, also with the right password; other accounts and addresses are not', async () => {
  const [address, email] = [freshAddress(), await newAccount()];
  const spellings = [email, email.toUpperCase(), email.replace('a', 'A')];
  expect(
    await inTurn(20, () => loginFrom(address, (spellings.unshift(spellings.pop()!), spellings[0]!), wrong)),
  ).toEqual({ 401: 2, 429: 18 });
  const refused = await loginFrom(address, email, password);
  expectRefusal(refused);
  expect(limitsOf(refused)).toEqual({});
  expect((await loginFrom(address, await newAccount(), password)).status).toBe(200);
  expect((await loginFrom(freshAddress(), email, password)).status).toBe(200);
});

test('failed logins from an address are limited to three times as many over all accounts', async () => {
  const [address, email] = [freshAddress(), await newAccount()];
  expect(await inTurn(8, () => loginFrom(address, nobody(), wrong))).toEqual({ 401: 6, 429: 2 });
  expectRefusal(await loginFrom(address, email, password));
});

test('failed logins are counted exactly when concurrent: each counts before its password is checked', async () => {
  const [address, email] = [freshAddress(), await newAccount()];
  expect(await atOnce(12, () => loginFrom(address, email, wrong))).toEqual({ 401: 2, 429: 10 });
  expect((await loginFrom(address, await newAccount(), password)).status).toBe(200);
});

test('failed logins do not count as requests without a valid credential, and those do not count as failed logins', async () => {
  const address = freshAddress();
  const anonymous = () => inject(app, 'GET', '/api/api-key', undefined, { 'x-forwarded-for': address });
  expect(await inTurn(4, () => loginFrom(address, nobody(), wrong))).toEqual({ 401: 4 });
  expect(await inTurn(4, anonymous)).toEqual({ 401: 3, 429: 1 });
  expect((await loginFrom(address, await newAccount(), password)).status).toBe(200);
});

test('failed logins count when a deactivated user gives the right password, so that this reveals nothing about the password', async () => {
  const [address, { email, userId }] = [freshAddress(), await makeLogin(app, (await customer()).id)];
  await owner`update users set active = false where id = ${userId}`;
  expect(await inTurn(3, () => loginFrom(address, email, password))).toEqual({ 401: 2, 429: 1 });
});

test('an attempt is not counted when the login succeeds', async () => {
  const [address, email] = [freshAddress(), await newAccount()];
  expect(await inTurn(7, () => loginFrom(address, email, password))).toEqual({ 200: 7 });
  expect(await inTurn(3, () => loginFrom(address, email, wrong))).toEqual({ 401: 2, 429: 1 });
});

test('an address that has no attempt left is rejected before the body is read', async () => {
  const address = freshAddress();
  await atOnce(6, () => loginFrom(address, nobody(), wrong));
  expect(await firstLine(app, '/api/auth/login', { 'x-forwarded-for': address })).toMatch(/^HTTP\/1\.1 429 /);
});

const change = (session: { token: string }, address: string, current: string, next: string) =>
  inject(
    app,
    'POST',
    '/api/auth/password',
    { current_password: current, new_password: next },
    { authorization: `Bearer ${session.token}`, 'x-forwarded-for': address },
  );

test('a wrong current password counts as a failed login of the account, a right one does not', async () => {
  const session = await makeSession(app, (await customer()).id);
  const address = freshAddress();
  const other = 'staple of no kind at all';
  for (const [current, next] of [
    [password, other],
    [other, password],
  ] as const)
    expect((await change(session, address, current, next)).status).toBe(204);
  expect(await inTurn(1, () => change(session, address, wrong, 'staple of another kind'))).toEqual({ 401: 1 });
  expect(await inTurn(1, () => loginFrom(address, session.email, wrong))).toEqual({ 401: 1 });
  const refused = await change(session, address, password, 'staple of another kind');
  expectRefusal(refused);
  expect(Object.keys(limitsOf(refused))).toEqual(['keys']);
  expectRefusal(await loginFrom(address, session.email, password));
});
