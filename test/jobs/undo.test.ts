import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/database/db.ts';
import { parseConfig } from '../../src/process/config.ts';
import { isOnCitus } from '../setup/database.ts';
import { jobBatches } from '../../src/jobs/workers.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { purgeCompanies } from '../../src/queries/crm/deletions.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import type { Answer } from '../setup/factories.ts';
import { importFile } from './importing.ts';
import { readJob, resultsOf } from './spending.ts';
import { undoing } from './undoing.ts';
import { contextOf, workAtUndos } from './working.ts';

const app = await startApp();
const { customer, undo, estimate, newestChange, changeOf } = undoing(app);

/** Everything that can be read of a customer's records, but for what every write changes. */
async function readAll() {
  const rows = async (path: string, read: (id: string) => string) => {
    const { status, body } = await customer.post(path, {});
    expect(status, JSON.stringify(body)).toBeLessThan(300);
    const records = await Promise.all(body.map(async ({ id }: { id: string }) => (await customer.get(read(id))).body));
    return records
      .map(({ updated_at: _updated, counted_at: _counted, ...record }) => record)
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
  };
  const { api_key: _key, ...summary } = (await customer.get('/customer/summary')).body; // says when the key was last used
  const total = async (path: string) => (await customer.post(path, {})).body.pagination.total_records;
  return {
    contacts: await rows('/contacts/list', (id) => `/contacts/${id}`),
    companies: await rows('/company/list', (id) => `/company/${id}`),
    lists: await rows('/list-contact/list', (id) => `/list-contact/${id}`),
    products: await rows('/products/list', (id) => `/products/${id}`),
    opportunities: await rows('/opportunities/list', (id) => `/opportunities/${id}`),
    activities: await rows('/activities/list', (id) => `/activities/${id}`),
    totals: [await total('/contacts/metadata'), await total('/company/metadata')],
    summary,
  };
}

/** A customer's records with links between all of them. */
interface World {
  companies: string[];
  contacts: string[];
  lists: string[];
  products: string[];
  deals: string[];
  activities: string[];
}

async function makeWorld(): Promise<World> {
  const companies = [];
  for (const i of [0, 1, 2])
    companies.push(
      await make(customer, '/company', {
        type: 'customer',
        company_name: `Company ${i}`,
        external_id: `c${i}`,
        ...(i === 0 ? { industry: 'Tools', custom_fields: { size: 3 } } : { location_region: '' }),
      }),
    );
  const lists = [];
  for (const i of [0, 1]) lists.push((await customer.post('/list-contact', { name: `List ${i}` })).body.id);
  const contacts = [];
  for (const i of [0, 1, 2, 3])
    contacts.push(
      await make(
        customer,
        '/contacts',
        contactBody({
          work_email: `p${i}@example.com`,
          external_id: `p${i}`,
          job_title: i === 0 ? '' : `Title ${i}`,
          middle_name: '',
          other_emails: [],
          phone_numbers: [{ country_code: '+49', number: `3012345${i}` }],
          company: { id: companies[i % 3] },
          list_ids: i === 3 ? [] : [lists[i % 2]],
          custom_fields: { n: i, ...(i === 1 ? { plan: 'gold' } : {}) },
        }),
      ),
    );
  const products = [];
  for (const name of ['Chair', 'Table', 'Lamp'])
    products.push(await make(customer, '/products', productBody({ name, price: 5 })));
  const deals = [];
  for (const i of [0, 1])
    deals.push(
      await make(
        customer,
        '/opportunities',
        await opportunityBody(customer, {
          name: `Deal ${i}`,
          company_id: companies[i],
          contacts_ids: i === 0 ? [contacts[1], contacts[0]] : [contacts[2], contacts[1]],
          products: [
            { id: products[0], price: 4, quantity: 2 },
            { id: products[1], price: 9.5, quantity: 1 },
          ],
        }),
      ),
    );
  const activities: string[] = [];
  for (const references of [
    { contact_id: contacts[0] },
    { contact_id: contacts[1], type: 'task', due_at: '2030-01-01T00:00:00Z' },
    { company_id: companies[1] },
    { opportunity_id: deals[0] },
    { contact_id: contacts[2], company_id: companies[2], opportunity_id: deals[1], assigned_to: customer.adminId },
  ]) {
    const external_id = `a${activities.length}`;
    activities.push(await make(customer, '/activities', { title: 'Note', external_id, ...references }));
  }
  return { companies, contacts, lists, products, deals, activities };
}

/** Sends one change, or imports a file and returns the id of the import. */
type Act = (world: World) => Promise<Answer | string>;

