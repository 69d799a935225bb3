import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { jobBatches } from '../../src/jobs/workers.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { mergeCompanies as mergeAllCompanies } from '../../src/queries/crm/record-merges.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, grant, make, opportunityBody, productBody } from '../setup/factories.ts';
import { startNameServer } from '../setup/name-server.ts';
import { undoing } from './undoing.ts';
import { resultsOf } from './spending.ts';
import { startVerify } from './verifying.ts';
import { contextOf, workAtUndos } from './working.ts';

const names = await startNameServer();

const app = await startApp({ VERIFY_DNS_SERVERS: names.address });
const { customer, undo, newestChange, changeOf } = undoing(app);

const contact = (more: object = {}) => make(customer, '/contacts', contactBody(more));
const company = (more: object = {}) => make(customer, '/company', companyBody(more));
const list = async (name = 'List') => (await customer.post('/list-contact', { name })).body.id as string;
const deal = async (contacts_ids: string[]) =>
  make(customer, '/opportunities', await opportunityBody(customer, { contacts_ids }));
const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;
const contactsOf = async (id: string) => (await customer.get(`/opportunities/${id}`)).body.contacts_ids;
const patch = (id: string, body: object) => changeOf(customer.patch(`/contacts/${id}`, body));
const merge = (id: string, ...merge_ids: string[]) => changeOf(customer.post('/contacts/merge', { id, merge_ids }));
const mergeCompanies = (id: string, ...merge_ids: string[]) =>
  changeOf(customer.post('/company/merge', { id, merge_ids }));

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
  const opportunity = await deal([]);
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

test('lines of an opportunity come back in their order', async () => {
  const products = await Promise.all(['A', 'B', 'C'].map((name) => make(customer, '/products', productBody({ name }))));
  const lines = products.map((product) => ({ id: product, price: 1, quantity: 1 }));
  const id = await make(customer, '/opportunities', await opportunityBody(customer, { products: lines }));
  const linesOf = async () =>
    (await customer.get(`/opportunities/${id}`)).body.details.map((line: { product_id: string }) => line.product_id);
  const change = await changeOf(customer.patch(`/opportunities/${id}`, { products: { remove: [products[0]] } }));
  await undo(change);
  expect(await linesOf()).toEqual(products);
});

describe('a verification goes with its address', () => {
  async function verify(contactId: string): Promise<void> {
    await grant(app.fastify, customer.id, 'verification', 1);
    const { work_email } = await read(contactId);
    await startVerify(customer, [{ email: work_email, contact_id: contactId }], true);
    await takeTurn('verify', jobBatches)(contextOf(app), { customerId: customer.id });
    expect(await read(contactId)).toMatchObject({ verification_status: 'invalid' });
  }
  // Domains that do not exist.
  const [a, b, c] = ['a', 'b', 'c'].map((name) => `${name}@${name}.invalid.example`);

  test('when the undo of its change brings back an address that was never verified', async () => {
    const id = await contact({ work_email: a });
    const change = await patch(id, { work_email: b });
    await verify(id);
    expect((await undo(change)).results).toMatchObject([{ status: 'succeeded', result: { kept: [] } }]);
    const { created_at } = await read(id);
    expect(await read(id)).toMatchObject({
      work_email: a,
      verification_status: 'unverified',
      last_verified: created_at,
    });
  });

  test('when the undo of its change brings back an address that was verified', async () => {
    const id = await contact({ work_email: a });
    await verify(id);
    const { last_verified } = await read(id);
    const change = await patch(id, { work_email: b });
    await app.owner`update contacts set verification_status = 'verified', last_verified = now() where id = ${id}`;
    const { results } = await undo(change);
    expect(results).toMatchObject([{ status: 'succeeded', result: { kept: [] } }]);
    expect(results[0]!.result).toMatchObject({
      restored: expect.arrayContaining(['work_email', 'verification_status']) as string[],
    });
    expect(await read(id)).toMatchObject({ work_email: a, verification_status: 'invalid', last_verified });
  });

  test('and is not named where it is as before', async () => {
    const change = await patch(await contact({ work_email: a }), { work_email: b });
    expect((await undo(change)).results).toMatchObject([{ result: { restored: ['work_email'], kept: [] } }]);
  });

  test('when the address was changed once more, and stays', async () => {
    const id = await contact({ work_email: a });
    await verify(id);
    const change = await patch(id, { work_email: b, job_title: 'Baker' });
    await patch(id, { work_email: c });
    const { results } = await undo(change);
    expect(results).toMatchObject([{ status: 'succeeded', result: { restored: ['job_title'] } }]);
    expect(await read(id)).toMatchObject({ work_email: c, verification_status: 'unverified' });
  });

  test('when a merge exchanged two addresses that had the same verification', async () => {
    const [kept, gone] = [await contact({ work_email: a }), await contact({ work_email: b })];
    for (const id of [kept, gone]) await verify(id);
    const { last_verified } = await read(kept);
    const change = await changeOf(
      customer.post('/contacts/merge', { id: kept, merge_ids: [gone], fields: { work_email: gone } }),
    );
    await undo(change);
    expect(await read(kept)).toMatchObject({ work_email: a, verification_status: 'invalid', last_verified });
  });
});

