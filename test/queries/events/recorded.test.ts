import { beforeEach, expect, test } from 'vitest';
import { readEvents, type FeedPosition } from '../../../src/queries/records/feed.ts';
import { saveVerifications } from '../../../src/queries/crm/enrichment.ts';
import { visitorOf } from '../../pages/visitor.ts';
import { contactsCsv, importFile, newContacts } from '../../jobs/importing.ts';
import { startApp } from '../../setup/app.ts';
import {
  companyBody,
  contactBody,
  make,
  makeCustomer,
  opportunityBody,
  type TestCustomer,
} from '../../setup/factories.ts';
let customer: TestCustomer;
let after: FeedPosition;

const app = await startApp();
beforeEach(async () => {
  customer = await makeCustomer(app.fastify);
  after = { position: 0, id: null };
});

/** Returns the events since the last call, without their times, who made them and their changes. */
async function news(): Promise<object[]> {
  const { events, next, isMore } = await readEvents(app.db, customer.id, { after, limit: 1_000 });
  expect(isMore).toBe(false);
  after = next;
  by = events.map(({ data }) => ({ actor: data['actor'], change: data['change_id'] }));
  return events.map(({ type, data: { actor: _actor, change_id: _change, ...data } }) => ({ ...data, type }));
}

/** Who made the events that `news` has returned last, and the changes of which they are a part. */
let by: { actor: unknown; change: unknown }[];

const ok = (answer: { status: number }) => expect(answer.status).toBeLessThan(300);

test('every event says who made it, and all events of one call, import or job have one change', async () => {
  const key = { type: 'key', id: customer.keyId };
  await customer.post('/contacts/batch/create', { items: [contactBody(), contactBody()] });
  await news();
  expect(by.map(({ actor }) => actor)).toEqual([key, key]);
  const [first, second] = by;
  expect(first!.change).toBe(second!.change);
  await make(customer, '/contacts', contactBody());
  await news();
  expect(by[0]!.change).not.toBe(first!.change);
  const visitor = await visitorOf(app.fastify, customer.id);
  await visitor.submit('/app/companies/new', { company_name: 'Acme', type: 'customer' });
  expect(await news()).toMatchObject([{ type: 'company.created', source: 'page' }]);
  expect(by).toMatchObject([{ actor: { type: 'user', id: expect.any(String), name: expect.stringContaining('@') } }]);
  const { id } = await importFile(app, customer, newContacts, contactsCsv('A,B,a@example.com,', 'C,D,c@example.com,'));
  await news();
  expect(by).toEqual(Array.from({ length: 3 }, () => ({ actor: key, change: id })));
});

test('what follows from a change elsewhere makes no event', async () => {
  const company = await make(customer, '/company', companyBody());
  const contact = await make(customer, '/contacts', contactBody({ company: { id: company } }));
  const { id: list } = (await customer.post('/list-contact', { name: 'L', description: '' })).body;
  const deal = await make(
    customer,
    '/opportunities',
    await opportunityBody(customer, { company_id: company, contacts_ids: [contact] }),
  );
  await news();
  ok(await customer.patch(`/company/${company}`, { company_name: 'Renamed' }));
  ok(await customer.patch(`/contacts/${contact}`, { list_ids: [list] }));
  ok(await customer.post('/list-contact-details/remove-contacts', { list_id: list, contact_ids: [contact] }));
  ok(await customer.delete(`/company/${company}`));
  ok(await customer.patch(`/contacts/${contact}`, { company: null }));
  ok(await customer.patch(`/opportunities/${deal}`, { company_id: null }));
  ok(await customer.delete(`/contacts/${contact}`));
  expect((await news()).map((event) => (event as { type: string }).type)).toEqual([
    'company.updated',
    'company.deleted',
    'contact.deleted',
  ]);
});

test('a contact makes events of its company, its verification and its products', async () => {
  const answer = await customer.post('/contacts', contactBody({ external_id: 'x1', company: { name: 'Made' } }));
  const { id } = answer.body.data;
  expect(await news()).toMatchObject([
    { type: 'company.created', external_id: null },
    { type: 'contact.created', id, external_id: 'x1' },
  ]);
  const { work_email: address } = (await customer.get(`/contacts/${id}`)).body;
  await app.db.transaction((sql) =>
    saveVerifications(sql, customer.id, [{ address, status: 'verified', contactId: id }]),
  );
  expect(await news()).toMatchObject([
    { changed: ['verification_status', 'last_verified', 'crm_synced_at'], source: 'command' },
  ]);
  ok(await customer.patch(`/contacts/${id}`, { work_email: 'other@example.com', company: null }));
  const changed = ['work_email', 'company', 'verification_status', 'last_verified'];
  expect(await news()).toMatchObject([{ type: 'contact.updated', id, external_id: 'x1', changed }]);
});