const items = (ids: string[]) => ({ items: ids.map((id) => ({ id })) });
const titled = [{ field: 'job_title', operator: 'contains', value: 'Title' }];
const imported = async (settings: object, csv: string): Promise<string> => {
  const { id, status, failed } = await importFile(app, customer, { format: 'csv', ...settings }, csv);
  expect({ status, failed }).toEqual({ status: 'COMPLETED', failed: 0 });
  return id;
};

/** One of each kind of change. */
const acts: Record<string, Act> = {
  'a new activity': ({ contacts }) => customer.post('/activities', { body: 'New', contact_id: contacts[3] }),
  'an update of an activity': ({ activities, contacts, companies }) =>
    customer.patch(`/activities/${activities[1]}`, {
      type: 'call',
      title: '',
      body: 'Said no',
      external_id: null,
      contact_id: contacts[3],
      company_id: companies[0],
    }),
  'a deletion of activities': ({ activities }) =>
    customer.post('/activities/batch/delete', items([activities[1]!, activities[4]!])),
  'a new contact, with a new company': () =>
    customer.post('/contacts', contactBody({ work_email: 'new@example.com', company: { name: 'Brand new' } })),
  'an update of a contact': ({ contacts, companies }) =>
    customer.patch(`/contacts/${contacts[1]}`, {
      job_title: 'Queen',
      work_email: 'queen@example.com',
      external_id: 'q',
      phone_numbers: [],
      company: { id: companies[0] },
      custom_fields: { plan: null, n: 9, more: true },
    }),
  'a contact that loses its company': ({ contacts }) =>
    customer.patch(`/contacts/${contacts[1]}`, { company: null, job_title: '' }),
  'a deletion of contacts': ({ contacts }) => customer.post('/contacts/batch/delete', items(contacts)),
  'an upsert of contacts': () =>
    customer.post('/contacts/batch/upsert', {
      match: 'external_id',
      items: [
        { external_id: 'p0', last_name: 'Changed', company: { name: 'Another' } },
        { external_id: 'fresh', last_name: 'Fresh', company: { name: 'Another' } },
      ],
    }),
  'a merge of contacts': ({ contacts: [one, two, three] }) =>
    customer.post('/contacts/merge', { id: one, merge_ids: [two, three], fields: { external_id: two } }),
  'a new company': () => customer.post('/company', { type: 'customer', company_name: 'New' }),
  'an update of a company': ({ companies }) =>
    customer.patch(`/company/${companies[0]}`, { company_name: 'Renamed', custom_fields: { size: 4 } }),
  'a deletion of companies': ({ companies }) => customer.post('/company/batch/delete', items(companies)),
  'a merge of companies': ({ companies: [one, two, three] }) =>
    customer.post('/company/merge', { id: one, merge_ids: [two, three], fields: { external_id: three } }),
  'a new list with rules': () => customer.post('/list-contact', { name: 'New', rules: titled }),
  'an update of a list': ({ lists }) => customer.patch(`/list-contact/${lists[0]}`, { name: 'Renamed', rules: titled }),
  'a deletion of a list': ({ lists }) => customer.delete(`/list-contact/${lists[0]}`),
  'a new product': () => customer.post('/products', productBody()),
  'an update of a product': ({ products }) =>
    customer.patch(`/products/${products[0]}`, { name: 'Stool', price: 3.25, active: false }),
  'a deletion of a product in use': ({ products }) => customer.delete(`/products/${products[0]}`),
  'a new opportunity': async () => customer.post('/opportunities', await opportunityBody(customer)),
  'an update of an opportunity': async ({ deals, products, contacts, companies }) =>
    customer.patch(`/opportunities/${deals[0]}`, {
      name: 'Renamed',
      stage_id: (await stagesOf(customer))[1]!.id,
      company_id: companies[2],
      contacts_ids: [contacts[3]],
      products: {
        add: [{ id: products[2], price: 1, quantity: 7 }],
        update: [{ id: products[0], quantity: 5 }],
        remove: [products[1]],
      },
    }),
  'a deletion of an opportunity': ({ deals }) => customer.delete(`/opportunities/${deals[0]}`),
  'an import': () =>
    imported(
      { object: 'contacts', mode: 'upsert', match: 'external_id' },
      'external_id,last_name,company\np1,Imported,Import Ltd\nx1,New,Import Ltd\nx2,Newer,Company 0\n',
    ),
  'an import of products': () =>
    imported(
      { object: 'products', mode: 'create' },
      'external_id,name,unit,price\nx1,New,piece,1.5\nx2,Newer,piece,2\n',
    ),
  'an import of opportunities': ({ deals, products, companies }) => {
    const lines = `[{""id"":""${products[2]}"",""price"":1,""quantity"":7}]`;
    const line = `${deals[0]},Renamed,sales,won,"${lines}",${companies[2]}`;
    const csv = `id,name,pipeline,stage,products,company_id\n${line}\n`;
    return imported({ object: 'opportunities', mode: 'update' }, csv);
  },
};

