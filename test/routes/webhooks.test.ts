import { describe, expect, test } from 'vitest';
import { revokeKey } from '../../src/queries/accounts/api-keys.ts';
import { endpointCreation, updateEndpoint } from '../../src/accounts/webhooks.ts';
import { commandLine } from '../../src/schemas/accounts.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';
import { makeSession } from '../setup/sessions.ts';
import { loopback, makeEndpoint, record, startReceiver, verify } from '../jobs/webhooks/receivers.ts';

const app = await startApp(loopback);

/** A customer, and what its admin may do with endpoints. */
async function start() {
  const customer = await app.customer();
  const { call } = await makeSession(app.fastify, customer.id);
  const create = (body: object = {}) =>
    call('POST', '/api/webhook', { url: 'https://receiver.example.com/hook', types: ['contact.created'], ...body });
  const list = async () => (await call('GET', '/api/webhook')).body;
  return { customer, call, create, list };
}

const auditOf = async (customerId: string) => {
  const rows = await app.owner<{ event: string; details: Record<string, string> }[]>`
    select event, details from audit_events where customer_id = ${customerId} and event like 'webhook.%' order by id`;
  return rows.map(({ event, details }) => [event, details]);
};

test('the secret is shown once, and is stored encrypted', async () => {
  const { customer, create, list } = await start();
  const made = await create({ types: ['contact.created', 'contact.deleted', 'contact.created'], description: 'CRM' });
  expect(made.status).toBe(201);
  expect(made.headers['cache-control']).toBe('no-store');
  const { secret, ...shown } = made.body.data;
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(shown).toEqual({
    id: expect.any(String),
    url: 'https://receiver.example.com/hook',
    types: ['contact.created', 'contact.deleted'],
    bulk: false,
    description: 'CRM',
    active: true,
    created_at: expect.any(String),
  });
  expect(await list()).toEqual([
    {
      ...shown,
      disabled_reason: null,
      last_success_at: null,
      last_failure_at: null,
      failing_since: null,
      waiting: 0,
      given_up: 0,
    },
  ]);
  const [row] = await app.owner<{ text: string; secret: Buffer }[]>`
      select to_jsonb(e)::text as text, secret from webhook_endpoints e where customer_id = ${customer.id}`;
  expect(row!.text).not.toContain(secret.slice(6, 20));
  expect(row!.secret.includes(Buffer.from(secret.slice(6), 'base64').subarray(0, 8))).toBe(false);
});

test('changes only what is sent, and every change is audited without the path of the URL', async () => {
  const { customer, call, create } = await start();
  const { id } = (await create({ url: 'https://receiver.example.com/path-with-a-token' })).body.data;
  const changed = await call('PATCH', `/api/webhook/${id}`, { bulk: true, types: ['list.created'] });
  expect(changed.body.data).toMatchObject({ bulk: true, types: ['list.created'], active: true });
  expect((await call('PATCH', `/api/webhook/${id}`, {})).body.data).toEqual(changed.body.data);
  expect((await call('POST', `/api/webhook/${id}/rotate`)).body.data.secret).toMatch(/^whsec_/);
  expect((await call('DELETE', `/api/webhook/${id}`)).body.data).toEqual({ id });
  expect((await call('DELETE', `/api/webhook/${id}`)).status).toBe(404);
  const details = { webhook: id, host: 'receiver.example.com' };
  expect(await auditOf(customer.id)).toEqual(
    ['webhook.created', 'webhook.changed', 'webhook.rotated', 'webhook.deleted'].map((event) => [event, details]),
  );
});

test('a customer has at most 10 endpoints, however many are created at once', async () => {
  const { create, list } = await start();
  const answers = await Promise.all(Array.from({ length: 13 }, () => create()));
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(3);
  expect(await list()).toHaveLength(10);
});

test('waiting counts what an endpoint has not got, but not what was before it, what imports write and what happens while inactive', async () => {
  const { customer, call, create, list } = await start();
  await record(app, customer.id, [['contact.created']]);
  const { id } = (await create()).body.data;
  const set = (active: boolean) => call('PATCH', `/api/webhook/${id}`, { active });
  const happens = async (source?: 'import') => {
    await record(app, customer.id, [['contact.created'], ['company.created'], ['contact.created']], source);
    return (await list())[0].waiting;
  };
  expect(await happens('import')).toBe(0);
  expect(await happens()).toBe(2);
  await set(false);
  expect(await happens()).toBe(2);
  await set(true);
  expect(await happens()).toBe(4);
});

test('a test of an endpoint is sent now, to an inactive endpoint too, and leaves nothing behind', async () => {
  const { customer, call, create } = await start();
  const receiver = await startReceiver();
  const { id, secret } = (await create({ url: receiver.url })).body.data;
  await call('PATCH', `/api/webhook/${id}`, { active: false });
  const rotated = (await call('POST', `/api/webhook/${id}/rotate`)).body.data.secret;
  const [before] = await app.owner`select to_jsonb(e) as row from webhook_endpoints e where id = ${id}`;
  const answer = await call('POST', `/api/webhook/${id}/test`);
  expect(answer.body).toEqual({ ok: true, status: 200, error: null, ms: expect.any(Number) });
  const [got] = receiver.received;
  expect(got!.event).toMatchObject({ type: 'webhook.test', data: { source: 'api' } });
  for (const key of [secret, rotated]) verify(key, got!);
  expect(await app.owner`select to_jsonb(e) as row from webhook_endpoints e where id = ${id}`).toEqual([before]);
  expect((await call('POST', `/api/webhook/${id}/deliveries`)).body).toEqual([]);
  expect(await auditOf(customer.id)).toHaveLength(3);
});

