import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { jobBatches } from '../../src/jobs/workers.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { purgeCompanies } from '../../src/queries/crm/deletions.ts';
import { ruleLimits } from '../../src/schemas/lists.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
import {
  companyBody,
  contactBody,
  grant,
  make,
  opportunityBody,
  productBody,
  stagesOf,
  unique,
  type Answer,
} from '../setup/factories.ts';
import { startNameServer } from '../setup/name-server.ts';
import { verify as verifyEmail } from './calls.ts';
import { importFile } from './importing.ts';
import { ended, readJob, resultsOf } from './spending.ts';
import { undoing } from './undoing.ts';
import { contextOf, slowDb, workAtUndos } from './working.ts';

const names = await startNameServer();

const app = await startApp({ VERIFY_DNS_SERVERS: names.address });
await app.catalog.prepare();
const { customer, undo, estimate, newestChange, changeOf } = undoing(app);

/** A record without the time of its last write. */
async function read(path: string) {
  const { status, body } = await customer.get(path);
  expect(status, JSON.stringify(body)).toBe(200);
  const { updated_at: _at, ...record } = body;
  return record;
}

const readContact = (id: string) => read(`/contacts/${id}`);
/** The newest change of a record, as the history shows it. */
const newestOf = async (record_id: string) =>
  (await customer.post('/changes/list', { filters: { record_id }, paginate: { limit: 1 } })).body[0];

const contact = (more: object = {}) => make(customer, '/contacts', contactBody(more));
const company = (more: object = {}) => make(customer, '/company', companyBody(more));
const deal = async (more: object = {}) => make(customer, '/opportunities', await opportunityBody(customer, more));