/** Returns the id of the change that an act makes. */
const changeBy = async (act: Act, world: World): Promise<string> => {
  const done = await act(world);
  return typeof done === 'string' ? done : changeOf(Promise.resolve(done));
};

test.each(Object.entries(acts))(
  'the undo of %s restores all records, and its undo makes the change again',
  async (name, act) => {
    const world = await makeWorld();
    const before = await readAll();
    const changeId = await changeBy(act, world);
    const after = await readAll();
    expect(after).not.toEqual(before);
    const { id, results } = await undo(changeId);
    expect(await readAll()).toEqual(before);
    expect(results.filter(({ status }) => status !== 'succeeded')).toEqual([]);
    const change = (await customer.get(`/changes/${changeId}`)).body;
    expect(change).toMatchObject({ undone_by: [id] });
    const isMerge = name.includes('merge');
    expect((await customer.get(`/changes/${id}`)).body).toMatchObject({ undo_of: changeId, undoable: !isMerge });
    if (isMerge) return;
    await undo(id);
    expect(await readAll()).toEqual(after);
  },
);

test('an undo of a merge is refused: the records are merged again instead', async () => {
  const { contacts } = await makeWorld();
  const merge = () => changeOf(customer.post('/contacts/merge', { id: contacts[0], merge_ids: [contacts[1]] }));
  const { id } = await undo(await merge());
  expect(await customer.post(`/changes/${id}/undo`, {})).toMatchObject({ status: 409 });
  await merge();
  expect((await customer.get(`/contacts/${contacts[1]}`)).body.merged_into).toBe(contacts[0]);
});

test('a dry run of an undo writes nothing, and an undo of what is undone skips everything', async () => {
  const world = await makeWorld();
  const events = async () => (await customer.post('/events/list', { paginate: { limit: 1_000 } })).body;
  for (const name of ['an update of an activity', 'an import', 'a deletion of contacts', 'a merge of contacts']) {
    const changeId = await changeBy(acts[name]!, world);
    const before = [await readAll(), await events()];
    await customer.post(`/changes/${changeId}/undo`, { dry_run: true });
    expect([await readAll(), await events()]).toEqual(before);
    await undo(changeId);
    const undone = await readAll();
    const { results } = await undo(changeId);
    expect(results.map(({ status }) => status)).not.toContain('succeeded');
    expect(await readAll()).toEqual(undone);
  }
});