describe('the undo of the second of two merges', () => {
  test.each([
    ['/contacts', contactBody, merge],
    ['/company', companyBody, mergeCompanies],
  ] as const)('leaves what the first has merged with its record: %s', async (path, body, mergeAll) => {
    const one = (external_id: string) => make(customer, path, body({ external_id }));
    const [first, middle, last] = [await one('7'), await one('8'), await one('9')];
    const found = async (external_id: string) => {
      const items = [{ external_id, industry: 'Tools' }];
      const { body: answer } = await customer.post(`${path}/batch/update`, { match: 'external_id', items });
      return answer.data.results[0].id;
    };
    await mergeAll(middle, first);
    const change = await mergeAll(last, middle);
    expect([await found('7'), await found('8')]).toEqual([last, last]);
    await undo(change);
    expect([await found('7'), await found('8'), await found('9')]).toEqual([middle, middle, last]);
  });

  test('gives back an external id that the record had lost, and another record may get it', async () => {
    const [kept, gone] = [await contact({ external_id: 'x' }), await contact({ external_id: 'y' })];
    const body = { id: kept, merge_ids: [gone], fields: { external_id: gone } };
    const upsert = async (external_id: string) => {
      const items = [{ external_id, last_name: 'Upserted', work_email: 'u@example.com' }];
      const { body: answer } = await customer.post('/contacts/batch/upsert', { match: 'external_id', items });
      return answer.data.results[0];
    };
    for (let i = 0; i < 2; i += 1) {
      const change = await changeOf(customer.post('/contacts/merge', body));
      expect((await upsert('x')).id).toBe(kept);
      await undo(change);
      expect(await read(kept)).toMatchObject({ external_id: 'x' });
    }
    await patch(kept, { external_id: 'z' });
    expect(await upsert('x')).toMatchObject({ status: 'created' });
  });
});

