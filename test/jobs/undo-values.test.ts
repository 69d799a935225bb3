import { describe, expect, test } from 'vitest';
import { jobBatches } from '../../src/jobs/workers.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { ruleLimits } from '../../src/schemas/lists.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, grant, make, opportunityBody, productBody, unique } from '../setup/factories.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { startNameServer } from '../setup/name-server.ts';
import { importFile } from './importing.ts';
import { ended } from './spending.ts';
import { undoing } from './undoing.ts';
import { startVerify } from './verifying.ts';
import { contextOf, workAtUndos } from './working.ts';

const names = await startNameServer();

const app = await startApp({ VERIFY_DNS_SERVERS: names.address });
await app.catalog.prepare();
const { customer, undo, estimate, newestChange, changeOf } = undoing(app);

/** The newest change of a record, as the history shows it. */
const newestOf = async (record_id: string) =>
  (await customer.post('/changes/list', { filters: { record_id }, paginate: { limit: 1 } })).body[0];

/** A record without the time of its last write, and without what only the service sees. */
async function read(path: string) {
  const { status, body } = await customer.get(path);
  expect(status, JSON.stringify(body)).toBe(200);
  const { updated_at: _at, ...record } = body;
  return record;
}

describe('the undo of a job that writes contacts', () => {
  const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT/) as string;
  const prospectOf = async (id: string) =>
    (await app.owner`select prospect_id, last_verified from contacts where id = ${id}`)[0];

  async function work(queue: 'unlock' | 'verify', job: string): Promise<void> {
    await takeTurn(queue, jobBatches)(contextOf(app), { customerId: customer.id });
    expect(await ended(customer, job)).toMatchObject({ status: 'COMPLETED', succeeded: 1 });
  }

  async function verify(id: string, email: string): Promise<string> {
    const job = await startVerify(customer, [{ email, contact_id: id }], true);
    await work('verify', job);
    return job;
  }

  async function unlock(id: string, email: string): Promise<string> {
    const one = person({ last_name: unique('Name'), work_email: email, emails: [] });
    await writePeople(app.catalog, [one]);
    const { body } = await customer.post('/service-handler/unlock-selected-contacts', {
      ids: [one._id],
      sync_crm: true,
    });
    await work('unlock', body.id);
    return id && body.id;
  }

  async function enrich(id: string, email: string): Promise<string> {
    await writePeople(app.catalog, [person({ last_name: unique('Name'), work_email: email, emails: [] })]);
    const { body } = await customer.post('/service-handler/enrich-contacts', { contact_ids: [id], max_credits: 5 });
    await work('unlock', body.id);
    return body.id;
  }

  test.each([
    ['verification', verify],
    ['unlock', unlock],
    ['enrichment', enrich],
  ])('restores all fields, and the import of the contact can be undone then: %s', async (_kind, act) => {
    await grant(app.fastify, customer.id, 'subscription', 10);
    await grant(app.fastify, customer.id, 'verification', 10);
    const email = `${unique('ada')}@${names.name({ mx: [[1, 'mail.test']] })}`;
    const settings = { object: 'contacts', mode: 'create', format: 'csv' };
    const made = await importFile(app, customer, settings, `last_name,work_email\nLovelace,${email}\n`);
    const [{ id }] = (await customer.post('/contacts/list', {})).body;
    const [before, prospect] = [await read(`/contacts/${id}`), await prospectOf(id)];
    const job = await act(id, email);
    const { crm_synced_at } = await read(`/contacts/${id}`);
    expect((await newestOf(id)).fields).toMatchObject({
      last_verified: [null, instant],
      crm_synced_at: [null, crm_synced_at],
    });
    const { results } = await undo(job);
    expect(results.find(({ item }) => item === id)).toMatchObject({
      status: 'succeeded',
      reason: null,
      result: { restored: expect.arrayContaining(['verification_status', 'last_verified', 'crm_synced_at']), kept: [] },
    });
    expect(await read(`/contacts/${id}`)).toEqual(before);
    expect(await prospectOf(id)).toEqual(prospect);
    expect((await undo(made.id)).results).toMatchObject([{ item: id, status: 'succeeded' }]);
  });

  test.each([
    ['unlock', unlock],
    ['enrichment', enrich],
  ])('gives a contact back to its deleted company, which another one has replaced: %s', async (_kind, act) => {
    await grant(app.fastify, customer.id, 'subscription', 10);
    const company = await make(customer, '/company', companyBody());
    const work_email = `${unique('ada')}@mail.test`;
    const id = await make(customer, '/contacts', contactBody({ work_email, company: { id: company } }));
    const deletion = await changeOf(customer.delete(`/company/${company}`));
    const job = await act(id, work_email);
    expect((await read(`/contacts/${id}`)).company.id).not.toBeNull();
    await undo(job);
    await undo(deletion);
    expect((await read(`/contacts/${id}`)).company.id).toBe(company);
  });
});