describe('what was written since', () => {
  const contact = (more: object = {}) => make(customer, '/contacts', contactBody(more));
  const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;

  test('is kept field by field, and the result says who wrote it', async () => {
    const id = await contact({ job_title: 'Clerk', industry: 'Tools', custom_fields: { a: 1, b: 1 } });
    const change = await changeOf(
      customer.patch(`/contacts/${id}`, { job_title: 'Baker', industry: 'Bread', custom_fields: { a: 2, b: 2, c: 2 } }),
    );
    const other = await customer.withScopes(['contacts:update']);
    await other.patch(`/contacts/${id}`, { industry: 'Cake', custom_fields: { b: 3 } });
    expect(await estimate(change)).toEqual({ records: 1, restored: 1, kept: 1, conflicts: 0 });
    const { results } = await undo(change);
    const kept = { actor: { type: 'key', id: other.keyId }, occurred_at: expect.any(String) };
    expect(results).toMatchObject([
      {
        item: id,
        status: 'succeeded',
        reason: 'changed_since',
        result: {
          restored: ['job_title', 'custom_fields.a', 'custom_fields.c'],
          kept: [
            { field: 'industry', ...kept },
            { field: 'custom_fields.b', ...kept },
          ],
        },
      },
    ]);
    const after = { job_title: 'Clerk', industry: 'Cake', custom_fields: { a: 1, b: 3 } };
    expect(await read(id)).toMatchObject(after);
    const again = await undo(change);
    expect(again.results).toMatchObject([{ status: 'skipped', reason: 'changed_since', result: { restored: [] } }]);
    expect(await read(id)).toMatchObject(after);
  });

  test('names nobody for a field that follows from a change elsewhere', async () => {
    const [from, to] = [
      await make(customer, '/company', companyBody()),
      await make(customer, '/company', companyBody()),
    ];
    const id = await contact({ company: { id: from } });
    const change = await changeOf(customer.patch(`/contacts/${id}`, { company: { id: to } }));
    await customer.delete(`/company/${to}`);
    expect((await undo(change)).results).toMatchObject([
      { status: 'skipped', result: { kept: [{ field: 'company', actor: null, occurred_at: null }] } },
    ]);
  });

  test('keeps a new record, and a new company that others belong to', async () => {
    const id = await contact();
    const change = await newestChange();
    await customer.patch(`/contacts/${id}`, { job_title: 'Baker' });
    expect((await undo(change)).results).toMatchObject([{ status: 'skipped', reason: 'changed_since' }]);
    const made = await contact({ company: { name: 'Brand new' } });
    const withCompany = await newestChange();
    const { company } = await read(made);
    await contact({ company: { id: company.id } });
    const { results } = await undo(withCompany);
    expect(results).toMatchObject([
      { item: made, status: 'succeeded' },
      { item: company.id, status: 'skipped', reason: 'in_use' },
    ]);
    expect((await customer.get(`/company/${company.id}`)).status).toBe(200);
  });

  test('keeps a new company with a new record that it keeps', async () => {
    const items = ['a', 'b'].map((name) => contactBody({ external_id: name, company: { name: 'Brand new' } }));
    const { body } = await customer.post('/contacts/batch/create', { items });
    const [first, second] = body.data.results.map(({ id }: { id: string }) => id);
    const change = await newestChange();
    await customer.patch(`/contacts/${first}`, { job_title: 'Baker' });
    const { company } = await read(first);
    expect((await undo(change)).results).toMatchObject([
      { item: second, status: 'succeeded' },
      { item: first, status: 'skipped', reason: 'changed_since' },
      { item: company.id, status: 'skipped', reason: 'in_use' },
    ]);
    expect((await read(first)).company).toEqual(company);
  });

  test('does not count if it was taken back itself', async () => {
    const world = await makeWorld();
    const before = await readAll();
    const [id] = [await contact({ work_email: 'new@example.com', job_title: 'Clerk', custom_fields: { a: 1 } })];
    const creation = await newestChange();
    const update = await changeOf(
      customer.patch(`/contacts/${id}`, {
        job_title: 'Baker',
        work_email: 'other@example.com',
        custom_fields: { a: null, b: 2 },
      }),
    );
    const deletion = await changeOf(customer.delete(`/contacts/${id}`));
    await undo(deletion);
    await undo(update);
    expect((await undo(creation)).results).toMatchObject([{ status: 'succeeded' }]);
    expect(await readAll()).toEqual(before);
    const deal = await make(customer, '/opportunities', await opportunityBody(customer, { name: 'New' }));
    const made = await newestChange();
    const renamed = await changeOf(
      customer.patch(`/opportunities/${deal}`, { name: 'Renamed', contacts_ids: world.contacts }),
    );
    expect((await undo(made)).results).toMatchObject([{ status: 'skipped', reason: 'changed_since' }]);
    await undo(renamed);
    expect((await undo(made)).results).toMatchObject([{ status: 'succeeded' }]);
    expect(await readAll()).toEqual(before);
  });

  test('leaves out an external id that another record has by now', async () => {
    const [id, other] = [await contact(), await contact({ external_id: 'x' })];
    const update = await changeOf(customer.patch(`/contacts/${other}`, { external_id: 'y', job_title: 'Baker' }));
    await customer.patch(`/contacts/${id}`, { external_id: 'x' });
    expect((await undo(update)).results).toMatchObject([{ status: 'succeeded', reason: 'taken' }]);
    expect(await read(other)).toMatchObject({ external_id: 'y', job_title: '' });
  });

  test('is an external id that is passed on', async () => {
    // A gives y to B, and cannot have x back: so B cannot have its own back either.
    const [a, b] = [await contact({ external_id: 'a' }), await contact({ external_id: 'b' })];
    const passing = await changeOf(
      customer.post('/contacts/batch/update', {
        items: [
          { id: a, external_id: 'c' },
          { id: b, external_id: 'a' },
        ],
      }),
    );
    await customer.patch(`/contacts/${b}`, { external_id: 'd' });
    await contact({ external_id: 'a' });
    const before = (await read(a)).updated_at;
    expect((await undo(passing)).results).toMatchObject([
      { item: b, status: 'skipped', reason: 'changed_since' },
      { item: a, status: 'skipped', reason: 'taken' },
    ]);
    expect(await read(a)).toMatchObject({ external_id: 'c', updated_at: before });
  });

  test('stays with the contact that stayed in a merge, when the merge is undone again', async () => {
    const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
    const [kept, gone] = [await contact(), await contact({ list_ids: [list] })];
    const merge = await changeOf(customer.post('/contacts/merge', { id: kept, merge_ids: [gone] }));
    await undo(merge);
    expect((await read(kept)).list_ids).toEqual([]);
    await customer.patch(`/contacts/${kept}`, { list_ids: [list] });
    await undo(merge);
    expect((await read(kept)).list_ids).toEqual([list]);
  });

  test('fails for a record that is gone, and leaves out links to what is gone', async () => {
    const company = await make(customer, '/company', { type: 'customer', company_name: 'Acme' });
    const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
    const id = await contact({ company: { id: company }, list_ids: [list] });
    const update = await changeOf(customer.patch(`/contacts/${id}`, { job_title: 'Baker' }));
    const deletion = await changeOf(customer.delete(`/contacts/${id}`));
    expect((await undo(update)).results).toMatchObject([{ status: 'failed', reason: 'gone' }]);
    await customer.delete(`/company/${company}`);
    await customer.delete(`/list-contact/${list}`);
    expect((await undo(deletion)).results).toMatchObject([{ status: 'succeeded' }]);
    expect(await read(id)).toMatchObject({ job_title: 'Baker', company: { id: null }, list_ids: [] });
  });
});

