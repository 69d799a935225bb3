import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { unique } from '../setup/factories.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { Visitor, textOf, visitorOf } from './visitor.ts';

const app = await startApp();

const secret = 'staple of another kind';
const passwords = { new_password: secret, repeated: secret };
const pathIn = (body: string): string => /\/app\/link\/sdlink_[0-9A-Za-z_]{50}/.exec(body)![0];

async function start() {
  const customer = await app.customer();
  await app.owner`update users set active = false where id = ${customer.adminId}`;
  const admin = await visitorOf(app.fastify, customer.id);
  const email = `${unique('new')}@example.com`;
  const invite = (given = {}) =>
    admin.submit('/app/users/new', { name: 'Ada Lovelace', email, role: 'member', ...given });
  const idOf = async () => (await app.owner`select id from users where email = ${email}`)[0]!['id'] as string;
  const events = async () =>
    (await app.owner`select event, actor from audit_events where customer_id = ${customer.id} order by id`).map(
      (row) => `${row['event'] as string} ${row['actor'] === email ? 'user' : 'admin'}`,
    );
  return { customer, admin, email, invite, idOf, events };
}

const stranger = () => new Visitor(app.fastify);
const setBy = (path: string, by = stranger()) => by.submit(path, passwords, '/app/link');

test('a user by link sets a password once, logs in with the role given, and each step is in the audit log', async () => {
  const { admin, email, invite, events } = await start();
  const shown = await invite();
  const path = pathIn(shown.body);
  expect(shown.headers['cache-control']).toBe('no-store');
  expect(textOf(shown)).toMatch(/It works once, until .* Done$/);
  expect(decodeURIComponent(shown.body)).toContain(`mailto:${email}?subject`);
  expect(decodeURIComponent(shown.body).split(path)).toHaveLength(3); // in the field and in the e-mail
  const users = textOf(await admin.get('/app/users'));
  expect(users).toContain('Admins may also spend credits');
  expect(users).toContain('has a link');
  for (let i = 0; i < 2; i++) {
    const opened = await stranger().get(path); // opening it does not use it up
    expect([opened.status, opened.headers['referrer-policy']]).toEqual([200, 'no-referrer']);
  }
  const [one, two] = await Promise.all([setBy(path), setBy(path)]);
  expect(new Set([one.status, two.status])).toEqual(new Set([303, 404]));
  expect((await stranger().get(path)).status).toBe(404);
  const user = stranger();
  expect((await user.logIn(email, secret)).status).toBe(303);
  expect((await user.get('/app/users')).status).toBe(403);
  expect((await events()).slice(-4)).toEqual([
    'user.created admin',
    'user.link_issued admin',
    'user.password_set user',
    'user.logged_in user',
  ]);
});

test('a user by link is stored hashed, and its form makes one user however often it is sent', async () => {
  const { admin, email, customer } = await start();
  const fields = { ...(await admin.fieldsOf('/app/users/new')), name: 'Ada', email, role: 'admin' };
  const first = await admin.post('/app/users/new', fields);
  const again = await admin.post('/app/users/new', fields);
  expect([first.status, again.status]).toEqual([200, 409]);
  const token = pathIn(first.body).split('/').at(-1)!;
  const stored = await app.owner`select row_to_json(l)::text as row from password_links l`;
  expect(JSON.stringify(stored)).not.toContain(token.slice(8, 30));
  expect(await app.owner`select 1 from password_links where customer_id = ${customer.id}`).toHaveLength(1);
  expect((await admin.submit('/app/users/new', { name: 'B', email: email.toUpperCase(), role: 'member' })).status).toBe(
    409,
  );
});

test('a user by link is told to nobody by a page that refuses it either', async () => {
  const { fastify } = await startApp({ RATE_LIMITS: 'on', RATE_LIMIT_LOGIN: '1' });
  const seen: unknown[] = [];
  for (let i = 0; i < 4; i += 1) {
    const { status, headers } = await new Visitor(fastify).get('/app/link/sdlink_x');
    expect(headers['referrer-policy']).toBe('no-referrer');
    seen.push(status);
  }
  expect(new Set(seen)).toEqual(new Set([404, 429]));
});