describe('a custom key that one change writes twice', () => {
  const settings = { object: 'contacts', mode: 'upsert', match: 'external_id', format: 'ndjson' };
  const line = (k: unknown) => JSON.stringify({ external_id: 'x', custom_fields: { k } });

  test.each([
    ['is gone again, if it was absent', {}, [1, 2]],
    ['has its value again, if it was removed at last', { k: 0 }, [1, null]],
    ['is as before, if it was removed and added', { k: 0, other: 1 }, [null, 1]],
    ['is as before, if it was added and removed', { other: 1 }, [1, null]],
  ])('%s', async (_name, custom_fields, values) => {
    const id = await make(customer, '/contacts', contactBody({ external_id: 'x', custom_fields }));
    const { id: change, updated } = await importFile(app, customer, settings, values.map(line).join('\n'));
    expect(updated).toBe(2);
    const { results } = await undo(change);
    expect((await read(`/contacts/${id}`)).custom_fields).toEqual(custom_fields);
    expect(results).toMatchObject([{ reason: null, result: { kept: [] } }]);
  });
});

describe('what follows from other members', () => {
  const rules = (value: string) => [{ field: 'job_title', operator: 'contains', value, logic_operator: 'AND' }];

  test('is not restored of a list whose rules were written since', async () => {
    const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
    const change = await changeOf(customer.patch(`/list-contact/${list}`, { rules: rules('a') }));
    await customer.patch(`/list-contact/${list}`, { rules: rules('b') });
    const { body: before } = await customer.get(`/list-contact/${list}`);
    expect((await undo(change)).results).toMatchObject([
      { status: 'skipped', reason: 'changed_since', result: { restored: [], kept: [{ field: 'rules' }] } },
    ]);
    expect((await customer.get(`/list-contact/${list}`)).body).toEqual(before);
    const { body: events } = await customer.post('/events/list', { types: ['list.updated'] });
    expect(events).toHaveLength(2);
  });

  test('is told with the rules of a list that get their value from before', async () => {
    const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
    const change = await changeOf(customer.patch(`/list-contact/${list}`, { rules: rules('a') }));
    expect((await undo(change)).results).toMatchObject([{ status: 'succeeded', result: { restored: ['rules'] } }]);
    expect(await newestOf(list)).toMatchObject({ fields: { source: ['RULES', 'MANUAL'], rules: [rules('a'), []] } });
  });

  test('does not keep the lines of an opportunity: neither its price nor the name of a product', async () => {
    const product = await make(customer, '/products', productBody({ name: 'Chair' }));
    const body = await opportunityBody(customer, { products: [{ id: product, price: 4, quantity: 2 }] });
    const id = await make(customer, '/opportunities', body);
    const creation = await newestChange();
    const change = await changeOf(
      customer.patch(`/opportunities/${id}`, { products: { update: [{ id: product, quantity: 5 }] } }),
    );
    await customer.patch(`/products/${product}`, { name: 'Stool' });
    expect((await undo(change)).results).toMatchObject([
      { status: 'succeeded', reason: null, result: { restored: ['details'], kept: [] } },
    ]);
    expect(await read(`/opportunities/${id}`)).toMatchObject({ price: 8, details: [{ name: 'Stool', quantity: 2 }] });
    expect((await undo(creation)).results).toMatchObject([{ status: 'succeeded' }]);
  });
});