describe('a record that is removed for good', () => {
  const secret = 'Geheimnis';
  const rowsWith = async (text: string) =>
    (
      await app.owner`
        select 1 from journal j where customer_id = ${customer.id} and (before::text like ${`%${text}%`} or after::text like ${`%${text}%`})
        union all
        select 1 from companies c where customer_id = ${customer.id} and c::text like ${`%${text}%`}
        union all
        select 1 from contacts c where customer_id = ${customer.id} and c::text like ${`%${text}%`}
        union all
        select 1 from merged_records m where customer_id = ${customer.id} and m::text like ${`%${text}%`}`
    ).length;

  const named = { external_id: `x-${secret}` };
  const kinds = [
    ['/contacts', '/contacts/batch/delete', contactBody({ last_name: secret, ...named }), 'job_title'],
    ['/company', '/company/batch/delete', companyBody({ company_name: secret, ...named }), 'size'],
  ] as const;

  test.each(kinds)('leaves no value behind: %s', async (path, batch, body, field) => {
    const id = await make(customer, path, body);
    await customer.patch(`${path}/${id}`, { [field]: `1 ${secret}` });
    const update = await changeOf(customer.patch(`${path}/${id}`, { [field]: '2' }));
    const deletion = await changeOf(customer.delete(`${path}/${id}?purge=true`));
    expect(await rowsWith(secret)).toBe(0);
    const { body: changes } = await customer.post('/changes/list', { filters: { record_id: id } });
    expect(changes).toMatchObject([
      { type: 'deleted', fields: {} },
      { type: 'updated', fields: {} },
      { type: 'updated', fields: {} },
      { type: 'created', fields: {} },
    ]);
    expect(await estimate(deletion)).toEqual({ records: 1, restored: 0, kept: 0, conflicts: 0 });
    for (const change of [update, deletion])
      expect((await undo(change)).results).toMatchObject([{ item: id, status: 'failed', reason: 'gone' }]);
    expect((await customer.delete(`${path}/${id}`)).status).toBe(404);
    expect((await customer.delete(`${path}/${id.toUpperCase()}?purge=true`)).status).toBe(200);
    expect((await customer.post(batch, { items: [{ id }], purge: true })).body.data.counts).toMatchObject({
      deleted: 1,
    });
    expect(
      (await customer.post('/events/list', { types: ['contact.deleted', 'company.deleted'] })).body.at(-1).type,
    ).toBe(`${path === '/company' ? 'company' : 'contact'}.deleted`);
  });

  test.each(kinds)('may be deleted or merged already: %s', async (path, batch, body) => {
    const [deleted, merged, kept, other] = [
      await make(customer, path, body),
      await make(customer, path, { ...body, external_id: `y-${secret}` }),
      await make(customer, path, { ...body, external_id: `z-${secret}` }),
      await make(customer, path, { ...body, external_id: 'other' }),
    ];
    await customer.delete(`${path}/${deleted}`);
    await customer.post(`${path}/merge`, { id: kept, merge_ids: [merged] });
    const stranger = await app.customer();
    expect((await stranger.delete(`${path}/${deleted}?purge=true`)).status).toBe(404);
    expect((await customer.delete(`${path}/${deleted}?purge=yes`)).status).toBe(400);
    expect((await customer.delete(`${path}/${randomUUID()}?purge=true`)).status).toBe(404);
    expect(await rowsWith(`x-${secret}`)).toBeGreaterThan(0);
    const items = [{ id: deleted }, { id: merged }, { id: randomUUID() }, { id: kept }];
    const refused = await customer.post(batch, { items, purge: true, atomic: true });
    expect(refused.status).toBe(404);
    expect(await rowsWith(`x-${secret}`)).toBeGreaterThan(0);
    const { body: answer } = await customer.post(batch, { items, purge: true });
    expect(answer.data.results.map(({ status }: { status: string }) => status)).toEqual([
      'deleted',
      'deleted',
      'failed',
      'deleted',
    ]);
    expect(await rowsWith(`-${secret}`)).toBe(0);
    expect((await customer.get(`${path}/${other}`)).body.external_id).toBe('other');
  });

  test('takes nothing of others: contacts of a company stay, and are free of it', async () => {
    const company = await make(customer, '/company', { type: 'customer', company_name: secret });
    const id = await make(customer, '/contacts', contactBody({ company: { id: company } }));
    await customer.delete(`/company/${company}`);
    expect((await customer.delete(`/company/${company}?purge=true`)).status).toBe(200);
    expect((await customer.get(`/contacts/${id}`)).body.company.id).toBeNull();
    let purged = 1;
    while (purged > 0) purged = await app.db.transaction((sql) => purgeCompanies(sql as never, 90));
    const rows = await app.owner`
      select 1 from companies where id = ${company} union all select 1 from contacts where company_id = ${company}`;
    expect(rows).toHaveLength(0);
  });

  test('is not restored by an undo that runs at the same time', async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, () => make(customer, '/contacts', contactBody({ job_title: secret }))),
    );
    const deletion = await changeOf(customer.post('/contacts/batch/delete', { items: ids.map((id) => ({ id })) }));
    await customer.post(`/changes/${deletion}/undo`, {});
    const purges = ids.map((id) => customer.delete(`/contacts/${id}?purge=true`));
    const [, ...answers] = await Promise.all([workAtUndos(app, customer), ...purges]);
    // If an undo restores a record at this moment, the caller is asked to try again.
    expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
    const again = await Promise.all(ids.map((id) => customer.delete(`/contacts/${id}?purge=true`)));
    expect(again.map(({ status }) => status)).toEqual(ids.map(() => 200));
    expect(await rowsWith(secret)).toBe(0);
    expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(0);
  });
});

