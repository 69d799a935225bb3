import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { creditsOf, customerWith, verify } from '../jobs/calls.ts';
import { sweepJobs } from '../../src/jobs/workers.ts';
import { contextOf } from '../jobs/working.ts';
import { contactLines, contactsCsv, workAtAll } from '../jobs/importing.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, make, unique, type Answer, type TestCustomer } from '../setup/factories.ts';
import { makeSession } from '../setup/sessions.ts';
import { textOf, visitorOf } from '../pages/visitor.ts';

const app = await startApp();

/** Creates a customer, its admin's session, and a client whose calls need an approval above this size. */
async function limited(approve_over: object) {
  const customer = await customerWith(app, { subscription: 1_000, verification: 1_000 });
  const session = await makeSession(app.fastify, customer.id);
  const client = await customer.withCaps({});
  const set = (more: object) => session.call('PATCH', `/api/api-key/spend-caps/${client.keyId}`, more);
  expect((await set({ approve_over })).status).toBe(200);
  const decide = (id: string, approve: boolean) => session.call('PATCH', `/api/approval/${id}`, { approve });
  return { customer, session, client, set, decide };
}

const items = (number: number) => Array.from({ length: number }, () => contactBody({ external_id: unique('own') }));
const createMany = (client: TestCustomer, number: number): Promise<Answer> =>
  client.post('/contacts/batch/create', { items: items(number) });
const totalOf = async (client: TestCustomer) =>
  (await client.post('/contacts/metadata', {})).body.pagination.total_records;

const waiting = (answer: Answer): string => {
  expect(answer).toMatchObject({
    status: 202,
    body: { approval: { url: expect.stringContaining(`/app/approvals/${answer.body.approval.id}`) } },
  });
  return answer.body.approval.id;
};

const emails = (number: number) => ({
  emails: Array.from({ length: number }, () => ({ email: `${unique('a')}@example.com` })),
});

test('a call that is larger than its key may send writes nothing until an admin approves it, then runs once, as the key', async () => {
  const { client, session, decide } = await limited({ records: 2 });
  expect((await createMany(client, 2)).status).toBe(200);
  const id = waiting(await createMany(client, 3));
  expect(await totalOf(client)).toBe(2);
  expect((await client.get(`/approval/${id}`)).body).toMatchObject({ status: 'pending', records: 3, answer: null });
  const visitor = await visitorOf(app.fastify, client.id);
  expect(textOf(await visitor.get(`/app/approvals/${id}`))).toContain('Records Ada Lovelace, Ada Lovelace, Ada');
  expect(textOf(await visitor.get('/app/approvals'))).toMatch(/ Create contacts [^ ].* 3 0 .* waits/);
  expect((await session.call('GET', '/api/approval')).body).toMatchObject([
    { id, api_key_id: client.keyId, url: '/api/ext/contacts/batch/create', records: 3, credits: 0 },
  ]);
  const answers = await Promise.all([decide(id, true), decide(id, true), decide(id, true)]);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(2);
  expect(await totalOf(client)).toBe(5);
  const { body } = await client.get(`/approval/${id}`);
  expect(body).toMatchObject({ status: 'approved', answer: { data: { results: [{}, {}, {}] } } });
  const { body: changes } = await client.post('/changes/list', { paginate: { limit: 3 } });
  expect(changes).toHaveLength(3);
  for (const change of changes) expect(change.actor).toMatchObject({ type: 'key', id: client.keyId });
  expect((await decide(id, false)).status).toBe(409);
});

test.each([
  [
    'a merge',
    async (client: TestCustomer, [id, ...merge_ids]: string[]) => client.post('/contacts/merge', { id, merge_ids }),
  ],
  [
    'an undo',
    async (client: TestCustomer) => {
      const { body } = await client.post('/changes/list', { paginate: { limit: 1 } });
      return client.post(`/changes/${body[0].change_id}/undo`, {});
    },
  ],
])('a call that is larger than its key may send can be %s', async (_what, call) => {
  const { customer, client, decide } = await limited({ records: 1 });
  const { body } = await createMany(customer, 2);
  const ids = body.data.results.map(({ id }: { id: string }) => id);
  const id = waiting(await call(client, ids));
  expect(await totalOf(client)).toBe(2);
  expect(await decide(id, true)).toMatchObject({ status: 200, body: { data: { status: 'approved' } } });
  expect((await client.get(`/approval/${id}`)).body.answer).not.toBeNull();
});

