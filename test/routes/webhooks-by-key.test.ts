import { expect, test } from 'vitest';
import { revokeKey } from '../../src/accounts/api-keys.ts';
import { endpointCreation, updateEndpoint } from '../../src/accounts/webhooks.ts';
import { commandLine } from '../../src/schemas/accounts.ts';
import { makeEndpoint, record } from '../jobs/webhooks/receivers.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';

const app = await startApp();
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