test.each(['own', 'merged'] as const)(
  'that a person asked to be removed is told of a contact that is restored, if it comes from the person: %s',
  async (from) => {
    const [kept, gone] = [
      await make(customer, '/contacts', contactBody()),
      await make(customer, '/contacts', contactBody()),
    ];
    const prospect = { own: randomUUID(), merged: randomUUID() };
    await app.owner`update contacts set prospect_id = ${prospect.own} where id = ${kept}`;
    await app.owner`update contacts set prospect_id = ${prospect.merged} where id = ${gone}`;
    await customer.post('/contacts/merge', { id: kept, merge_ids: [gone] });
    const deletion = await changeOf(customer.delete(`/contacts/${kept}`));
    await app.owner`
      insert into removals (customer_id, prospect_id, removed_at) values (${customer.id}, ${prospect[from]}, now())`;
    await undo(deletion);
    expect((await customer.get(`/contacts/${kept}`)).body.removal_requested_at).not.toBeNull();
  },
);

test('many records of a change are taken back once each, however often a worker is killed', async () => {
  const items = Array.from({ length: 970 }, (_, i) =>
    contactBody({ external_id: `${i}`, company: { name: `C ${i % 40}` } }),
  );
  const { body: made } = await customer.post('/contacts/batch/create', { items });
  const change = await newestChange();
  const total = 1_010;
  expect(await estimate(change)).toEqual({ records: total, restored: total, kept: 0, conflicts: 0 });
  await undo(await changeOf(customer.patch(`/contacts/${made.data.results[0].id}`, { job_title: 'Baker' })));
  expect(await estimate(change)).toEqual({ records: total, restored: total - 1, kept: 1, conflicts: 0 });
  const { body } = await customer.post(`/changes/${change}/undo`, {});
  let kills = 0;
  for (let turn = 0; turn < 20; turn += 1) {
    // What a worker that is killed had not committed is not there.
    await takeTurn(
      'unlock',
      jobBatches,
      0,
    )({ ...contextOf(app), db: dyingDb(turn % 2 === 0) }, { customerId: customer.id }).catch(() => (kills += 1));
    await app.owner`update jobs set due_at = now() where customer_id = ${customer.id}`;
    if ((await readJob(customer, body.id)).finished_at !== null) break;
  }
  expect(await readJob(customer, body.id)).toMatchObject({ status: 'COMPLETED', total, succeeded: total });
  expect(new Set((await resultsOf(customer, body.id)).map((row) => row.item)).size).toBe(total);
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(0);
  expect((await customer.post('/company/metadata', {})).body.pagination.total_records).toBe(0);
  expect(await estimate(change)).toEqual({ records: total, restored: 0, kept: 0, conflicts: 0 });
  await make(customer, '/contacts', contactBody({ external_id: '7' }));
  expect(await estimate(body.id)).toEqual({ records: total, restored: total, kept: 0, conflicts: 1 });

  /** A database whose third transaction is rolled back when it has done everything. */
  function dyingDb(dies: boolean) {
    const db = app.db.for({ customerId: customer.id }, 'job');
    let transactions = 0;
    return {
      ...db,
      transaction: <T>(write: (sql: never) => Promise<T>): Promise<T> =>
        db.transaction(async (sql) => {
          const result = await write(sql as never);
          transactions += 1;
          if (dies && transactions === 2) throw new Error('killed');
          return result;
        }),
    };
  }
});