test('a call that is larger than its key may send reserves no credits before it is approved; then the key pays', async () => {
  const { client, decide } = await limited({ credits: 2 });
  expect((await verify(client, emails(2))).status).toBe(200);
  const id = waiting(await verify(client, emails(3)));
  expect((await creditsOf(client)).verification.reserved).toBe(2);
  expect((await client.get(`/approval/${id}`)).body).toMatchObject({ credits: 3, records: 3 });
  expect((await decide(id, true)).status).toBe(200);
  expect((await creditsOf(client)).verification.reserved).toBe(5);
  expect((await verify(client, { ...emails(3), dry_run: true })).status).toBe(200);
});

const send = (client: TestCustomer, id: string, file: string): Promise<Answer> =>
  client.call('PUT', `/imports/${id}/file`, file, { 'content-type': 'application/octet-stream' });
const upload = async (client: TestCustomer, file: string, more: object = {}): Promise<string> => {
  const { body } = await client.post('/imports', { object: 'contacts', mode: 'create', ...more });
  expect((await send(client, body.data.id, file)).status).toBe(200);
  return body.data.id;
};

test('a call that is larger than its key may send can be an import, of as many records as its file has lines or a dry run found', async () => {
  const { customer, client, decide } = await limited({ records: 2 });
  const file = contactsCsv(...contactLines(3));
  const small = await upload(client, contactsCsv(...contactLines(2)));
  expect((await client.get(`/imports/${small}`)).body.status).toBe('PENDING');
  await customer.post(`/imports/${small}/cancel`);
  const unread = await upload(client, file);
  expect((await client.get(`/imports/${unread}`)).body.status).toBe('UPLOADED');
  const unchecked = waiting(await client.post(`/imports/${unread}/start`, {}));
  expect((await client.get(`/approval/${unchecked}`)).body.records).toBe(3);
  const checked = await upload(client, file, { dry_run: true });
  await workAtAll(app, client);
  const id = waiting(await client.post(`/imports/${checked}/start`, { dry_run: false }));
  expect((await client.get(`/approval/${id}`)).body.records).toBe(3);
  expect(await totalOf(client)).toBe(0);
  expect((await decide(id, true)).status).toBe(200);
  await workAtAll(app, client);
  expect(await totalOf(client)).toBe(3);
});

test('a call that is larger than its key may send can be an import that another key has begun, or one from before the limit: its upload starts nothing', async () => {
  const { customer, client, set } = await limited({ records: 2 });
  const file = contactsCsv(...contactLines(3));
  const begin = async (by: TestCustomer) =>
    (await by.post('/imports', { object: 'contacts', mode: 'create' })).body.data.id as string;
  const ofOther = await begin(customer);
  await set({ approve_over: { records: null } });
  const before = await begin(client);
  await set({ approve_over: { records: 2 } });
  for (const id of [ofOther, before]) {
    expect((await send(client, id, file)).body.status).toBe('UPLOADED');
    waiting(await client.post(`/imports/${id}/start`, {}));
  }
});

test('a call that is larger than its key may send runs as it was asked: settings of an import whose start waits do not change, and its records are kept', async () => {
  const { customer, client, decide } = await limited({ records: 2 });
  const lines = contactLines(3);
  const [waits, checked] = [
    await upload(client, contactsCsv(...lines)),
    await upload(client, contactsCsv(...lines), { dry_run: true }),
  ];
  await workAtAll(app, client);
  waiting(await client.post(`/imports/${waits.toUpperCase()}/start`, {}));
  const approval = waiting(await client.post(`/imports/${checked}/start`, { dry_run: false }));
  for (const by of [client, customer])
    expect((await by.patch(`/imports/${waits}`, { mapping: { first_name: 'industry' } })).status).toBe(409);
  for (let i = 0; i < 4; i += 1) {
    await upload(customer, contactsCsv(...lines), { dry_run: true });
    await workAtAll(app, client);
  }
  await app.owner`update imports set rows_kept_until = now() - interval '1 hour' where id = ${checked}`;
  await sweepJobs(contextOf(app), {});
  expect((await client.get(`/imports/${waits}`)).body.status).toBe('UPLOADED');
  expect((await client.post(`/imports/${checked}/start`, { dry_run: true })).status).toBe(409);
  expect((await client.post(`/imports/${waits}/start`, { dry_run: true })).status).toBe(409);
  expect((await decide(approval, true)).status).toBe(200);
  await workAtAll(app, client);
  expect(await totalOf(client)).toBe(3);
});

