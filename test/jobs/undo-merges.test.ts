import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { mergeCompanies as mergeAllCompanies } from '../../src/queries/crm/record-merges.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody } from '../setup/factories.ts';
import { undoing } from './undoing.ts';
import { resultsOf } from './spending.ts';
import { workAtUndos } from './working.ts';

const app = await startApp();
const { customer, undo, newestChange, changeOf } = undoing(app);

const contact = (more: object = {}) => make(customer, '/contacts', contactBody(more));
const company = (more: object = {}) => make(customer, '/company', companyBody(more));
const list = async (name = 'List') => (await customer.post('/list-contact', { name })).body.id as string;
const deal = async (contacts_ids: string[]) =>
  make(customer, '/opportunities', await opportunityBody(customer, { contacts_ids }));
const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;
const contactsOf = async (id: string) => (await customer.get(`/opportunities/${id}`)).body.contacts_ids;
const merge = (id: string, ...merge_ids: string[]) => changeOf(customer.post('/contacts/merge', { id, merge_ids }));
const mergeCompanies = (id: string, ...merge_ids: string[]) =>
  changeOf(customer.post('/company/merge', { id, merge_ids }));

test.each([
  ['/contacts', contactBody, merge],
  ['/company', companyBody, mergeCompanies],
] as const)(
  'the undo of the second of two merges leaves what the first has merged with its record: %s',
  async (path, body, mergeAll) => {
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
  },
);

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

test('the undo of a merge whose record was merged itself follows that of the later merge, and everything is as before', async () => {
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

test.each([
  ['/contacts', contactBody, merge],
  ['/company', companyBody, mergeCompanies],
] as const)(
  'a record into which another was merged stays when its creation is undone: %s',
  async (path, body, mergeAll) => {
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
  },
);

test.each([
  ['/contacts', contactBody, { job_title: 'New' }],
  ['/opportunities', () => opportunityBody(customer), { name: 'New' }],
] as const)(
  'a record that was restored, changed and deleted again is restored by the undo of its last deletion only: %s',
  async (path, body, change) => {
    const id = await make(customer, path, await body());
    const first = await changeOf(customer.delete(`${path}/${id}`));
    await undo(first);
    await customer.patch(`${path}/${id}`, change);
    const second = await changeOf(customer.delete(`${path}/${id}`));
    expect((await undo(first)).results).toMatchObject([{ item: id, status: 'failed', reason: 'gone' }]);
    expect((await customer.get(`${path}/${id}`)).status).toBe(404);
    expect((await undo(second)).results).toMatchObject([{ item: id, status: 'succeeded' }]);
    expect((await customer.get(`${path}/${id}`)).body).toMatchObject(change);
  },
);

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
});