test('24 hours after a rotation the previous secret signs no more', async () => {
  const { call, create } = await start();
  const receiver = await startReceiver();
  const { id, secret } = (await create({ url: receiver.url })).body.data;
  const rotated = (await call('POST', `/api/webhook/${id}/rotate`)).body.data.secret;
  await app.owner`update webhook_endpoints set previous_until = now() where id = ${id}`;
  await call('POST', `/api/webhook/${id}/test`);
  verify(rotated, receiver.received[0]!);
  expect(() => verify(secret, receiver.received[0]!)).toThrow(/No matching/);
});

const customer = customerOfEachTest(app);

const url = 'https://receiver.example.com/webhooks';
const ofContacts = { url, types: ['contact.created', 'contact.updated'] };
const manager = () => customer.withScopes(['webhooks:manage', 'contacts:read']);

test('types that the key may not read are refused, and endpoints with such types do not exist for it', async () => {
  const key = await manager();
  const secret = { url, types: ['contact.created', 'company.created'] };
  expect((await key.post('/webhooks', secret)).status).toBe(403);
  const { id } = await makeEndpoint(app, customer.id, url, { types: ['company.created'] });
  expect((await key.get('/webhooks')).body).toEqual([]);
  const calls = [
    () => key.patch(`/webhooks/${id}`, { active: false }),
    () => key.delete(`/webhooks/${id}`),
    () => key.post(`/webhooks/${id}/rotate`, {}),
    () => key.post(`/webhooks/${id}/test`, {}),
    () => key.post(`/webhooks/${id}/replay`, { from: '2026-01-01T00:00:00Z' }),
    () => key.post(`/webhooks/${id}/deliveries`, {}),
    () => key.patch(`/webhooks/${crypto.randomUUID()}`, {}),
  ];
  for (const call of calls) expect((await call()).status).toBe(404);
  const own = (await key.post('/webhooks', ofContacts)).body.data.id as string;
  expect((await key.patch(`/webhooks/${own}`, { types: ['company.created'] })).status).toBe(403);
  const other = await app.customer();
  const foreign = await other.withScopes(['webhooks:manage', 'contacts:read']);
  expect((await foreign.delete(`/webhooks/${own}`)).status).toBe(404);
});

test('the ends of jobs and imports are only for a key that may read all of them', async () => {
  const key = await customer.withScopes(['webhooks:manage', 'list_contacts:read', 'contacts:create']);
  for (const type of ['job.ended', 'import.ended'])
    expect((await key.post('/webhooks', { url, types: [type] })).status, type).toBe(403);
});

test('a key that is revoked while its request arrives leaves no endpoint behind', async () => {
  const key = await manager();
  const { id } = (await key.post('/webhooks', ofContacts)).body.data;
  const management = {
    db: app.db.for({ customerId: customer.id }, 'api'),
    config: app.config,
    customerId: customer.id,
    by: commandLine,
    key: { id: key.keyId, types: ['contact.created'] as const },
  };
  const creation = await endpointCreation(management, { url, types: ['contact.created'] });
  await app.db.transaction((sql) => revokeKey(sql as never, customer.id, key.keyId, commandLine));
  await expect(management.db.transaction(creation)).rejects.toMatchObject({ code: 'unauthorized' });
  await expect(updateEndpoint(management, id, { active: true })).rejects.toMatchObject({ code: 'unauthorized' });
});

test('when a key is revoked, the endpoints that it made, moved or gave a new secret are disabled, and no others', async () => {
  const key = await manager();
  const own = (await key.post('/webhooks', ofContacts)).body.data.id as string;
  const make = async () => (await makeEndpoint(app, customer.id, url, { types: ['contact.created'] })).id;
  const [moved, renewed, other] = [await make(), await make(), await make()];
  expect((await key.patch(`/webhooks/${moved}`, { url: `${url}/other` })).status).toBe(200);
  expect((await key.post(`/webhooks/${renewed}/rotate`)).status).toBe(200);
  await app.db.transaction((sql) => revokeKey(sql, customer.id, key.keyId, commandLine));
  const { body } = await customer.get('/webhooks');
  const reasons = body.map((one: Record<string, unknown>) => [one['id'], one['disabled_reason']]);
  expect(Object.fromEntries(reasons)).toEqual({
    [own]: 'revoked',
    [moved]: 'revoked',
    [renewed]: 'revoked',
    [other]: null,
  });
  await record(app, customer.id, [['contact.created']]);
  expect((await customer.get('/webhooks')).body).toContainEqual(expect.objectContaining({ id: own, waiting: 0 }));
  expect((await customer.patch(`/webhooks/${own}`, { active: true })).body.data.active).toBe(true);
});

describe('without WEBHOOK_SECRET_KEY', async () => {
  const keyless = await startApp({ WEBHOOK_SECRET_KEY: '' });

  test('none can be created, and /readyz names webhooks degraded', async () => {
    const customer = await keyless.customer();
    const { call } = await makeSession(keyless.fastify, customer.id);
    const answer = await call('POST', '/api/webhook', { url: 'https://example.com/', types: ['contact.created'] });
    expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
    expect((await call('GET', '/api/webhook')).body).toEqual([]);
    const ready = await inject(keyless.fastify, 'GET', '/readyz');
    expect([ready.status, ready.body.checks.webhooks]).toEqual([200, 'degraded']);
    expect((await inject(app.fastify, 'GET', '/readyz')).body.checks.webhooks).toBe('up');
  });
});
