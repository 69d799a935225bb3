import { expect, test } from 'vitest';
import { usualScopes } from '../../src/schemas/scopes.ts';
import { recogniseToken } from '../../src/access/credentials.ts';
import { startApp } from '../setup/app.ts';
import { inject, type Answer } from '../setup/factories.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { makeSession } from '../setup/sessions.ts';

const { fastify: app, owner, customer } = await startApp();

const isoInstant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const days = 24 * 60 * 60 * 1000;

/** Creates a customer and returns a client logged in as its admin. */
async function admin() {
  const { id } = await customer();
  const session = await makeSession(app, id);
  const generate = async (more: object = {}) =>
    (await session.call('POST', '/api/api-key/generate', { name: 'crm', expiration: 30, ...more })).body.data;
  return { ...session, customerId: id, generate };
}

/** Calls the external API with a key. */
const use = (key: string) =>
  inject(app, 'GET', '/api/ext/customer/summary', undefined, { authorization: `X-API-Key ${key}` });

const lifetime = (data: { expires_at: string }) => Math.round((Date.parse(data.expires_at) - Date.now()) / 60_000);

test('POST /api/api-key/generate returns the key once, with its permissions and expiry', async () => {
  const { call, generate, customerId } = await admin();
  const answer = await call('POST', '/api/api-key/generate', {
    name: '  crm sync ',
    expiration: 90,
    permissions: ['customer:read'],
  });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    success: true,
    message: expect.any(String),
    data: {
      id: expect.any(String),
      name: 'crm sync',
      key: expect.stringMatching(/^sda_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/),
      start: answer.body.data.key.slice(0, 8),
      permissions: ['customer:read'],
      spend_caps: { subscription: null, verification: null },
      approve_over: { credits: null, records: null },
      status: 'active',
      expires_at: expect.stringMatching(isoInstant),
      created_at: expect.stringMatching(isoInstant),
    },
  });
  expect(answer.headers['cache-control']).toBe('no-store');
  expect((await use(answer.body.data.key)).body.customer.id).toBe(customerId);
  expect(JSON.stringify((await call('GET', '/api/api-key')).body)).not.toContain((await generate()).key.slice(8));
});

test('POST /api/api-key/generate grants every usual scope if no permissions are given, and a repeated one once', async () => {
  const { generate } = await admin();
  expect((await generate()).permissions).toEqual([...usualScopes]);
  const permissions = ['products:read', 'customer:read', 'products:read'];
  expect((await generate({ permissions })).permissions).toEqual(['products:read', 'customer:read']);
});

test.each([7, 30, 90, 365])(
  'POST /api/api-key/generate creates a key that is valid for %i days',
  async (expiration) => {
    expect(lifetime(await (await admin()).generate({ expiration }))).toBeCloseTo((expiration * days) / 60_000, -1);
  },
);

test('the database contains no key and no session token in clear text', async () => {
  const { generate, token } = await admin();
  const { key } = await generate();
  const tables = await owner<{ name: string }[]>`
    select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public'`;
  const kept = await Promise.all(
    tables.map(({ name }) => owner.unsafe(`select row(t.*)::text as kept from ${name} t`)),
  );
  const everything = kept
    .flat()
    .map((row) => row['kept'] as string)
    .join('\n');
  for (const secret of [key, token]) {
    expect(everything).toContain(recogniseToken(secret)!.hash().toString('hex'));
    expect(everything).not.toContain(secret.slice(12, 40));
    expect(everything).not.toContain(Buffer.from(secret).toString('hex').slice(30, 60));
  }
});

/** Inserts keys that expire `ends` from now, one second later each. */
const insertKeys = (customerId: string, count: number, ends: string) => owner`
  insert into api_keys (customer_id, key_hash, name, start, permissions, duration_days, expires_at, created_by)
  select ${customerId}, sha256((${customerId + ends} || n)::bytea), n::text, 'sda_1234', '{customer:read}', 30,
    now() + ${ends}::interval + make_interval(secs => n), u.id
  from generate_series(1, ${count}) n
  cross join (select id from users where customer_id = ${customerId} limit 1) u`;

test('the limit of 1,000 live keys holds for racing calls; expired, revoked and rotated keys do not count', async () => {
  const { call, generate, customerId } = await admin();
  const old = await generate();
  await insertKeys(customerId, 1_500, '-2 days');
  await insertKeys(customerId, 1_000 - 4, '2 days'); // the customer began with one
  const key = { name: 'crm', expiration: 30 };
  const racing = await Promise.all(Array.from({ length: 8 }, () => call('POST', '/api/api-key/generate', key)));
  expect(racing.map(({ status }) => status).sort((a, b) => a - b)).toEqual([
    201,
    201,
    ...Array.from({ length: 6 }, () => 409),
  ]);
  expect(racing.find(({ status }) => status === 409)!.body).toMatchObject({ code: 'conflict' });
  expect((await call('PATCH', `/api/api-key/update/${old.id}`)).status).toBe(200);
  expect((await call('PATCH', `/api/api-key/revoke/${old.id}`)).status).toBe(200);
  expect((await call('POST', '/api/api-key/generate', key)).status).toBe(201);
  expect((await call('POST', '/api/api-key/generate', key)).status).toBe(409);
});