test('an activity that is hidden with the contact to which it was moved since is not made twice', async () => {
  const [first, second] = [
    await make(customer, '/contacts', contactBody()),
    await make(customer, '/contacts', contactBody()),
  ];
  const note = await make(customer, '/activities', { type: 'note', body: 'N', contact_id: first });
  const change = await changeOf(customer.call('DELETE', `/activities/${note}`));
  await undo(change);
  expect((await customer.patch(`/activities/${note}`, { contact_id: second })).status).toBe(200);
  expect((await customer.call('DELETE', `/contacts/${second}`)).status).toBe(200);
  expect((await undo(change)).results).toMatchObject([{ item: note, reason: 'gone' }]);
});

test('a dry run gives way to a write that holds its records', async () => {
  const id = await make(customer, '/contacts', contactBody());
  const change = await newestChange();
  await app.owner.begin(async (sql) => {
    await sql`select from contacts where customer_id = ${customer.id} and id = ${id} for update`;
    const { status, body } = await customer.post(`/changes/${change}/undo`, { dry_run: true });
    expect({ status, body }).toEqual({ status: 200, body: { records: 1, restored: 1, kept: 0, conflicts: 0 } });
  });
});

describe('an undo', () => {
  test('needs the scopes of the way back, and is seen by keys that could start it', async () => {
    const id = await make(customer, '/contacts', contactBody());
    const change = await newestChange();
    const [deletes, updates] = [
      await customer.withScopes(['contacts:delete']),
      await customer.withScopes(['contacts:update']),
    ];
    expect(await updates.post(`/changes/${change}/undo`, {})).toMatchObject({ status: 403 });
    const { status, body } = await deletes.post(`/changes/${change}/undo`, {});
    expect(status).toBe(200);
    await workAtUndos(app, customer);
    expect((await deletes.get(`/service-handler/${body.id}`)).body).toMatchObject({
      status: 'COMPLETED',
      credits: { pool: null, reserved: 0, charged: 0, refunded: 0 },
    });
    expect((await updates.get(`/service-handler/${body.id}`)).status).toBe(404);
    expect((await deletes.post('/service-handler/list', {})).body).toHaveLength(1);
    expect((await updates.post('/service-handler/list', {})).body).toHaveLength(0);
    expect((await customer.get(`/contacts/${id}`)).status).toBe(404);
    const { body: events } = await customer.post('/events/list', {});
    expect(events.at(-1)).toMatchObject({ type: 'job.ended', data: { type: 'undo', succeeded: 1 } });
    expect(events.at(-2)).toMatchObject({
      type: 'contact.deleted',
      data: { id, source: 'api', change_id: body.id, actor: { type: 'key', id: deletes.keyId } },
    });
  });

  test('tells the feed that a record was restored', async () => {
    const id = await make(customer, '/contacts', contactBody());
    await undo(await changeOf(customer.delete(`/contacts/${id}`)));
    const { body: events } = await customer.post('/events/list', { types: ['contact.created'] });
    expect(events).toMatchObject([{ data: { id } }, { data: { id, restored: true } }]);
    expect(events[0].data).not.toHaveProperty('restored');
  });

  test('is of a change of the customer that has ended, and happens once with an Idempotency-Key', async () => {
    const other = await app.customer();
    await make(customer, '/contacts', contactBody());
    const change = await newestChange();
    for (const path of [`/changes/${change}/undo`, `/service-handler/${change}/undo`, `/imports/${change}/undo`])
      expect((await other.post(path, {})).status).toBe(404);
    expect((await customer.post('/changes/0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b/undo', {})).status).toBe(404);
    const headers = { 'idempotency-key': 'once' };
    const [first, second] = [
      await customer.post(`/changes/${change}/undo`, {}, headers),
      await customer.post(`/changes/${change}/undo`, {}, headers),
    ];
    expect(second.body).toEqual(first.body);
    expect(await customer.post(`/changes/${first.body.id}/undo`, {})).toMatchObject({ status: 404 });
    await workAtUndos(app, customer);
    expect((await customer.get(`/changes/${first.body.id}`)).body).toMatchObject({ undo_of: change, undoable: true });
  });
});

