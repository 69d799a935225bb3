import { beforeEach, expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody } from '../setup/factories.ts';
let contact: string;
let company: string;

const app = await startApp();

const customer = customerOfEachTest(app);
beforeEach(async () => {
  company = await make(customer, '/company', companyBody());
  contact = await make(customer, '/contacts', contactBody({ company: { id: company } }));
});

const note = (more: object = {}): Promise<string> =>
  make(customer, '/activities', { body: 'Wants a second engine', contact_id: contact, ...more });
const task = (more: object = {}): Promise<string> => note({ type: 'task', title: 'Call back', ...more });
const read = async (id: string) => (await customer.get(`/activities/${id}`)).body;
const deal = async (more: object = {}): Promise<string> =>
  make(customer, '/opportunities', await opportunityBody(customer, more));

/** Returns the ids of the activities that a filter finds, and checks that they are counted so. */
async function found(filters: object, more: object = {}): Promise<string[]> {
  const { status, body } = await customer.post('/activities/list', { filters, ...more });
  expect(status, JSON.stringify(body)).toBe(200);
  const { pagination } = (await customer.post('/activities/metadata', { filters })).body;
  expect(pagination.total_records).toBe(body.length);
  return body.map(({ id }: { id: string }) => id);
}

test('an activity is a note of now by the key that made it, with its texts as they were given', async () => {
  const id = await note({ body: ' one\n two ' });
  const activity = await read(id);
  const by = { type: 'key', id: customer.keyId };
  expect(activity).toMatchObject({ type: 'note', title: '', body: ' one\n two ', created_by: by, done_at: null });
  expect(Math.abs(Date.parse(activity.occurred_at) - Date.parse(activity.created_at))).toBeLessThan(1_000);
});

test.each([
  ['no text', { body: '', title: '' }, '/title'],
  ['no reference', { contact_id: null }, '/contact_id'],
  ['a due time that is no task', { due_at: '2030-01-01T00:00:00Z' }, '/due_at'],
  ['a done time that is no task', { type: 'call', done_at: '2030-01-01T00:00:00Z' }, '/done_at'],
])('an activity with %s is 400, on a PATCH too', async (_name, fault, path) => {
  const answer = await customer.post('/activities', { body: 'Hello', contact_id: contact, ...fault });
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
  const id = await note({ external_id: 'n-1' });
  const before = await read(id);
  const patch = await customer.patch(`/activities/${id}`, fault);
  expect([patch.status, patch.body.errors[0].path]).toEqual([400, path]);
  expect(await read(id)).toEqual(before);
});

test('a change to another type takes the times of a task away', async () => {
  const id = await task({ due_at: '2030-01-01T00:00:00Z', done_at: '2029-12-01T00:00:00Z' });
  await customer.patch(`/activities/${id}`, { type: 'call' });
  expect(await read(id)).toMatchObject({ type: 'call', due_at: null, done_at: null });
});

test('the list of activities only tasks match is_done and is_overdue, whichever their value', async () => {
  await note();
  const open = await task();
  const late = await task({ due_at: '2020-01-01T00:00:00Z' });
  const later = await task({ due_at: '2100-01-01T00:00:00Z' });
  const done = await task({ due_at: '2020-01-01T00:00:00Z', done_at: '2020-01-02T00:00:00Z' });
  expect(await found({ is_done: true })).toEqual([done]);
  expect(await found({ is_done: false })).toEqual([later, late, open]);
  expect(await found({ is_overdue: true })).toEqual([late]);
  expect(await found({ is_overdue: false })).toEqual([done, later, open]);
  expect(await found({ is_done: [true, false] })).toHaveLength(4);
  expect(await found({ is_done: [] })).toEqual([]);
  expect(await found({ is_done: { ne: true } })).toHaveLength(4);
  expect(await found({ is_done: null })).toHaveLength(1);
  expect(await found({ is_done: false }, { order_by: { due_at: 'ASC' } })).toEqual([late, later, open]);
  const wrong = await customer.post('/activities/list', { filters: { is_done: 'no' }, order_by: { is_done: 'ASC' } });
  expect(wrong.body.errors.map(({ path }: { path: string }) => path)).toEqual([
    '/filters/is_done',
    '/order_by/is_done',
  ]);
});

test('the list of activities company_or_its_contacts finds those of a company and of its contacts, while the company exists', async () => {
  const ofContact = await note();
  const ofCompany = await note({ contact_id: null, company_id: company });
  const other = await make(customer, '/company', companyBody());
  const ofOther = await note({ contact_id: null, company_id: other });
  await note({ contact_id: await make(customer, '/contacts', contactBody()) });
  expect(await found({ company_or_its_contacts: company.toUpperCase() })).toEqual([ofCompany, ofContact]);
  expect(await found({ company_or_its_contacts: [company, other] })).toEqual([ofOther, ofCompany, ofContact]);
  await customer.delete(`/company/${company}`);
  expect(await found({ company_or_its_contacts: company })).toEqual([]);
  const wrong = await customer.post('/activities/list', { filters: { company_or_its_contacts: null } });
  expect([wrong.status, wrong.body.errors[0].path]).toEqual([400, '/filters/company_or_its_contacts']);
});