/** Everything that can be read of a customer's records, but for what every write changes. */
async function readAll() {
  const rows = async (path: string, pathOf: (id: string) => string) => {
    const { status, body } = await customer.post(path, {});
    expect(status, JSON.stringify(body)).toBeLessThan(300);
    const records = await Promise.all(
      body.map(async ({ id }: { id: string }) => (await customer.get(pathOf(id))).body),
    );
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
  /** Makes so many records, one after the other. */
  const several = async (count: number, one: (i: number) => Promise<string>): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < count; i += 1) ids.push(await one(i));
    return ids;
  };
  const companies = await several(3, (i) =>
    company({
      company_name: `Company ${i}`,
      external_id: `c${i}`,
      ...(i === 0 ? { industry: 'Tools', custom_fields: { size: 3 } } : { location_region: '' }),
    }),
  );
  const lists = await several(2, async (i) => (await customer.post('/list-contact', { name: `List ${i}` })).body.id);
  const contacts = await several(4, (i) =>
    contact({
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
  );
  const products = await several(3, (i) =>
    make(customer, '/products', productBody({ name: `Product ${i}`, price: 5 })),
  );
  const deals = await several(2, (i) =>
    deal({
      name: `Deal ${i}`,
      company_id: companies[i],
      contacts_ids: i === 0 ? [contacts[1], contacts[0]] : [contacts[2], contacts[1]],
      products: [
        { id: products[0], price: 4, quantity: 2 },
        { id: products[1], price: 9.5, quantity: 1 },
      ],
    }),
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
const imported = async (settings: object, csv: string): Promise<string> => {
  const { id, status, failed } = await importFile(app, customer, { format: 'csv', ...settings }, csv);
  expect({ status, failed }).toEqual({ status: 'COMPLETED', failed: 0 });
  return id;
};

/** Changes of each kind, of which test/model takes back random ones of the other kinds. */
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
  'an update of a contact': ({ contacts, companies }) =>
    customer.patch(`/contacts/${contacts[1]}`, {
      job_title: 'Queen',
      work_email: 'queen@example.com',
      external_id: 'q',
      phone_numbers: [],
      company: { id: companies[0] },
      custom_fields: { plan: null, n: 9, more: true },
    }),
  'a deletion of contacts': ({ contacts }) => customer.post('/contacts/batch/delete', items(contacts)),
  'a merge of contacts': ({ contacts: [one, two, three] }) =>
    customer.post('/contacts/merge', { id: one, merge_ids: [two, three], fields: { external_id: two } }),
  'a deletion of companies': ({ companies }) => customer.post('/company/batch/delete', items(companies)),
  'a merge of companies': ({ companies: [one, two, three] }) =>
    customer.post('/company/merge', { id: one, merge_ids: [two, three], fields: { external_id: three } }),
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
        update: [{ id: products[1], quantity: 5 }],
        remove: [products[0]],
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

const expectRefused = async (changeId: string) =>
  expect((await customer.post(`/changes/${changeId}/undo`, {})).status).toBe(409);

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
    // A merge is made again instead.
    await (isMerge ? expectRefused(id) : undo(id));
    expect(await readAll()).toEqual(isMerge ? before : after);
  },
);

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
    expect(await readContact(id)).toMatchObject(after);
    const again = await undo(change);
    expect(again.results).toMatchObject([{ status: 'skipped', reason: 'changed_since', result: { restored: [] } }]);
    expect(await readContact(id)).toMatchObject(after);
  });

  test('keeps a new record, and a new company that others belong to', async () => {
    const id = await contact();
    const change = await newestChange();
    await customer.patch(`/contacts/${id}`, { job_title: 'Baker' });
    expect((await undo(change)).results).toMatchObject([{ status: 'skipped', reason: 'changed_since' }]);
    const made = await contact({ company: { name: 'Brand new' } });
    const withCompany = await newestChange();
    const { company: own } = await readContact(made);
    await contact({ company: { id: own.id } });
    const { results } = await undo(withCompany);
    expect(results).toMatchObject([
      { item: made, status: 'succeeded' },
      { item: own.id, status: 'skipped', reason: 'in_use' },
    ]);
    expect((await customer.get(`/company/${own.id}`)).status).toBe(200);
  });

  test('does not count if it was taken back itself', async () => {
    const before = await readAll();
    const id = await contact({ work_email: 'new@example.com', job_title: 'Clerk', custom_fields: { a: 1 } });
    const creation = await newestChange();
    const body = { job_title: 'Baker', work_email: 'other@example.com', custom_fields: { a: null, b: 2 } };
    const update = await changeOf(customer.patch(`/contacts/${id}`, body));
    const deletion = await changeOf(customer.delete(`/contacts/${id}`));
    for (const change of [deletion, update, creation])
      expect((await undo(change)).results).toMatchObject([{ status: 'succeeded' }]);
    expect(await readAll()).toEqual(before);
  });

  test('leaves out an external id that another record has by now', async () => {
    const [id, other] = [await contact(), await contact({ external_id: 'x' })];
    const update = await changeOf(customer.patch(`/contacts/${other}`, { external_id: 'y', job_title: 'Baker' }));
    await customer.patch(`/contacts/${id}`, { external_id: 'x' });
    expect((await undo(update)).results).toMatchObject([{ status: 'succeeded', reason: 'taken' }]);
    expect(await readContact(other)).toMatchObject({ external_id: 'y', job_title: '' });
  });

  test('fails for a record that is gone, and leaves out links to what is gone', async () => {
    const at = await company();
    const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
    const id = await contact({ company: { id: at }, list_ids: [list] });
    const update = await changeOf(customer.patch(`/contacts/${id}`, { job_title: 'Baker' }));
    const deletion = await changeOf(customer.delete(`/contacts/${id}`));
    expect((await undo(update)).results).toMatchObject([{ status: 'failed', reason: 'gone' }]);
    await customer.delete(`/company/${at}`);
    await customer.delete(`/list-contact/${list}`);
    expect((await undo(deletion)).results).toMatchObject([{ status: 'succeeded' }]);
    expect(await readContact(id)).toMatchObject({ job_title: 'Baker', company: { id: null }, list_ids: [] });
    const { body: events } = await customer.post('/events/list', { types: ['contact.created'] });
    expect(events.map(({ data }: { data: { restored?: true } }) => data.restored)).toEqual([undefined, true]);
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
    const [kept, gone] = [await contact(), await contact()];
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
  await customer.post('/contacts/batch/create', { items });
  const change = await newestChange();
  const total = 1_010;
  expect(await estimate(change)).toEqual({ records: total, restored: total, kept: 0, conflicts: 0 });
  const { body } = await customer.post(`/changes/${change}/undo`, {});
  const work = takeTurn('unlock', jobBatches, 0);
  for (let turn = 0; (await readJob(customer, body.id)).finished_at === null; turn += 1) {
    const context = {
      ...contextOf(app),
      db: turn % 2 === 0 ? dyingDb() : app.db.for({ customerId: customer.id }, 'job'),
    };
    await work(context, { customerId: customer.id }).catch(() => undefined);
    await app.owner`update jobs set due_at = now() where customer_id = ${customer.id}`;
  }
  expect(await readJob(customer, body.id)).toMatchObject({ status: 'COMPLETED', total, succeeded: total });
  expect(new Set((await resultsOf(customer, body.id)).map((row) => row.item)).size).toBe(total);
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(0);
  expect((await customer.post('/company/metadata', {})).body.pagination.total_records).toBe(0);

  /** A database whose second transaction is rolled back when it has done everything, as of a worker that is killed. */
  function dyingDb() {
    const db = app.db.for({ customerId: customer.id }, 'job');
    let transactions = 0;
    return {
      ...db,
      transaction: <T>(write: (sql: never) => Promise<T>): Promise<T> =>
        db.transaction(async (sql) => {
          const result = await write(sql as never);
          transactions += 1;
          if (transactions === 2) throw new Error('killed');
          return result;
        }),
    };
  }
});