test('a user by link works no more after 72 hours, a newer link, a new password or a deactivation', async () => {
  const { admin, invite, idOf, email } = await start();
  const first = pathIn((await invite()).body);
  const id = await idOf();
  const renew = async () =>
    pathIn((await admin.submit(`/app/users/${id.toUpperCase()}/link`, {}, `/app/users/${id}/link`)).body);
  const second = await renew();
  expect([(await setBy(second)).status, (await stranger().get(first)).status]).toEqual([303, 404]);
  const expired = await renew();
  await app.owner`update password_links set expires_at = now() - interval '1 second' where user_id = ${id}`;
  expect((await stranger().get(expired)).status).toBe(404);
  const user = stranger();
  await user.logIn(email, secret);
  const third = await renew();
  const changed = { current_password: secret, new_password: `${secret}!`, repeated: `${secret}!` };
  expect((await user.submit('/app/password', changed)).status).toBe(303);
  expect((await stranger().get(third)).status).toBe(404);
  const last = await renew();
  expect((await admin.submit(`/app/users/${id}/deactivate`)).status).toBe(303);
  expect((await stranger().get(last)).status).toBe(404);
  expect((await user.get('/app')).location).toContain('/app/login');
  expect((await admin.post(`/app/users/${id}/link`, await admin.fieldsOf('/app/password'))).status).toBe(409);
});

test('a user by link stays when a newer one is made while the one before is being used', async () => {
  const { admin, invite, idOf } = await start();
  const first = pathIn((await invite()).body);
  const id = await idOf();
  const { used, made } = await app.owner.begin(async (sql) => {
    await sql`select from users where id = ${id} for no key update`;
    const used = setBy(first);
    await somebodyWaitsFor(sql, app.owner);
    let isMade = false;
    const made = admin.submit(`/app/users/${id}/link`).finally(() => (isMade = true));
    const waiting = () => app.owner`select from pg_locks where locktype = 'advisory' and not granted`;
    await expect.poll(async () => isMade || (await waiting()).count > 0, { timeout: 10_000 }).toBe(true);
    return { used, made };
  });
  expect((await used).status).toBe(303);
  expect((await stranger().get(pathIn((await made).body))).status).toBe(200);
});

test('a user by link ends the sessions of the user, and a weak or mistyped password does not use it up', async () => {
  const { admin, invite, idOf, email } = await start();
  await setBy(pathIn((await invite()).body));
  const user = stranger();
  await user.logIn(email, secret);
  const path = pathIn((await admin.submit(`/app/users/${await idOf()}/link`)).body);
  for (const wrong of [
    { new_password: 'short', repeated: 'short' },
    { ...passwords, repeated: 'another one here' },
  ])
    expect((await stranger().submit(path, wrong, '/app/link')).status).toBe(400);
  expect((await user.get('/app')).status).toBe(200);
  await setBy(path);
  expect((await user.get('/app')).status).toBe(303);
});

test('admins give and take the role, but the last active one stays, whoever asks at the same time', async () => {
  const { customer, admin } = await start();
  const other = await visitorOf(app.fastify, customer.id, 'member');
  const role = (by: Visitor, id: string, to = 'member') => by.submit(`/app/users/${id}/${to}`);
  expect((await role(admin, admin.user.userId)).status).toBe(409);
  expect((await admin.submit(`/app/users/${admin.user.userId}/deactivate`)).status).toBe(409);
  expect((await role(admin, other.user.userId, 'admin')).status).toBe(303);
  const answers = await Promise.all([role(admin, other.user.userId), role(other, admin.user.userId)]);
  expect(answers.map(({ status }) => status).filter((status) => status === 303)).toHaveLength(1);
  const left = await app.owner`select 1 from users where customer_id = ${customer.id} and role = 'admin' and active`;
  expect(left).toHaveLength(1);
});

test('admins stay admins while nobody else who is one has set a password', async () => {
  const { admin, invite } = await start();
  const link = pathIn((await invite({ role: 'admin' })).body);
  const leave = () => admin.submit(`/app/users/${admin.user.userId}/member`);
  expect((await leave()).status).toBe(409);
  expect((await admin.submit(`/app/users/${admin.user.userId}/deactivate`)).status).toBe(409);
  expect((await setBy(link)).status).toBe(303);
  expect((await leave()).status).toBe(303);
});