describe('an estimate', () => {
  test('counts as conflicts only external ids that another record of the same kind has', async () => {
    const company = { type: 'customer', company_name: 'Acme', external_id: 'x' };
    const id = await make(customer, '/contacts', contactBody({ external_id: 'x' }));
    const deletion = await changeOf(customer.delete(`/contacts/${id}`));
    const other = await make(customer, '/company', company);
    expect(await estimate(deletion)).toMatchObject({ restored: 1, conflicts: 0 });
    const ofCompany = await changeOf(customer.delete(`/company/${other}`));
    await undo(deletion);
    expect(await estimate(deletion)).toMatchObject({ restored: 0, conflicts: 0 });
    expect(await estimate(ofCompany)).toMatchObject({ restored: 1, conflicts: 0 });
    await make(customer, '/company', company);
    expect(await estimate(ofCompany)).toMatchObject({ restored: 1, conflicts: 1 });
  });
});

test('the history shows the company of an opportunity that was created or deleted', async () => {
  const company = await make(customer, '/company', { type: 'customer', company_name: 'Acme' });
  const body = await opportunityBody(customer, { company_id: company });
  const id = await make(customer, '/opportunities', body);
  expect((await newestOf(id)).fields).toMatchObject({ company: [null, company] });
  await customer.delete(`/opportunities/${id}`);
  expect((await newestOf(id)).fields).toMatchObject({ company: [company, null] });
});

describe('of lists with rules, an undo', () => {
  const rules = [{ field: 'job_title', operator: 'contains', value: 'a' }];
  const fill = (lists: number) => app.owner`
    insert into lists (customer_id, name, owner_id, rules)
    select ${customer.id}, 'Full', ${customer.adminId}, ${app.owner.json(rules)}
    from generate_series(1, ${lists}::integer)`;

  test('makes none more than a customer may have', async () => {
    const one = (await customer.post('/list-contact', { name: 'One', rules })).body.id;
    const two = (await customer.post('/list-contact', { name: 'Two', rules })).body.id;
    const plain = (await customer.post('/list-contact', { name: 'Plain' })).body.id;
    const deletion = await changeOf(customer.delete(`/list-contact/${one}`));
    const ofPlain = await changeOf(customer.delete(`/list-contact/${plain}`));
    const update = await changeOf(customer.patch(`/list-contact/${two}`, { name: 'Second', rules: [] }));
    await fill(ruleLimits.lists);
    expect((await undo(ofPlain)).results).toMatchObject([{ item: plain, status: 'succeeded', reason: null }]);
    expect((await undo(deletion)).results).toMatchObject([{ item: one, status: 'failed', reason: 'taken' }]);
    expect((await customer.get(`/list-contact/${one}`)).status).toBe(404);
    expect((await undo(update)).results).toMatchObject([
      { item: two, status: 'succeeded', reason: 'taken', result: { restored: ['name'], kept: [{ field: 'rules' }] } },
    ]);
    expect(await read(`/list-contact/${two}`)).toMatchObject({ name: 'Two', rules: [] });
    await app.owner`delete from lists where customer_id = ${customer.id} and name = 'Full'`;
    for (const change of [deletion, update])
      expect((await undo(change)).results).toMatchObject([{ status: 'succeeded', reason: null }]);
    for (const id of [one, two]) expect((await read(`/list-contact/${id}`)).rules).toMatchObject(rules);
  });
});

test.each([
  ['/contacts', (company: string) => contactBody({ company: { id: company } })],
  ['/opportunities', (company: string) => opportunityBody(customer, { company_id: company })],
] as const)(
  'what is restored before its company belongs to the company again when that is restored: %s',
  async (path, body) => {
    const company = await make(customer, '/company', companyBody());
    const id = await make(customer, path, await body(company));
    const companyOf = async () => {
      const { body: record } = await customer.get(`${path}/${id}`);
      return path === '/contacts' ? record.company.id : record.company_id;
    };
    const first = await changeOf(customer.delete(`/company/${company}`));
    const second = await changeOf(customer.delete(`${path}/${id}`));
    await undo(second);
    expect(await companyOf()).toBeNull();
    await undo(first);
    expect(await companyOf()).toBe(company);
  },
);