describe('an undo', () => {
  test('needs the scopes of the way back, and is seen by keys that could start it', async () => {
    const id = await contact();
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

  test('is of a change of the customer that has ended, and happens once with an Idempotency-Key', async () => {
    const other = await app.customer();
    await contact();
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
  const { body: job } = await customer.post(`/changes/${change}/undo`, {});
  await workAtUndos({ ...app, db: await slowDb(app, 'Slow', 0.005) }, customer);
  expect(await readJob(customer, job.id)).toMatchObject({ status: 'COMPLETED', succeeded: 400 });
});

describe('the undo of a job that writes contacts', () => {
  const prospectOf = async (id: string) =>
    (await app.owner`select prospect_id, last_verified from contacts where id = ${id}`)[0];

  async function work(queue: 'unlock' | 'verify', job: string): Promise<string> {
    await takeTurn(queue, jobBatches)(contextOf(app), { customerId: customer.id });
    expect(await ended(customer, job)).toMatchObject({ status: 'COMPLETED', succeeded: 1 });
    return job;
  }

  async function addPerson(work_email: string): Promise<string> {
    const one = person({ last_name: unique('Name'), work_email, emails: [] });
    await writePeople(app.catalog, [one]);
    return one._id;
  }

  const verify = async (id: string, email: string) =>
    work('verify', (await verifyEmail(customer, { emails: [{ email, contact_id: id }], sync_crm: true })).body.id);

  async function unlock(_id: string, email: string): Promise<string> {
    const body = { ids: [await addPerson(email)], sync_crm: true };
    return work('unlock', (await customer.post('/service-handler/unlock-selected-contacts', body)).body.id);
  }

  async function enrich(id: string, email: string): Promise<string> {
    await addPerson(email);
    const body = { contact_ids: [id], max_credits: 5 };
    return work('unlock', (await customer.post('/service-handler/enrich-contacts', body)).body.id);
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
    const [before, prospect] = [await readContact(id), await prospectOf(id)];
    const job = await act(id, email);
    const { crm_synced_at } = await readContact(id);
    expect((await newestOf(id)).fields).toMatchObject({
      last_verified: [null, expect.stringMatching(/^\d{4}-\d\d-\d\dT/)],
      crm_synced_at: [null, crm_synced_at],
    });
    const { results } = await undo(job);
    expect(results.find(({ item }) => item === id)).toMatchObject({
      status: 'succeeded',
      reason: null,
      result: { restored: expect.arrayContaining(['verification_status', 'last_verified', 'crm_synced_at']), kept: [] },
    });
    expect(await readContact(id)).toEqual(before);
    expect(await prospectOf(id)).toEqual(prospect);
    expect((await undo(made.id)).results).toMatchObject([{ item: id, status: 'succeeded' }]);
  });

  test.each([true, false])(
    'brings the verification back with its address, not without it: the address was verified before: %s',
    async (wasVerified) => {
      await grant(app.fastify, customer.id, 'verification', 2);
      // Domains that do not exist.
      const [first, second] = ['a@a.invalid.example', 'b@b.invalid.example'] as const;
      const id = await contact({ work_email: first });
      if (wasVerified) await verify(id, first);
      const before = await readContact(id);
      expect(before.verification_status).toBe(wasVerified ? 'invalid' : 'unverified');
      const change = await changeOf(customer.patch(`/contacts/${id}`, { work_email: second }));
      await verify(id, second);
      expect((await undo(change)).results).toMatchObject([{ status: 'succeeded', result: { kept: [] } }]);
      const { work_email, verification_status, last_verified } = before;
      expect(await readContact(id)).toMatchObject({ work_email, verification_status, last_verified });
    },
  );
});

test.each([
  ['is gone again, if it was absent', {}, [1, 2]],
  ['has its value again, if it was removed at last', { k: 0 }, [1, null]],
  ['is as before, if it was removed and added', { k: 0, other: 1 }, [null, 1]],
])('after the undo, a custom key that one change wrote twice %s', async (_name, custom_fields, values) => {
  const settings = { object: 'contacts', mode: 'upsert', match: 'external_id', format: 'ndjson' };
  const line = (k: unknown) => JSON.stringify({ external_id: 'x', custom_fields: { k } });
  const id = await contact({ external_id: 'x', custom_fields });
  const { id: change, updated } = await importFile(app, customer, settings, values.map(line).join('\n'));
  expect(updated).toBe(2);
  const { results } = await undo(change);
  expect((await readContact(id)).custom_fields).toEqual(custom_fields);
  expect(results).toMatchObject([{ reason: null, result: { kept: [] } }]);
});

test('an undo makes no more lists with rules than a customer may have', async () => {
  const rules = [{ field: 'job_title', operator: 'contains', value: 'a' }];
  const one = (await customer.post('/list-contact', { name: 'One', rules })).body.id;
  const two = (await customer.post('/list-contact', { name: 'Two', rules })).body.id;
  const deletion = await changeOf(customer.delete(`/list-contact/${one}`));
  const update = await changeOf(customer.patch(`/list-contact/${two}`, { name: 'Second', rules: [] }));
  await app.owner`
    insert into lists (customer_id, name, owner_id, rules)
    select ${customer.id}, 'Full', ${customer.adminId}, ${app.owner.json(rules)}
    from generate_series(1, ${ruleLimits.lists}::integer)`;
  expect((await undo(deletion)).results).toMatchObject([{ item: one, status: 'failed', reason: 'taken' }]);
  expect((await undo(update)).results).toMatchObject([
    { item: two, status: 'succeeded', reason: 'taken', result: { restored: ['name'], kept: [{ field: 'rules' }] } },
  ]);
});

describe('links to what is gone', () => {
  test.each([
    ['contact', '/contacts', (id: string) => contact({ company: { id } })],
    ['opportunity', '/opportunities', (id: string) => deal({ company_id: id })],
  ])('come back with it: the company of a restored %s', async (_noun, path, makeAt) => {
    const at = await company();
    const id = await makeAt(at);
    const companyOf = async () => {
      const record = await read(`${path}/${id}`);
      return path === '/contacts' ? record.company.id : record.company_id;
    };
    const first = await changeOf(customer.delete(`/company/${at}`));
    const second = await changeOf(customer.delete(`${path}/${id}`));
    await undo(second);
    expect(await companyOf()).toBeNull();
    await undo(first);
    expect(await companyOf()).toBe(at);
  });

  test('are not restored: a contact keeps the company that it has', async () => {
    const [old, current] = [await company(), await company()];
    const id = await contact({ company: { id: old }, job_title: 'Clerk' });
    const body = { company: { id: current }, job_title: 'Baker' };
    const change = await changeOf(customer.patch(`/contacts/${id}`, body));
    const deletion = await changeOf(customer.delete(`/company/${old}`));
    expect((await undo(change)).results).toMatchObject([
      { status: 'succeeded', reason: 'gone', result: { restored: ['job_title'], kept: [{ field: 'company' }] } },
    ]);
    expect(await readContact(id)).toMatchObject({ company: { id: current }, job_title: 'Clerk' });
    await undo(deletion);
    await undo(change);
    expect(await readContact(id)).toMatchObject({ company: { id: old } });
  });

  test('are not restored: an opportunity comes back without lines of deleted products', async () => {
    const [gone, present] = [
      await make(customer, '/products', productBody()),
      await make(customer, '/products', productBody()),
    ];
    const id = await deal({ products: [gone, present].map((product) => ({ id: product, price: 4, quantity: 2 })) });
    const deletion = await changeOf(customer.delete(`/opportunities/${id}`));
    await customer.delete(`/products/${gone}`);
    expect((await undo(deletion)).results).toMatchObject([
      { status: 'succeeded', reason: 'gone', result: { restored: [], kept: [{ field: 'details' }] } },
    ]);
    expect(await read(`/opportunities/${id}`)).toMatchObject({ price: 8, details: [{ product_id: present }] });
  });
});

test('a new record about which somebody has noted something stays', async () => {
  const items = [
    { external_id: 'noted', last_name: 'Noted', company: { name: 'Known' } },
    { external_id: 'plain', last_name: 'Plain' },
  ];
  const change = await changeOf(customer.post('/contacts/batch/upsert', { match: 'external_id', items }));
  const { body: contacts } = await customer.post('/contacts/list', {
    order_by: [{ field: 'last_name', direction: 'ASC' }],
  });
  const [noted, plain] = contacts as { id: string; company: { id: string } }[];
  await make(customer, '/activities', { body: 'Called', contact_id: noted!.id });
  await make(customer, '/activities', { body: 'Sells boats', company_id: noted!.company.id });
  const opportunity = await deal();
  const creation = await newestChange();
  await make(customer, '/activities', { body: 'Hopeless', opportunity_id: opportunity });
  expect((await undo(creation)).results).toMatchObject([{ status: 'skipped', reason: 'in_use' }]);
  const { results } = await undo(change);
  expect(Object.fromEntries(results.map(({ item, reason }) => [item, reason]))).toEqual({
    [noted!.id]: 'in_use',
    [noted!.company.id]: 'in_use',
    [plain!.id]: null,
  });
});

test('a new contact stays if an opportunity has got it, a restored one only if it has got it since', async () => {
  const names = ['Sold', 'Restored', 'Resold', 'Added'];
  const items = names.map((last_name) => ({ external_id: last_name, last_name, work_email: `${last_name}@a.example` }));
  const change = await changeOf(customer.post('/contacts/batch/upsert', { match: 'external_id', items }));
  const order_by = [{ field: 'created_at', direction: 'ASC' }];
  const { body: contacts } = await customer.post('/contacts/list', { order_by });
  const [sold, ...ids] = (contacts as { id: string }[]).map(({ id }) => id);
  const [restored, resold, added] = ids as [string, string, string];
  await deal({ contacts_ids: [sold, ...ids] });
  const { results } = await undo(change);
  expect(results.map(({ item, reason }) => [item, reason])).toEqual(
    expect.arrayContaining([sold, ...ids].map((id) => [id, 'in_use'])),
  );
  await undo(await changeOf(customer.post('/contacts/batch/delete', { items: ids.map((id) => ({ id })) })));
  const restoration = await newestChange();
  await deal({ contacts_ids: [resold] });
  await customer.patch(`/opportunities/${await deal()}`, { contacts_ids: [added] });
  const again = await undo(restoration);
  expect(Object.fromEntries(again.results.map(({ item, reason }) => [item, reason]))).toEqual({
    [restored]: null,
    [resold]: 'in_use',
    [added]: 'in_use',
  });
});

test('an imported record stays with its note, if that was changed since', async () => {
  const csv = 'work_email,note\nada@example.com,Met';
  const { id: change } = await importFile(app, customer, { object: 'contacts', mode: 'create', format: 'csv' }, csv);
  const [note] = (await customer.post('/activities/list', {})).body;
  await customer.patch(`/activities/${note.id}`, { body: 'Met again' });
  expect((await undo(change)).results).toMatchObject([
    { item: note.id, status: 'skipped', reason: 'changed_since' },
    { item: note.contact_id, status: 'skipped', reason: 'in_use' },
  ]);
  await readContact(note.contact_id);
  expect(await read(`/activities/${note.id}`)).toMatchObject({ body: 'Met again' });
});

test.each([
  ['exchanged by two products', 'products', ['A,\\N', 'B,X', 'A,Y']],
  ['passed on to another opportunity', 'opportunities', ['B,Z', 'A,\\N', 'B,X']],
])('an undo gives external ids back that were %s', async (_name, object, lines) => {
  const path = `/${object}`;
  const one = async (external_id: string) =>
    object === 'products' ? make(customer, path, productBody({ external_id })) : deal({ external_id });
  const [a, b] = [await one('X'), await one('Y')];
  const externalIds = () => Promise.all([a, b].map(async (id) => (await read(`${path}/${id}`)).external_id));
  const csv = `id,external_id\n${lines.join('\n').replaceAll('A,', `${a},`).replaceAll('B,', `${b},`)}\n`;
  const { id: change } = await importFile(app, customer, { object, mode: 'update', match: 'id', format: 'csv' }, csv);
  const moved = await externalIds();
  expect(moved[1]).toBe('X');
  const { id, results } = await undo(change);
  expect(results).toMatchObject([{ status: 'succeeded' }, { status: 'succeeded' }]);
  expect(await externalIds()).toEqual(['X', 'Y']);
  expect((await newestOf(b)).fields).toMatchObject({ external_id: ['X', 'Y'] });
  await undo(id);
  expect(await externalIds()).toEqual(moved);
});
