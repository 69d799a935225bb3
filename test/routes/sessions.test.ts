import { describe, expect, test } from 'vitest';
import { listEvents, nobody } from '../../src/queries/accounts/customers.ts';
import { setPassword } from '../../src/queries/accounts/users.ts';
import { startApp } from '../setup/app.ts';
import { unique, type Answer } from '../setup/factories.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { login, makeLogin, makeSession, openSession, password } from '../setup/sessions.ts';

const { fastify: app, db, owner, customer } = await startApp();

const isoInstant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const wrong = { statusCode: 401, message: 'The provided e-mail or password is wrong' };

const alive = async ({ call }: { call: (method: string, path: string) => Promise<Answer> }) =>
  (await call('GET', '/api/api-key')).status === 200;

const eventsOf = async (userId: string) => {
  const rows = await owner`
    select event, actor, address, details from audit_events where user_id = ${userId} order by id`;
  return rows.map((row) => ({ ...row }));
};

describe('POST /api/auth/login', () => {
  test('returns a token for 12 hours and its user, with `Cache-Control: no-store`', async () => {
    const { id } = await customer();
    const { email, userId } = await makeLogin(app, id, 'member');
    const answer = await login(app, email);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      token: expect.stringMatching(/^sdsession_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/),
      expires_at: expect.stringMatching(isoInstant),
      user: { id: userId, name: 'Grace Hopper', email, customer_id: id, role: 'member' },
    });
    expect(answer.headers['cache-control']).toBe('no-store');
    expect((Date.parse(answer.body.expires_at) - Date.now()) / 60_000).toBeCloseTo(12 * 60, 0);
    expect((await login(app, email.toUpperCase())).status).toBe(200);
  });

  test('returns the same 401 for an unknown address, a wrong password, a deactivated user and a suspended customer', async () => {
    const { id } = await customer();
    const { email, userId } = await makeLogin(app, id);
    const answers = [
      await login(app, `${unique('nobody')}@example.com`),
      await login(app, email, 'wrong horse battery'),
    ];
    for (const [active, status] of [
      [false, 'OK'],
      [true, 'SUSPENDED'],
    ] as const) {
      await owner`update users set active = ${active} where id = ${userId}`;
      await owner`update customers set status = ${status} where id = ${id}`;
      answers.push(await login(app, email));
    }
    for (const { status, body } of answers) expect([status, body]).toEqual([401, wrong]);
  });

  test('that races with a password change does not leave a session behind', async () => {
    const { id } = await customer();
    const { email, userId } = await makeLogin(app, id);
    let attempt: Promise<Answer> | undefined;
    const by = { actor: 'test', address: null };
    const reset = { customerId: id, userId, passwordHash: 'another', event: 'user.password_reset', by } as const;
    await db.transaction(async (sql) => {
      await setPassword(sql, reset);
      attempt = login(app, email); // finds and verifies the hash as it was committed, then waits for this transaction
      await somebodyWaitsFor(sql, owner);
    });
    expect((await attempt!).status).toBe(401);
    expect(await owner`select from sessions where user_id = ${userId}`).toHaveLength(0);
  });
});

test("POST /api/auth/logout ends this session at once and keeps the user's other sessions", async () => {
  const session = await makeSession(app, (await customer()).id);
  const other = await openSession(app, session.email);
  const answer = await session.call('POST', '/api/auth/logout');
  expect(answer.status).toBe(204);
  expect(answer.body).toBe('');
  expect([await alive(session), await alive(other)]).toEqual([false, true]);
});

const change = (
  session: { call: (method: string, path: string, body: object) => Promise<Answer> },
  current: string,
  next: string,
) => session.call('POST', '/api/auth/password', { current_password: current, new_password: next });