test('a deleted contact, company or opportunity takes its activities with it where they have no other reference', async () => {
  const opportunity = await deal();
  const records = [
    ['contacts', 'contact_id', contact],
    ['company', 'company_id', company],
    ['opportunities', 'opportunity_id', opportunity],
  ] as const;
  const all = await note({ contact_id: contact, company_id: company, opportunity_id: opportunity, external_id: 'all' });
  const left: [unknown, object][] = [];
  for (const [path, name, id] of records) {
    const alone = await note({ contact_id: null, [name]: id, external_id: name });
    const before = await read(all);
    await customer.delete(`/${path}/${id}`);
    expect((await customer.get(`/activities/${alone}`)).status).toBe(404);
    expect((await customer.patch(`/activities/${alone}`, { title: 'New' })).status).toBe(404);
    left.push([await read(all), { ...before, [name]: null }]);
  }
  const [one, other] = left;
  expect([one![0], other![0]]).toEqual([one![1], other![1]]);
  expect(await found({})).toEqual([]);
  const types = (await customer.post('/events/list', { types: ['activity.updated', 'activity.deleted'] })).body;
  expect(types).toEqual([]);
  await note({ contact_id: await make(customer, '/contacts', contactBody()), external_id: 'all' });
});

test.each([
  ['/contacts', 'contact_id', () => make(customer, '/contacts', contactBody())],
  ['/company', 'company_id', () => make(customer, '/company', companyBody())],
] as const)('a merge of %s moves the activities, and tells each', async (path, name, another) => {
  const [kept, merged] = [await another(), await another()];
  const none = { contact_id: null, [name]: merged };
  const [first, second] = [await note({ ...none, external_id: 'n-1' }), await task(none)];
  const { updated_at } = await read(first);
  expect((await customer.post(`${path}/merge`, { id: kept, merge_ids: [merged] })).status).toBe(200);
  const after = await read(first);
  expect(after).toMatchObject({ [name]: kept });
  expect(after.updated_at > updated_at).toBe(true);
  expect(await found({ [name]: kept })).toEqual([second, first]);
  const { body } = await customer.post('/events/list', { types: ['activity.updated', 'activity.deleted'] });
  expect(
    body.map(({ data }: { data: Record<string, unknown> }) => [data['id'], data['external_id'], data['changed']]),
  ).toEqual([
    [first, 'n-1', [name]],
    [second, null, [name]],
  ]);
});

test('a merge of more than 5,000 activities is refused', async () => {
  const other = await make(customer, '/contacts', contactBody());
  await note();
  await app.owner`
      insert into activities (customer_id, type, title, body, contact_id, occurred_at, created_by, folded)
      select customer_id, type, title, body, contact_id, occurred_at, created_by, folded
      from activities, generate_series(1, 5000)
      where customer_id = ${customer.id}`;
  const answer = await customer.post('/contacts/merge', { id: other, merge_ids: [contact] });
  expect([answer.status, answer.body.errors[0].message]).toEqual([409, 'have more than 5000 activities']);
  expect((await customer.post('/contacts/merge', { id: contact, merge_ids: [other] })).status).toBe(200);
});

test.each<[string, (note: string) => string[]]>([
  ['that is deleted already', () => [`/contacts/${contact}`]],
  ['whose activity was deleted before', (id) => [`/activities/${id}`]],
  ['whose activity was deleted after it', (id) => [`/contacts/${contact}`, `/activities/${id}`]],
])('a purge of a contact %s leaves nothing of its activities', async (_what, deletedBefore) => {
  const id = await note({ body: 'Geheimnis', company_id: company });
  await note();
  for (const path of deletedBefore(id)) await customer.delete(path);
  await customer.call('DELETE', `/contacts/${contact}?purge=true`);
  expect(await app.owner`select from activities where customer_id = ${customer.id}`).toHaveLength(0);
  const { body } = await customer.post('/changes/list', { filters: { record_id: id } });
  expect(JSON.stringify(body)).not.toContain('Geheimnis');
});

test('last_activity_at of a contact and a company is that of their own activities, not in the future', async () => {
  const last = async () => [
    (await customer.get(`/contacts/${contact}`)).body.last_activity_at,
    (await customer.get(`/company/${company}`)).body.last_activity_at,
  ];
  expect(await last()).toEqual([null, null]);
  await note({ occurred_at: '2020-01-01T00:00:00Z' });
  const id = await note({ occurred_at: '2021-01-01T00:00:00Z' });
  await note({ occurred_at: '2100-01-01T00:00:00Z', company_id: company });
  expect(await last()).toEqual(['2021-01-01T00:00:00.000Z', null]);
  await customer.patch(`/activities/${id}`, { company_id: company });
  expect(await last()).toEqual(['2021-01-01T00:00:00.000Z', '2021-01-01T00:00:00.000Z']);
  const read = await customer.post('/company/batch/read', { items: [{ id: company }] });
  expect(read.body.data.results[0].record.last_activity_at).toBe('2021-01-01T00:00:00.000Z');
  await customer.delete(`/activities/${id}`);
  expect(await last()).toEqual(['2020-01-01T00:00:00.000Z', null]);
});