test('a call that is larger than its key may send is shown with the stored names of its records, not those that it sends, and with items that are no records', async () => {
  const { client, customer } = await limited({ records: 1 });
  const ada = await make(customer, '/contacts', contactBody());
  const visitor = await visitorOf(app.fastify, client.id);
  const shown = async (operation: string, body: object) => {
    const id = waiting(await client.post(`/contacts/batch/${operation}`, body));
    return textOf(await visitor.get(`/app/approvals/${id}`));
  };
  const lie = { first_name: 'Somebody', last_name: 'Else' };
  const gone = randomUUID();
  expect(
    await shown('update', { items: [{ id: ada.toUpperCase(), ...lie }, null, { id: ['x'] }, { id: gone }] }),
  ).toContain('Records Ada Lovelace, not a record, id ["x"], deleted meanwhile');
  expect(await shown('delete', { match: 'external_id', purge: true, items: [{ external_id: 'a' }, 1, {}] })).toContain(
    'Records external id "a", not a record, external id missing For good their values leave the history',
  );
});

test('a call that is larger than its key may send never runs when it is refused, or after 72 hours', async () => {
  const { client, decide } = await limited({ records: 0 });
  const refused = waiting(await createMany(client, 1));
  expect(await decide(refused, false)).toMatchObject({ status: 200, body: { data: { status: 'refused' } } });
  const visitor = await visitorOf(app.fastify, client.id);
  expect(textOf(await visitor.get(`/app/approvals/${refused}`))).not.toContain('/api/');
  const late = waiting(await createMany(client, 1));
  // The id holds the time.
  const [{ id: lapsed }] = await app.owner<[{ id: string }]>`
    update approvals set id = uuidv7(interval '-73 hours') where id = ${late} returning id`;
  expect((await client.get(`/approval/${lapsed}`)).body.status).toBe('lapsed');
  for (const id of [refused, lapsed]) expect((await decide(id, true)).status).toBe(409);
  expect((await decide(lapsed, false)).status).toBe(409);
  expect(await totalOf(client)).toBe(0);
});

test('a call that is larger than its key may send waits on if it fails, or would be larger than asked for', async () => {
  const { customer, client, session, decide } = await limited({ records: 1 });
  const company = await make(customer, '/company', { company_name: unique('Grown'), type: 'Customer', industry: '' });
  const { body } = await createMany(customer, 2);
  const { body: changes } = await customer.post('/changes/list', { paginate: { limit: 1 } });
  const id = waiting(await client.post(`/changes/${changes[0].change_id}/undo`, {}));
  await client.delete(`/contacts/${body.data.results[0].id}`);
  await customer.delete(`/company/${company}`);
  const gone = waiting(
    await client.post('/contacts/merge', { id: body.data.results[0].id, merge_ids: [body.data.results[1].id] }),
  );
  expect(await decide(gone, true)).toMatchObject({
    status: 409,
    body: { message: expect.stringContaining('failed') },
  });
  expect((await client.get(`/approval/${gone}`)).body.status).toBe('pending');
  await app.owner`update approvals set records = 0 where customer_id = ${client.id} and id = ${id}`;
  expect(await decide(id, true)).toMatchObject({ status: 409, body: { message: expect.stringContaining('by now') } });
  await session.call('PATCH', `/api/api-key/revoke/${client.keyId}`);
  expect(await decide(id, true)).toMatchObject({
    status: 409,
    body: { message: expect.stringContaining('revoked') },
  });
});

test('a call that is larger than its key may send is seen by its key and by admins of its customer only', async () => {
  const { customer, client } = await limited({ records: 0 });
  const other = await limited({ records: 0 });
  const id = waiting(await createMany(client, 1));
  expect((await customer.get(`/approval/${id}`)).status).toBe(404);
  expect((await other.client.get(`/approval/${id}`)).status).toBe(404);
  expect((await other.decide(id, true)).status).toBe(404);
  expect((await other.session.call('GET', '/api/approval')).body).toEqual([]);
});

test('a call that is larger than its key may send is 409 when 100 calls wait already', async () => {
  const { client } = await limited({ records: 0 });
  const answers = await Promise.all(Array.from({ length: 101 }, () => createMany(client, 1)));
  expect(answers.filter(({ status }) => status === 202)).toHaveLength(100);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(1);
});

test('the size above which a key needs an approval can be given, changed and taken away', async () => {
  const { session, set, client } = await limited({ records: 5 });
  const shown = (await set({ approve_over: { credits: 10 } })).body.data.approve_over;
  expect(shown).toEqual({ records: 5, credits: 10 });
  expect((await set({ approve_over: { records: null } })).body.data.approve_over).toEqual({
    records: null,
    credits: 10,
  });
  expect((await set({})).body.data.approve_over).toEqual({ records: null, credits: 10 });
  const made = await session.call('POST', '/api/api-key/generate', {
    name: 'Agent',
    expiration: 7,
    approve_over: { credits: 1 },
  });
  expect(made).toMatchObject({ status: 201, body: { data: { approve_over: { credits: 1, records: null } } } });
  expect((await createMany(client, 6)).status).toBe(200);
});