test('GET /api/api-key shows all live keys and the 1,000 that ended last, newest first', async () => {
  const { call, generate, customerId } = await admin();
  const revoked = await generate();
  const live = await generate();
  await insertKeys(customerId, 2_500, '-2 days');
  await insertKeys(customerId, 1_200, '2 days');
  await call('PATCH', `/api/api-key/revoke/${revoked.id}`);
  const { status, body } = await call('GET', '/api/api-key');
  expect(status).toBe(200);
  const ids: string[] = body.map(({ id }: { id: string }) => id);
  expect(ids).toEqual([...ids].toSorted().toReversed());
  const of = (state: string) => body.filter((key: { status: string }) => key.status === state);
  expect(of('active').map(({ id }: { id: string }) => id)).toContain(live.id);
  expect(of('active')).toHaveLength(1_202); // the customer began with one
  expect(of('revoked')).toMatchObject([{ id: revoked.id, revoked_at: expect.stringMatching(isoInstant) }]);
  // Names are numbers that grow with the end.
  const expired = of('expired').map(({ name }: { name: string }) => Number(name));
  expect(expired.sort((a: number, b: number) => a - b)).toEqual(Array.from({ length: 999 }, (_, i) => 1_502 + i));
});

const update = (id: string) => `/api/api-key/update/${id}`;

test('PATCH /api/api-key/update/:id returns a new key value, and the previous one stops working at once', async () => {
  const { call, generate } = await admin();
  const before = await generate({ permissions: ['customer:read'] });
  expect((await use(before.key)).status).toBe(200);
  const answer = await call('PATCH', update(before.id));
  expect(answer.status).toBe(200);
  expect(Object.keys(answer.body.data).sort()).toEqual(Object.keys(before).sort());
  expect(answer.body.data).toMatchObject({
    id: before.id,
    name: 'crm',
    permissions: ['customer:read'],
    status: 'active',
  });
  expect(answer.body.data.start).toBe(answer.body.data.key.slice(0, 8));
  expect(answer.headers['cache-control']).toBe('no-store');
  expect((await use(before.key)).status).toBe(401);
  expect((await use(answer.body.data.key)).status).toBe(200);
});

test('PATCH /api/api-key/update/:id changes only the fields that are sent, and restarts the expiry with the previous duration or a new one', async () => {
  const { call, generate } = await admin();
  const { id } = await generate({ expiration: 90 });
  await owner`update api_keys set expires_at = now() + interval '1 hour' where id = ${id}`;
  expect(lifetime((await call('PATCH', update(id), {})).body.data)).toBeCloseTo((90 * days) / 60_000, -1);
  const changes = { name: ' new ', expiration: 7, permissions: ['stages:read', 'stages:read'] };
  const { data } = (await call('PATCH', update(id), changes)).body;
  expect(data).toMatchObject({ name: 'new', permissions: ['stages:read'] });
  expect(lifetime(data)).toBeCloseTo((7 * days) / 60_000, -1);
  expect((await use(data.key)).status).toBe(403);
});

test('PATCH /api/api-key/update/:id of several concurrent rotations one succeeds, the others are 409, and only the new key of the first works', async () => {
  const { call, generate } = await admin();
  const { id, key } = await generate();
  const answers = await Promise.all(Array.from({ length: 8 }, () => call('PATCH', update(id))));
  const [winner, ...others] = answers.toSorted((a, b) => a.status - b.status);
  expect(winner!.status).toBe(200);
  expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 7 }, () => 409));
  expect((await use(winner!.body.data.key)).status).toBe(200);
  expect((await use(key)).status).toBe(401);
});

test.each([
  ['revoked', { revoked_at: new Date() }],
  ['expired', { expires_at: new Date() }],
])('PATCH /api/api-key/update/:id that overlaps the key being %s is 409, and no key works', async (_, change) => {
  const { call, generate } = await admin();
  const { id, key, start } = await generate();
  let attempt: Promise<Answer> | undefined;
  await owner.begin(async (sql) => {
    await sql`update api_keys set ${sql(change)} where id = ${id}`;
    attempt = call('PATCH', update(id)); // reads the key as it was committed, active, then waits for this transaction
    await somebodyWaitsFor(sql, owner);
  });
  expect((await attempt!).status).toBe(409);
  expect((await use(key)).status).toBe(401);
  expect((await owner`select start from api_keys where id = ${id}`)[0]).toEqual({ start });
});

const revoke = (id: string) => `/api/api-key/revoke/${id}`;

test('PATCH /api/api-key/revoke/:id revokes a key permanently, and a repetition changes nothing', async () => {
  const { call, generate, customerId } = await admin();
  const { id, key } = await generate();
  const first = await call('PATCH', revoke(id));
  expect(first.status).toBe(200);
  expect(first.body).toEqual({ success: true, message: expect.any(String) });
  expect((await use(key)).status).toBe(401);
  const before = await call('GET', '/api/api-key');
  expect((await call('PATCH', revoke(id), {})).status).toBe(200);
  expect((await call('GET', '/api/api-key')).body).toEqual(before.body);
  const events = await owner`
      select from audit_events where customer_id = ${customerId} and api_key_id = ${id} and event = 'api_key.revoked'`;
  expect(events).toHaveLength(1);
});

test('the audit log records every change of a key: event, actor, address, and no secret', async () => {
  const { call, generate, customerId, email } = await admin();
  const { id, key } = await generate({ name: 'audited' });
  const rotated = (await call('PATCH', `/api/api-key/update/${id}`)).body.data;
  await call('PATCH', `/api/api-key/revoke/${id}`);
  const events = await owner`
    select event, actor, address, details
    from audit_events
    where customer_id = ${customerId} and api_key_id = ${id}
    order by id`;
  const by = { actor: email, address: '127.0.0.1' };
  expect(events.map((row) => ({ ...row }))).toEqual([
    { event: 'api_key.generated', ...by, details: { name: 'audited', start: key.slice(0, 8) } },
    { event: 'api_key.rotated', ...by, details: { name: 'audited', start: rotated.start } },
    { event: 'api_key.revoked', ...by, details: { name: 'audited', start: rotated.start } },
  ]);
});