describe('the undo of a merge whose record was merged itself', () => {
  const refused = async (change: string, later: string, [from, to]: [string, string]) => {
    for (const dry_run of [true, false])
      expect(await customer.post(`/changes/${change}/undo`, { dry_run })).toMatchObject({
        status: 409,
        body: { message: expect.stringContaining(`${from} was merged into ${to} since: undo`) as string },
      });
    const { body } = await customer.post(`/changes/${change}/undo`, {});
    expect(body.message).toContain(later);
    expect((await customer.get(`/changes/${change}`)).body).toMatchObject({ undoable: false });
  };

  test('follows that of the later merge, and everything is as before: contacts', async () => {
    const at = await list();
    const [first, middle, last, other] = [
      await contact(),
      await contact({ list_ids: [at] }),
      await contact(),
      await contact(),
    ];
    const one = await deal([middle]);
    const note = await make(customer, '/activities', { body: 'Called', contact_id: middle });
    const noteOf = async () => (await customer.get(`/activities/${note}`)).body;
    const records = () => Promise.all([...[first, middle, last, other].map(read), contactsOf(one), noteOf()]);
    const shown = async () => JSON.stringify(await records(), (name, value) => (name === 'updated_at' ? null : value));
    const before = await shown();
    const merges = [await merge(first, middle), await merge(last, first), await merge(other, last)];
    await refused(merges[0]!, merges[1]!, [first, last]);
    await refused(merges[1]!, merges[2]!, [last, other]);
    for (const change of merges.toReversed()) await undo(change);
    expect(await shown()).toBe(before);
  });

  test('follows that of the later merge, and everything is as before: companies', async () => {
    const [first, middle, last] = [await company(), await company(), await company()];
    const id = await contact({ company: { id: middle } });
    const one = await make(customer, '/opportunities', await opportunityBody(customer, { company_id: middle }));
    const companies = async () => [
      (await read(id)).company.id,
      (await customer.get(`/opportunities/${one}`)).body.company_id,
    ];
    const merges = [await mergeCompanies(first, middle), await mergeCompanies(last, first)];
    await refused(merges[0]!, merges[1]!, [first, last]);
    expect(await companies()).toEqual([last, last]);
    for (const change of merges.toReversed()) await undo(change);
    expect(await companies()).toEqual([middle, middle]);
  });

  test('takes nothing back if the record was merged after the job was started', async () => {
    const at = await list();
    const [first, middle, last] = [await contact(), await contact({ list_ids: [at] }), await contact()];
    const one = await merge(first, middle);
    const { body: job } = await customer.post(`/changes/${one}/undo`, {});
    const two = await merge(last, first);
    await workAtUndos(app, customer);
    const rows = await resultsOf(customer, job.id);
    expect(rows.find(({ item }) => item === middle)).toMatchObject({ status: 'skipped', reason: 'changed_since' });
    expect((await read(middle)).merged_into).toBe(last);
    for (const change of [two, one]) await undo(change);
    expect([(await read(first)).list_ids, (await read(middle)).list_ids]).toEqual([[], [at]]);
  });
});

test('an undo of several merges follows that of the later merge of any of them, or leaves its records out', async () => {
  const [first, middle, last] = [await company(), await company(), await company()];
  const [kept, gone] = [await company(), await company()];
  const id = await contact({ company: { id: middle } });
  // The page that merges equal records merges several groups in one request.
  const several = randomUUID();
  for (const [stays, ...merge_ids] of [
    [first, middle],
    [kept, gone],
  ] as const)
    await app.db
      .for({ customerId: customer.id, changeId: several, actor: { type: 'service' } }, 'page')
      .transaction((sql) => mergeAllCompanies(sql, customer.id, { id: stays, merge_ids }));
  const later = await mergeCompanies(last, first);
  expect(await customer.post(`/changes/${several}/undo`, {})).toMatchObject({
    status: 409,
    body: { message: expect.stringContaining(later) as string },
  });
  await undo(later);
  const { body: job } = await customer.post(`/changes/${several}/undo`, {});
  await mergeCompanies(last, first);
  await workAtUndos(app, customer);
  const rows = await resultsOf(customer, job.id);
  expect(rows.find(({ item }) => item === middle)).toMatchObject({ status: 'skipped', reason: 'changed_since' });
  expect(rows.find(({ item }) => item === gone)).toMatchObject({ status: 'succeeded' });
  expect((await read(id)).company.id).toBe(last);
});