test.each([
  ['in reverse order', (deletion: string, change: string) => [change, deletion]],
  ['in order', (deletion: string, change: string) => [deletion, change]],
])('a contact belongs to its deleted company again after another one was undone %s', async (_, orderOf) => {
  const [company, other] = [
    await make(customer, '/company', companyBody()),
    await make(customer, '/company', companyBody()),
  ];
  const id = await make(customer, '/contacts', contactBody({ company: { id: company } }));
  const deletion = await changeOf(customer.delete(`/company/${company}`));
  const change = await changeOf(customer.patch(`/contacts/${id}`, { company: { id: other } }));
  expect((await customer.post('/changes/list', { filters: { change_id: change } })).body[0].fields).toEqual({
    company: [null, other],
  });
  for (const one of orderOf(deletion, change))
    expect((await undo(one)).results).toMatchObject([{ status: 'succeeded', reason: null }]);
  expect((await read(`/contacts/${id}`)).company.id).toBe(company);
});

test('an undo of an opportunity keeps only the fields that refer to what is gone', async () => {
  const company = (company_name: string) => make(customer, '/company', { type: 'customer', company_name });
  const [old, present] = [await company('Old'), await company('Present')];
  const id = await make(customer, '/opportunities', await opportunityBody(customer, { company_id: old }));
  const change = await changeOf(customer.patch(`/opportunities/${id}`, { name: 'Renamed', company_id: present }));
  await customer.delete(`/company/${old}`);
  expect((await undo(change)).results).toMatchObject([
    { status: 'succeeded', reason: 'gone', result: { restored: ['name'], kept: [{ field: 'company' }] } },
  ]);
  expect(await read(`/opportunities/${id}`)).toMatchObject({ name: 'Deal', company_id: present });
});

test('an undo of an opportunity waits for its contacts before it locks the opportunity, as deletions do', async () => {
  const contact = await make(customer, '/contacts', contactBody());
  const id = await make(customer, '/opportunities', await opportunityBody(customer, { contacts_ids: [contact] }));
  const change = await changeOf(customer.patch(`/opportunities/${id}`, { name: 'Renamed', contacts_ids: [] }));
  await customer.post(`/changes/${change}/undo`, {});
  let working: Promise<void> | undefined;
  await app.owner.begin(async (sql) => {
    await sql`select from contacts where customer_id = ${customer.id} and id = ${contact} for update`;
    working = workAtUndos(app, customer);
    await somebodyWaitsFor(sql, app.owner);
    await sql`select from opportunities where customer_id = ${customer.id} and id = ${id} for no key update nowait`;
  });
  await working;
  expect(await read(`/opportunities/${id}`)).toMatchObject({ name: 'Deal', contacts_ids: [contact] });
});

test('an undo says that it leaves out lines whose products are gone', async () => {
  const [gone, present] = [
    await make(customer, '/products', productBody()),
    await make(customer, '/products', productBody()),
  ];
  const products = [gone, present].map((product) => ({ id: product, price: 4, quantity: 2 }));
  const id = await make(customer, '/opportunities', await opportunityBody(customer, { products }));
  const deletion = await changeOf(customer.delete(`/opportunities/${id}`));
  await customer.delete(`/products/${gone}`);
  expect((await undo(deletion)).results).toMatchObject([
    { status: 'succeeded', reason: 'gone', result: { restored: [], kept: [{ field: 'details' }] } },
  ]);
  expect(await read(`/opportunities/${id}`)).toMatchObject({ price: 8, details: [{ product_id: present }] });
});

