import { describe, expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { contactBody, make, opportunityBody, productBody, type Answer } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const list = (filters: object = {}, paginate: object = {}, by = customer): Promise<Answer> =>
  by.post('/changes/list', { filters, paginate });
const historyOf = async (id: string) => (await list({ record_id: id })).body;

describe('the header x-change-id of a write', () => {
  test('names the change that its events have, and that can be undone', async () => {
    const items = [contactBody(), contactBody()];
    const created = await customer.post('/contacts/batch/create', { items });
    const id = String(created.headers['x-change-id']);
    const events = (await list({ change_id: id })).body;
    expect(events.map(({ type }: { type: string }) => type)).toEqual(['created', 'created']);
    const { body } = await customer.post(`/changes/${id}/undo`, { dry_run: true });
    expect(body).toMatchObject({ records: 2, restored: 2 });
  });
});

describe('the history of a record', () => {
  test('shows each change with the values before and after, newest first', async () => {
    const company = await make(customer, '/company', { type: 'customer', company_name: 'Acme' });
    const id = await make(
      customer,
      '/contacts',
      contactBody({ job_title: 'Clerk', company: { id: company }, custom_fields: { plan: 'gold', seats: 3 } }),
    );
    const { work_email } = contactBody();
    await customer.patch(`/contacts/${id}`, { job_title: 'Countess', custom_fields: { plan: null, vip: true } });
    await customer.patch(`/contacts/${id}`, { job_title: 'Queen', company: null });
    await customer.delete(`/contacts/${id}`);
    const shown = await list({ record_id: id });
    expect(shown.status).toBe(200);
    const actor = { type: 'key', id: expect.any(String) };
    const told = { object: 'contact', record_id: id, source: 'api', actor, occurred_at: expect.any(String) };
    const types = ['deleted', 'updated', 'updated', 'created'];
    expect(shown.body).toMatchObject(types.map((type) => ({ ...told, type })));
    const [deleted, second, first, created] = shown.body.map(({ fields }: { fields: object }) => fields);
    expect(created).toMatchObject({
      work_email: [null, work_email],
      job_title: [null, 'Clerk'],
      company: [null, company],
      'custom_fields.plan': [null, 'gold'],
      'custom_fields.seats': [null, 3],
    });
    expect(created).not.toHaveProperty(['custom_fields.vip']);
    expect(first).toEqual({
      job_title: ['Clerk', 'Countess'],
      'custom_fields.plan': ['gold', null],
      'custom_fields.vip': [null, true],
    });
    expect(second).toEqual({ job_title: ['Countess', 'Queen'], company: [company, null] });
    expect(deleted).toMatchObject({
      work_email: [work_email, null],
      job_title: ['Queen', null],
      'custom_fields.vip': [true, null],
      'custom_fields.seats': [3, null],
    });
    expect(deleted).not.toHaveProperty('company');
    expect(new Set(shown.body.map(({ change_id }: { change_id: string }) => change_id)).size).toBe(4);
  });

  test('keeps the links and lines of an opportunity that was deleted, and the members of a list', async () => {
    const product = await make(customer, '/products', productBody());
    const contact = await make(customer, '/contacts', contactBody());
    const body = await opportunityBody(customer, {
      name: 'Deal',
      products: [{ id: product, price: 2, quantity: 3 }],
      contacts_ids: [contact],
    });
    const deal = await make(customer, '/opportunities', body);
    await customer.delete(`/opportunities/${deal}`);
    const [deleted, created] = await historyOf(deal);
    for (const [row, at] of [
      [deleted, 0],
      [created, 1],
    ]) {
      expect(row.fields.name[at]).toBe('Deal');
      expect(row.fields.contacts_ids[at]).toEqual([contact]);
      expect(row.fields.details[at]).toMatchObject([{ product_id: product, price: 2, quantity: 3 }]);
    }
    const listId = (await customer.post('/list-contact', { name: 'Mail' })).body.id;
    await customer.delete(`/list-contact/${listId}`);
    expect(await historyOf(listId)).toMatchObject([{ fields: { name: ['Mail', null] } }, { type: 'created' }]);
  });

  test('tells of a merge where the record went', async () => {
    const kept = await make(customer, '/contacts', contactBody({ job_title: '' }));
    const gone = await make(customer, '/contacts', contactBody({ job_title: 'Clerk' }));
    await customer.post('/contacts/merge', { id: kept, merge_ids: [gone] });
    const [deleted] = await historyOf(gone);
    expect(deleted).toMatchObject({ type: 'deleted', merged_into: kept, fields: { job_title: ['Clerk', null] } });
    const [updated] = await historyOf(kept);
    expect(updated).toMatchObject({ type: 'updated', fields: { job_title: ['', 'Clerk'] } });
    expect(updated.change_id).toBe(deleted.change_id);
    expect((await customer.get(`/changes/${deleted.change_id}`)).body.counts).toEqual({
      contact: { created: 0, updated: 1, deleted: 1 },
    });
  });
});

describe('the list of changes', () => {
  test('selects by object, change, actor, source and time', async () => {
    const contact = await make(customer, '/contacts', contactBody());
    const [{ change_id, actor, occurred_at }] = await historyOf(contact);
    const product = await make(customer, '/products', productBody());
    const idsBy = async (filters: object) =>
      (await list(filters)).body.map(({ record_id }: { record_id: string }) => record_id);
    expect(await idsBy({})).toEqual([product, contact]);
    expect(await idsBy({ object: 'contact' })).toEqual([contact]);
    expect(await idsBy({ change_id: change_id.toUpperCase() })).toEqual([contact]);
    expect(await idsBy({ actor_id: actor.id.toUpperCase() })).toEqual([product, contact]);
    expect(await idsBy({ actor_id: product })).toEqual([]);
    expect(await idsBy({ source: 'api' })).toHaveLength(2);
    expect(await idsBy({ source: 'import' })).toEqual([]);
    expect(await idsBy({ until: occurred_at })).toEqual([]);
    expect(await idsBy({ since: occurred_at })).toEqual([product, contact]);
    const later = new Date(Date.parse(occurred_at) + 3_600_000).toISOString();
    expect(await idsBy({ since: later })).toEqual([]);
    expect(await idsBy({ until: later })).toHaveLength(2);
  });

  test('has pages, and its cursors belong to the customer', async () => {
    const items = Array.from({ length: 5 }, () => contactBody());
    await customer.post('/contacts/batch/create', { items });
    const first = await list({}, { limit: 2 });
    const cursor = first.headers['x-next-cursor'];
    const rest = await list({}, { limit: 10, cursor });
    expect([...first.body, ...rest.body]).toEqual((await list()).body);
    expect([first.body.length, rest.body.length]).toEqual([2, 3]);
    const fault = { status: 400, body: { errors: [{ path: '/paginate/cursor' }] } };
    expect(await list({}, { cursor }, await app.customer())).toMatchObject(fault);
  });

  test('is for the records that the key may read', async () => {
    const contact = await make(customer, '/contacts', contactBody());
    await make(customer, '/products', productBody());
    const [{ change_id }] = await historyOf(contact);
    const products = await customer.withScopes(['products:read']);
    expect((await list({}, {}, products)).body).toMatchObject([{ object: 'product' }]);
    expect((await list({ object: 'contact' }, {}, products)).status).toBe(403);
    expect((await products.get(`/changes/${change_id}`)).status).toBe(404);
    expect((await list({}, {}, await customer.withScopes(['customer:read']))).status).toBe(403);
    const other = await app.customer();
    expect((await list({}, {}, other)).body).toEqual([]);
    expect((await other.get(`/changes/${change_id}`)).status).toBe(404);
  });
});

test('a change is summed up by its id: of an import or job, its own', async () => {
  const items = Array.from({ length: 3 }, () => contactBody({ company: { name: 'New' } }));
  const { body } = await customer.post('/contacts/batch/create', { items });
  const [{ change_id, source, actor }] = await historyOf(body.data.results[0].id);
  const change = await customer.get(`/changes/${change_id}`);
  expect(change.body).toEqual({
    id: change_id,
    source,
    actor,
    occurred_at: expect.any(String),
    undone_by: [],
    undoable: true,
    counts: {
      contact: { created: 3, updated: 0, deleted: 0 },
      company: { created: 1, updated: 0, deleted: 0 },
    },
  });
  expect((await customer.get('/changes/0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b')).status).toBe(404);
});