describe('a record into which another was merged', () => {
  test.each([
    ['/contacts', contactBody, merge],
    ['/company', companyBody, mergeCompanies],
  ] as const)('stays when its creation is undone: %s', async (path, body, mergeAll) => {
    const gone = await make(customer, path, body());
    const kept = await make(customer, path, body());
    const creation = await newestChange();
    const before = (await customer.get(`${path}/${kept}`)).body;
    const change = await mergeAll(kept, gone);
    expect((await customer.get(`${path}/${kept}`)).body.updated_at).toBe(before.updated_at);
    expect((await undo(creation)).results).toMatchObject([{ status: 'skipped', reason: 'changed_since' }]);
    expect((await customer.get(`${path}/${kept}`)).body.id).toBe(kept);
    await undo(change);
    expect((await undo(creation)).results).toMatchObject([{ status: 'succeeded' }]);
    expect((await customer.get(`${path}/${gone}`)).body.id).toBe(gone);
  });

  test('before it was deleted does not keep the undo of that deletion from being undone', async () => {
    const [kept, gone] = [await contact(), await contact()];
    await merge(kept, gone);
    const { id } = await undo(await changeOf(customer.delete(`/contacts/${kept}`)));
    expect((await undo(id)).results).toMatchObject([{ status: 'succeeded' }]);
    expect((await customer.get(`/contacts/${kept}`)).status).toBe(404);
  });
});

test('a contact that got a company by a merge belongs to its deleted company again', async () => {
  const [deleted, other] = [await company(), await company()];
  const stayed = await contact({ company: { id: deleted } });
  const deletion = await changeOf(customer.delete(`/company/${deleted}`));
  const merged = await merge(stayed, await contact({ company: { id: other } }));
  expect((await read(stayed)).company.id).toBe(other);
  await undo(merged);
  expect((await read(stayed)).company.id).toBeNull();
  await undo(deletion);
  expect((await read(stayed)).company.id).toBe(deleted);
});

test('a company that is restored gets back a contact that was merged with others meanwhile', async () => {
  const company = await make(customer, '/company', companyBody());
  const [kept, gone] = [await contact({ company: { id: company } }), await contact()];
  const deletion = await changeOf(customer.delete(`/company/${company}`));
  await merge(kept, gone);
  expect((await read(kept)).company.id).toBeNull();
  await undo(deletion);
  expect((await read(kept)).company.id).toBe(company);
});

describe('a record that was restored, changed and deleted again', () => {
  test.each([
    ['/contacts', contactBody, { job_title: 'New' }],
    ['/company', companyBody, { industry: 'New' }],
    ['/products', () => ({ name: 'Chair', price: 1, unit: 'piece' }), { name: 'New' }],
    ['/opportunities', () => opportunityBody(customer), { name: 'New' }],
    ['/list-contact', () => ({ name: 'List' }), { name: 'New' }],
  ] as const)('is restored by the undo of its last deletion only: %s', async (path, body, change) => {
    const { body: made } = await customer.post(path, await body());
    const id = made.id ?? made.data.id;
    const first = await changeOf(customer.delete(`${path}/${id}`));
    await undo(first);
    await customer.patch(`${path}/${id}`, change);
    const second = await changeOf(customer.delete(`${path}/${id}`));
    expect((await undo(first)).results).toMatchObject([{ item: id, status: 'failed', reason: 'gone' }]);
    // A company that is gone is null.
    expect((await customer.get(`${path}/${id}`)).body?.id).toBeUndefined();
    expect((await undo(second)).results).toMatchObject([{ item: id, status: 'succeeded' }]);
    expect((await customer.get(`${path}/${id}`)).body).toMatchObject(change);
  });

  test('by a merge leaves the other contact in the lists that it got since', async () => {
    const at = await list();
    const [kept, gone] = [await contact(), await contact({ list_ids: [at] })];
    const change = await merge(kept, gone);
    await undo(change);
    await customer.patch(`/contacts/${kept}`, { list_ids: [at] });
    await customer.delete(`/contacts/${gone}`);
    expect((await undo(change)).results).toMatchObject([{ item: gone, status: 'failed', reason: 'gone' }]);
    expect((await read(kept)).list_ids).toEqual([at]);
  });
});