test('POST /api/auth/password returns the same 401 as login for a wrong current password, and changes nothing', async () => {
  const session = await makeSession(app, (await customer()).id);
  const other = await openSession(app, session.email);
  const answer = await change(session, 'wrong horse battery', 'a quite new password');
  expect(answer.status).toBe(401);
  expect(answer.body).toEqual(wrong);
  expect([await alive(session), await alive(other)]).toEqual([true, true]);
  expect((await login(app, session.email, password)).status).toBe(200);
});

test('of two concurrent changes of a password one succeeds', async () => {
  const session = await makeSession(app, (await customer()).id);
  const passwords = ['first new password', 'second new password'];
  const answers = await Promise.all(passwords.map((next) => change(session, password, next)));
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([204, 401]);
  const winner = passwords[answers.findIndex(({ status }) => status === 204)]!;
  expect((await login(app, session.email, winner)).status).toBe(200);
});

test('the audit log records logins, logouts and password changes with actor and address', async () => {
  const session = await makeSession(app, (await customer()).id);
  await session.call('POST', '/api/auth/password', {
    current_password: 'wrong horse battery',
    new_password: 'a quite new password',
  });
  await session.call('POST', '/api/auth/password', {
    current_password: password,
    new_password: 'a quite new password',
  });
  await session.call('POST', '/api/auth/logout');
  const by = { actor: session.email, address: '127.0.0.1', details: {} };
  expect(await eventsOf(session.userId)).toEqual([
    { event: 'user.created', actor: 'command line', address: null, details: { role: 'admin' } },
    { event: 'user.logged_in', ...by },
    { event: 'user.password_change_failed', ...by },
    { event: 'user.password_changed', ...by },
    { event: 'user.logged_out', ...by },
  ]);
});

const failures = async (customerId: string) => {
  const events = await db.lookup((sql) => listEvents(sql, customerId, 100));
  return events.filter(({ event }) => event === 'user.login_failed');
};

test('the audit log records failed logins and their reason under the account', async () => {
  const { id } = await customer();
  const { email, userId } = await makeLogin(app, id);
  await login(app, email, 'wrong horse battery');
  await owner`update users set active = false where id = ${userId}`;
  await login(app, email);
  const failed = {
    event: 'user.login_failed',
    actor: 'anonymous',
    address: '127.0.0.1',
    user_id: userId,
    api_key_id: null,
    id: expect.any(String),
    created_at: expect.stringMatching(isoInstant),
  };
  const once = { email, attempts: '1', first_at: expect.stringMatching(isoInstant) };
  expect(await failures(id)).toEqual([
    { ...failed, details: { ...once, reason: 'deactivated' } },
    { ...failed, details: { ...once, reason: 'wrong_password' } },
  ]);
});

test('the audit log counts logins to unknown accounts without a customer, and keeps neither their addresses nor any password', async () => {
  const attempts = async () => {
    const [row] = await owner`
      select sum(attempts)::integer as attempts from failed_logins where customer_id = ${nobody.customerId}`;
    return row!['attempts'] as number;
  };
  await login(app, `${unique('nobody')}@unknown.example`);
  const before = await attempts();
  for (let i = 0; i < 5; i++) await login(app, `${unique('nobody')}@unknown.example`, 'a wrong secret of somebody');
  expect(await attempts()).toBe(before + 5);
  await login(app, (await makeLogin(app, (await customer()).id)).email, 'a wrong secret of somebody');
  const rows = await owner<{ kept: string }[]>`
    select audit_events::text as kept from audit_events
    union all
    select failed_logins::text from failed_logins`;
  expect(rows.map(({ kept }) => kept).join('\n')).not.toMatch(/correct horse|wrong secret|unknown\.example/);
});

test('the audit log cannot be changed or emptied by the service; failed logins can only be added and counted', async () => {
  const forbidden = [
    "update audit_events set event = 'user.logged_in'",
    'delete from audit_events',
    'truncate audit_events',
    'delete from failed_logins',
    'truncate failed_logins',
  ];
  for (const text of forbidden)
    await expect(
      db.transaction((sql) => sql.unsafe(text)),
      text,
    ).rejects.toThrow(/permission denied/);
});
