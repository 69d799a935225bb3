import { expect, test } from 'vitest';
import { scopes } from '../../src/schemas/scopes.ts';
import { startApp } from '../setup/app.ts';
import { clientOf, inject } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, textOf } from './visitor.ts';

const app = await startApp();
const { customer, admin: visitor } = adminOfEachTest(app);

const wanted = { name: 'Nightly import', expiration: '30', permissions: ['contacts:read', 'contacts:create'] };
const keyIn = (body: string): string | undefined => /sda_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}/.exec(body)?.[0];
const callWith = (key: string, path = '/contacts/metadata') =>
  inject(app.fastify, path === '/contacts/metadata' ? 'POST' : 'GET', `/api/ext${path}`, undefined, {
    authorization: `X-API-Key ${key}`,
  });

const storedKeys = () =>
  app.owner<{ id: string; name: string; permissions: string[]; duration_days: number; spend_caps: object }[]>`
    select id, name, permissions, duration_days, spend_caps
    from api_keys where customer_id = ${customer.id} order by id`;

test('the list of keys shows status, permissions, last use and expiry, and marks keys that end within 14 days', async () => {
  const age = async (days: number, name: string) => {
    const { keyId } = await clientOf(app.fastify, customer.id, customer.adminId, ['contacts:read']);
    await app.owner`
        update api_keys set name = ${name}, expires_at = now() + make_interval(hours => 24 * ${days}::int)
        where id = ${keyId}`;
  };
  await app.owner`delete from api_keys where id = ${customer.keyId}`;
  for (const [days, name] of [
    [13, 'soon'],
    [15, 'later'],
    [-1, 'past'],
  ] as const)
    await age(days, name);
  const text = textOf(await visitor.get('/app/keys'));
  expect(text).toMatch(/soon sda_\w{4}… ends in 13 days 1 permission read: Contacts Never/);
  expect(text).toMatch(/later sda_\w{4}… active/);
  expect(text).toContain('Keys that no longer work: 1');
  expect(textOf(await visitor.get('/app/keys?ended=1'))).toMatch(/past sda_\w{4}… expired/);
});

test('the pages of the list of keys together show each key once', async () => {
  await app.owner`
    insert into api_keys (customer_id, name, key_hash, start, permissions, duration_days, expires_at, created_by)
    select customer_id, 'key ' || n, sha256(n::text::bytea), start, permissions, duration_days, expires_at, created_by
    from api_keys, generate_series(1, 120) n
    where customer_id = ${customer.id}`;
  const pages = await Promise.all([1, 2, 3, 4, 5, 6].map((page) => visitor.get(`/app/keys?page=${page}`)));
  const found = pages.flatMap(({ body }) => body.match(/>key \d+</g) ?? []);
  expect([found.length, new Set(found).size]).toEqual([120, 120]);
});

test('the form for a new key issues a key that works, and shows it on this page only', async () => {
  const answer = await visitor.submit('/app/keys/new', wanted);
  expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store']);
  const key = keyIn(answer.body)!;
  expect((await callWith(key)).status).toBe(200);
  expect((await callWith(key, '/customer/summary')).status).toBe(403);
  expect((await storedKeys()).at(-1)).toMatchObject({
    name: 'Nightly import',
    permissions: wanted.permissions,
    duration_days: 30,
  });
  for (const page of ['/app/keys', '/app/keys/new']) expect((await visitor.get(page)).body).not.toContain(key);
});

test('the form for a new key can be sent once: again it says so and issues none', async () => {
  const fields = { ...(await visitor.fieldsOf('/app/keys/new')), ...wanted };
  const answers = await Promise.all([1, 2, 3].map(() => visitor.post('/app/keys/new', fields)));
  answers.push(await visitor.post('/app/keys/new', fields));
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409, 409]);
  expect(answers.filter(({ body }) => keyIn(body))).toHaveLength(1);
  expect(textOf(answers.at(-1)!)).toContain('It issued a key then, and none now');
  expect(await storedKeys()).toHaveLength(2);
});

const storedCaps = async () => (await storedKeys()).at(-1)!.spend_caps;
const none = { subscription: null, verification: null };
const nothing = { amount: 0, per: 'total' };