describe('a company that is deleted by now', () => {
  test('is not given back to a contact, which keeps the company that it has', async () => {
    const [old, current] = [await company(), await company()];
    const id = await contact({ company: { id: old }, job_title: 'Clerk' });
    const change = await patch(id, { company: { id: current }, job_title: 'Baker' });
    const deletion = await changeOf(customer.delete(`/company/${old}`));
    const { results } = await undo(change);
    expect(results).toMatchObject([
      { status: 'succeeded', reason: 'gone', result: { restored: ['job_title'], kept: [{ field: 'company' }] } },
    ]);
    expect(await read(id)).toMatchObject({ company: { id: current }, job_title: 'Clerk' });
    await undo(deletion);
    await undo(change);
    expect(await read(id)).toMatchObject({ company: { id: old } });
  });

  test('gets a deleted contact back with its own undo', async () => {
    const old = await company();
    const id = await contact({ company: { id: old } });
    const deletion = await changeOf(customer.delete(`/contacts/${id}`));
    const deletionOfCompany = await changeOf(customer.delete(`/company/${old}`));
    await undo(deletion);
    expect(await read(id)).toMatchObject({ company: { id: null } });
    await undo(deletionOfCompany);
    expect(await read(id)).toMatchObject({ company: { id: old } });
  });
});

describe('the undo of a merge of contacts moves a membership back', () => {
  test('only where the contact that stayed still has it', async () => {
    const [left, stays] = [await list('Left'), await list('Stays')];
    const [kept, gone] = [await contact(), await contact({ list_ids: [left, stays] })];
    const [one, two] = [await deal([gone]), await deal([gone])];
    const change = await merge(kept, gone);
    await customer.patch(`/contacts/${kept}`, { list_ids: [stays] });
    await customer.patch(`/opportunities/${one}`, { contacts_ids: [] });
    await undo(change);
    expect((await read(gone)).list_ids).toEqual([stays]);
    expect((await read(kept)).list_ids).toEqual([]);
    expect([await contactsOf(one), await contactsOf(two)]).toEqual([[], [gone]]);
  });

  test('also if the contact that stayed was deleted since', async () => {
    const at = await list();
    const [kept, gone] = [await contact(), await contact({ list_ids: [at] })];
    const one = await deal([gone]);
    const change = await merge(kept, gone);
    await customer.delete(`/contacts/${kept}`);
    await undo(change);
    expect((await read(gone)).list_ids).toEqual([at]);
    expect(await contactsOf(one)).toEqual([gone]);
  });

  test.each([
    ['first', 0],
    ['last', 1],
  ])('and leaves it to the contact that stayed while another merge stands: the %s is undone', async (_name, index) => {
    const at = await list();
    const kept = await contact();
    const gone = [await contact({ list_ids: [at] }), await contact({ list_ids: [at] })];
    const one = await deal(gone);
    const merges = [await merge(kept, gone[0]!), await merge(kept, gone[1]!)];
    await undo(merges[index]!);
    expect((await read(kept)).list_ids).toEqual([at]);
    expect((await contactsOf(one)).toSorted()).toEqual([kept, gone[index]!].toSorted());
    expect((await read(gone[index]!)).list_ids).toEqual([at]);
    await undo(merges[1 - index]!);
    expect((await read(kept)).list_ids).toEqual([]);
    expect((await contactsOf(one)).toSorted()).toEqual(gone.toSorted());
  });

  test('and leaves the order of contacts that was written since', async () => {
    const [kept, gone, third] = [await contact(), await contact(), await contact()];
    const one = await deal([gone, third, kept]);
    const change = await merge(kept, gone);
    expect(await contactsOf(one)).toEqual([kept, third]);
    await customer.patch(`/opportunities/${one}`, { contacts_ids: [third, kept] });
    await customer.patch(`/opportunities/${one}`, { contacts_ids: [kept, third] });
    await undo(change);
    expect((await contactsOf(one)).filter((id: string) => id !== gone)).toEqual([kept, third]);
    expect(await contactsOf(one)).toContain(gone);
  });

  test('and the contacts of an opportunity to their order', async () => {
    const [kept, gone, third] = [await contact(), await contact(), await contact()];
    const one = await deal([gone, third, kept]);
    await undo(await merge(kept, gone));
    expect(await contactsOf(one)).toEqual([gone, third, kept]);
  });
});