describe('an undo keeps a record with an activity that others have changed since', () => {
  test.each([
    ['contacts', 'work_email,note\nada@example.com,Met', '/contacts'],
    ['companies', 'company_name,note\nEngines,Met', '/company'],
  ])('of an import: %s', async (object, csv, path) => {
    const { id: change } = await importFile(app, customer, { object, mode: 'create', format: 'csv' }, csv);
    const [note] = (await customer.post('/activities/list', {})).body;
    await customer.patch(`/activities/${note.id}`, { body: 'Met again' });
    const [record] = (await customer.post(`${path}/list`, {})).body;
    expect((await undo(change)).results).toMatchObject([
      { item: note.id, status: 'skipped', reason: 'changed_since' },
      { item: record.id, status: 'skipped', reason: 'in_use' },
    ]);
    await read(`${path}/${record.id}`);
    expect(await read(`/activities/${note.id}`)).toMatchObject({ body: 'Met again' });
  });

  test.each([
    ['/contacts', 'contact_id', async () => contactBody()],
    ['/company', 'company_id', async () => ({ type: 'customer', company_name: 'Acme' })],
    ['/opportunities', 'opportunity_id', () => opportunityBody(customer)],
  ])('of an undo, until that change is undone: %s', async (path, member, body) => {
    const id = await make(customer, path, await body());
    const task = await make(customer, '/activities', { type: 'task', title: 'Call', [member]: id });
    const { id: restoring } = await undo(await changeOf(customer.delete(`${path}/${id}`)));
    const update = await changeOf(customer.patch(`/activities/${task}`, { title: 'Write' }));
    expect((await undo(restoring)).results).toMatchObject([{ item: id, status: 'skipped', reason: 'in_use' }]);
    expect(await read(`/activities/${task}`)).toMatchObject({ title: 'Write', [member]: id });
    await undo(update);
    expect((await undo(restoring)).results).toMatchObject([{ item: id, status: 'succeeded' }]);
  });
});

describe('an undo gives external ids back that the change has moved', () => {
  const externalIds = (path: string, ids: string[]) =>
    Promise.all(ids.map(async (id) => (await read(`${path}/${id}`)).external_id));

  test.each([
    ['of two products', 'products', (external_id: string) => productBody({ external_id }), ['A,\\N', 'B,X', 'A,Y']],
    ['to another product', 'products', (external_id: string) => productBody({ external_id }), ['B,Z', 'A,\\N', 'B,X']],
    ['of two opportunities', 'opportunities', dealBody, ['A,\\N', 'B,X', 'A,Y']],
    ['to another opportunity', 'opportunities', dealBody, ['B,Z', 'A,\\N', 'B,X']],
  ])('%s', async (_name, object, body, lines) => {
    const path = `/${object}`;
    const [a, b] = [await make(customer, path, await body('X')), await make(customer, path, await body('Y'))];
    const csv = `id,external_id\n${lines.join('\n').replaceAll('A,', `${a},`).replaceAll('B,', `${b},`)}\n`;
    const { id: change } = await importFile(app, customer, { object, mode: 'update', match: 'id', format: 'csv' }, csv);
    const moved = await externalIds(path, [a, b]);
    expect(moved[1]).toBe('X');
    const { id, results } = await undo(change);
    expect(results).toMatchObject([{ status: 'succeeded' }, { status: 'succeeded' }]);
    expect(await externalIds(path, [a, b])).toEqual(['X', 'Y']);
    expect((await newestOf(b)).fields).toMatchObject({ external_id: ['X', 'Y'] });
    await undo(id);
    expect(await externalIds(path, [a, b])).toEqual(moved);
  });

  test('by a record whose other fields are kept, but not one that a third record has by now', async () => {
    const company = (company_name: string) => make(customer, '/company', { type: 'customer', company_name });
    const [old, present] = [await company('Old'), await company('Present')];
    const a = await make(customer, '/opportunities', await dealBody('X'));
    const b = await make(customer, '/opportunities', await dealBody('Y', { company_id: old }));
    const items = [
      { id: a, external_id: 'Z' },
      { id: b, external_id: 'X', company_id: present },
    ];
    const change = await changeOf(customer.post('/opportunities/batch/update', { items }));
    await customer.delete(`/company/${old}`);
    const other = await make(customer, '/opportunities', await dealBody('Y'));
    expect((await undo(change)).results).toMatchObject([
      { item: b, status: 'skipped', result: { kept: [{ field: 'company' }, { field: 'external_id' }] } },
      { item: a, status: 'skipped', reason: 'taken' },
    ]);
    await customer.delete(`/opportunities/${other}`);
    expect((await undo(change)).results).toMatchObject([
      { item: b, status: 'succeeded', reason: 'gone', result: { restored: ['external_id'] } },
      { item: a, status: 'succeeded', reason: null },
    ]);
    expect(await externalIds('/opportunities', [a, b])).toEqual(['X', 'Y']);
  });

  function dealBody(external_id: string, more: object = {}) {
    return opportunityBody(customer, { external_id, ...more });
  }
});