describe('activities', () => {
  test('hidden ones come back with their record, without an external id that another one has by now', async () => {
    const { contacts, companies, activities } = await makeWorld();
    const deletion = await changeOf(customer.delete(`/contacts/${contacts[0]}`));
    await make(customer, '/activities', { body: 'New', company_id: companies[0], external_id: 'a0' });
    await undo(deletion);
    const { body } = await customer.get(`/activities/${activities[0]}`);
    expect(body).toMatchObject({ contact_id: contacts[0], external_id: null });
  });

  test('a deleted one whose records are gone stays deleted, and comes back after them', async () => {
    const { contacts, activities } = await makeWorld();
    const first = await changeOf(customer.delete(`/activities/${activities[0]}`));
    const second = await changeOf(customer.delete(`/contacts/${contacts[0]}`));
    expect(await resultsOf(customer, (await undo(first)).id)).toMatchObject([{ status: 'failed', reason: 'gone' }]);
    await undo(second);
    await undo(first);
    expect((await customer.get(`/activities/${activities[0]}`)).body).toMatchObject({ contact_id: contacts[0] });
  });

  test('one that was deleted after its contact comes back, and refers to it when that is back too', async () => {
    const { contacts, companies } = await makeWorld();
    const id = await make(customer, '/activities', { body: 'New', contact_id: contacts[0], company_id: companies[0] });
    const first = await changeOf(customer.delete(`/contacts/${contacts[0]}`));
    const second = await changeOf(customer.delete(`/activities/${id}`));
    await undo(second);
    expect((await customer.get(`/activities/${id}`)).body).toMatchObject({ contact_id: null });
    await undo(first);
    expect((await customer.get(`/activities/${id}`)).body).toMatchObject({ contact_id: contacts[0] });
  });

  test('fields that contradict what was written since are kept', async () => {
    const { activities } = await makeWorld();
    const change = await changeOf(customer.patch(`/activities/${activities[1]}`, { type: 'note', title: 'No task' }));
    await customer.patch(`/activities/${activities[1]}`, { type: 'call' });
    const [result] = await resultsOf(customer, (await undo(change)).id);
    expect(result).toMatchObject({ status: 'succeeded', result: { restored: ['title'] } });
    expect((await customer.get(`/activities/${activities[1]}`)).body).toMatchObject({ type: 'call', title: 'Note' });
  });

  test('of a purged contact are not restored', async () => {
    const { contacts, activities } = await makeWorld();
    const change = await changeOf(customer.patch(`/activities/${activities[0]}`, { title: 'Changed' }));
    await customer.delete(`/contacts/${contacts[0]}?purge=true`);
    await undo(change);
    expect((await customer.get(`/activities/${activities[0]}`)).status).toBe(404);
  });
});

test('records whose undo takes too long at once are undone in smaller batches', async () => {
  const items = Array.from({ length: 400 }, (_, i) =>
    contactBody({ first_name: 'Slow', work_email: `slow${i}@x.example` }),
  );
  const { body: made } = await customer.post('/contacts/batch/create', { items });
  const faster = made.data.results.map(({ id }: { id: string }) => ({ id, first_name: 'Fast' }));
  const change = await changeOf(customer.post('/contacts/batch/update', { items: faster }));
  const hurried = openDatabase(parseConfig({ STATEMENT_TIMEOUT_MS: '1000' }), app.url, { distributed: isOnCitus() });
  await app.owner.unsafe(`
    create function pause(name text) returns boolean language plpgsql as $$
      begin
        perform pg_sleep(case when name = 'Slow' then 0.005 else 0 end);
        return true;
      end $$`);
  await app.owner`alter table contacts add constraint contacts_pause check (pause(first_name)) not valid`;
  onTestFinished(async () => {
    await hurried.close();
    await app.owner`alter table contacts drop constraint contacts_pause`;
  });
  const { body: job } = await customer.post(`/changes/${change}/undo`, {});
  await workAtUndos({ ...app, db: hurried }, customer);
  expect(await readJob(customer, job.id)).toMatchObject({ status: 'COMPLETED', succeeded: 400 });
});