test.each([
  ['read', (scope: string) => scope.endsWith(':read'), { subscription: nothing, verification: nothing }],
  ['crm', (scope: string) => !/^(prospect|payment_prospect|verify_email|webhooks|fields):/.test(scope), none],
  ['all', (scope: string) => !scope.endsWith(':manage'), none],
])('the form for a new key gives the permissions and spend caps of the choice %s', async (preset, belongs, caps) => {
  await visitor.submit('/app/keys/new', { name: preset, expiration: '30', preset });
  const [, issued] = await storedKeys();
  expect(issued!.permissions.toSorted()).toEqual(scopes.filter(belongs).toSorted());
  expect(await storedCaps()).toEqual(caps);
});

test('spend caps are given with a key, changed without a new value, and shown with what was spent', async () => {
  const caps = { cap_verification: '1500', cap_verification_per: 'month' };
  const needless = await visitor.submit('/app/keys/new', { ...wanted, ...caps });
  expectPage(needless, 400, 'so it needs no cap');
  await visitor.submit('/app/keys/new', { ...wanted, ...caps, permissions: ['list_contacts:read'] });
  const [key] = await app.owner`select id from api_keys where customer_id = ${customer.id} order by id desc`;
  await app.owner`
      insert into key_spending (customer_id, api_key_id, pool, day, spent)
      values (${customer.id}, ${key!['id']}, 'verification', (now() at time zone 'UTC')::date, 12)`;
  expect(textOf(await visitor.get('/app/keys'))).toContain('Verification: 12 of 1,500 per month (UTC)');
  const page = `/app/keys/${key!['id']}/caps`;
  const answer = await visitor.submit(page, { cap_verification: '', cap_subscription: '0' });
  expect([answer.status, answer.location]).toEqual([303, '/app/keys?done=capped']);
  expect(await storedCaps()).toEqual({ subscription: { amount: 0, per: 'day' }, verification: null });
  const refused = await visitor.submit(page, { cap_verification: 'many' });
  expectPage(refused, 400, 'Must be a whole number from 0 to 1,000,000,000');
  await visitor.submit(`/app/keys/${key!['id']}/revoke`, {});
  expect((await visitor.submit(page)).status).toBe(409);
});

test('each limit of a new key that is no number is marked, and a key that only reads needs none', async () => {
  const limits = { cap_subscription: '-5', cap_verification: ' 7 ', over_records: 'abc', over_credits: '1e3' };
  const { status, body } = await visitor.submit('/app/keys/new', {
    name: 'x',
    expiration: '30',
    preset: 'all',
    ...limits,
  });
  expect(status).toBe(400);
  const marked = [...body.matchAll(/id="(\w+)" name="\w+"[^>]*aria-invalid="true"/g)].map(([, name]) => name);
  expect(marked).toEqual(['cap_subscription', 'over_records', 'over_credits']);
  expect([body.includes('value="-5"'), body.includes('value="abc"')]).toEqual([true, true]);
  const only = await visitor.submit('/app/keys/new', { name: 'x', expiration: '30', preset: 'read', ...limits });
  expect(keyIn(only.body)).toBeDefined();
  expect(await storedCaps()).toEqual({ subscription: nothing, verification: nothing });
});

test('the form to rotate a key says when it was used last, and replaces the key', async () => {
  await app.owner`update api_keys set last_used_at = '2026-03-04 05:06+00' where id = ${customer.keyId}`;
  const page = `/app/keys/${customer.keyId}/rotate`;
  expect(textOf(await visitor.get(page))).toContain('It was last used on 4 Mar 2026, 05:06 UTC');
  const answer = await visitor.submit(page);
  const key = keyIn(answer.body)!;
  expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store']);
  expect([(await callWith(key)).status, (await callWith(customer.key)).status]).toEqual([200, 401]);
  expect(await storedKeys()).toMatchObject([{ duration_days: 7 }]);
});

test('the form to revoke a key says what stops, and stops it; again changes nothing', async () => {
  const page = `/app/keys/${customer.keyId}/revoke`;
  const text = textOf(await visitor.get(page));
  expect(text).toContain('each program that uses it is refused');
  expect(text).toContain('It has never been used.');
  expect((await callWith(customer.key)).status).toBe(200);
  for (let i = 0; i < 2; i++) expect((await visitor.submit(page)).location).toBe('/app/keys?done=revoked');
  expect((await callWith(customer.key)).status).toBe(401);
  expect(textOf(await visitor.get('/app/keys?done=revoked'))).toContain('The key is revoked');
});
