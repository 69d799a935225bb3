import { expect, test } from 'vitest';
import { saveVerifications } from '../../src/queries/crm/enrichment.ts';
import { syncProspects } from '../../src/queries/crm/crm-sync.ts';
import { markRemovalRequested } from '../../src/queries/crm/deletions.ts';
import { withDeferredWrites } from '../../src/queries/records/deferred-writes.ts';
import {
  mergeCompanies as mergeCompaniesInTransaction,
  mergeContacts as mergeInTransaction,
} from '../../src/queries/crm/record-merges.ts';
import { forgetOldMerges } from '../../src/queries/records/merged-records.ts';
import { person } from '../catalog/people.ts';
import { wrongCounts } from '../queries/memberships/recount.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { companyBody, contactBody, make } from '../setup/factories.ts';
import type { Answer } from '../setup/factories.ts';
import { addTotals, readJournal, truncateJournalOf } from '../setup/journal.ts';

const app = await startApp();

const customer = customerOfEachTest(app);

const contact = (more: object = {}): Promise<string> => make(customer, '/contacts', contactBody(more));
const company = (more: object = {}): Promise<string> => make(customer, '/company', companyBody(more));
const read = async (path: string, id: string) => (await customer.get(`${path}/${id}`)).body;
const merge = (path: string, id: string, merge_ids: string[], fields?: object): Promise<Answer> =>
  customer.post(`${path}/merge`, { id, merge_ids, ...(fields && { fields }) });
const mergeContacts = (id: string, ids: string[], fields?: object) => merge('/contacts', id, ids, fields);
const mergeCompanies = (id: string, ids: string[], fields?: object) => merge('/company', id, ids, fields);

/** Expects that all counts and memberships equal those computed anew from the rows. */
const expectExact = async (): Promise<void> => expect(await wrongCounts(customer, app.owner)).toEqual([]);

test('a merge of contacts takes the values that `fields` chooses, empty ones too, and the verification of the kept address', async () => {
  const id = await contact({ work_email: 'a@example.com', job_title: 'Analyst', custom_fields: { a: 1 } });
  const other = await contact({ work_email: 'b@example.com', last_name: 'Byron', custom_fields: { b: 2 } });
  const verified = { customerId: customer.id, at: '2026-01-02T03:04:05.678Z' };
  await app.owner`
      update contacts set verification_status = 'verified', last_verified = ${verified.at}, score = 70 where id = ${other}`;
  const fields = { work_email: other, job_title: other, last_name: other, custom_fields: id, other_emails: other };
  expect((await mergeContacts(id, [other], fields)).status).toBe(200);
  expect(await read('/contacts', id)).toMatchObject({
    work_email: 'b@example.com',
    job_title: '',
    last_name: 'Byron',
    custom_fields: { a: 1 },
    other_emails: null,
    verification_status: 'verified',
    last_verified: verified.at,
    score: 70,
  });
});

test('a merge of contacts is refused as a whole if an id is unknown, foreign, named twice or outside the merge', async () => {
  const [id, other] = [await contact(), await contact()];
  const foreign = await make(await app.customer(), '/contacts', contactBody());
  const errors = async (answer: Promise<Answer>, status: number) => {
    const { status: found, body } = await answer;
    expect(found).toBe(status);
    return body.errors.map(({ path }: { path: string }) => path);
  };
  expect(await errors(mergeContacts(id, [other, foreign]), 404)).toEqual(['/merge_ids/1']);
  expect(await errors(mergeContacts(foreign, [other]), 404)).toEqual(['/id']);
  expect(await errors(mergeContacts(id, [other, id]), 400)).toEqual(['/merge_ids/1']);
  expect(await errors(mergeContacts(id, [other, other.toUpperCase()]), 400)).toEqual(['/merge_ids/1']);
  expect(await errors(mergeContacts(id, [other], { job_title: foreign }), 400)).toEqual(['/fields/job_title']);
  expect((await mergeContacts(id, [other], { score: id })).status).toBe(400);
  expect((await mergeContacts(id, [])).status).toBe(400);
  expect((await read('/contacts', other)).id).toBe(other);
  const updater = await customer.withScopes(['contacts:update']);
  expect((await updater.post('/contacts/merge', { id, merge_ids: [other] })).status).toBe(403);
});

test('a merge of contacts with more than 20 addresses or numbers is 409, unless `fields` chooses', async () => {
  const emails = (name: string) => Array.from({ length: 11 }, (_, i) => `${name}${i}@example.com`);
  const id = await contact({ other_emails: emails('a') });
  const other = await contact({ other_emails: emails('b') });
  expect(await mergeContacts(id, [other])).toMatchObject({ status: 409, body: { code: 'conflict' } });
  expect((await read('/contacts', other)).id).toBe(other);
  expect((await mergeContacts(id, [other], { other_emails: other })).status).toBe(200);
  expect((await read('/contacts', id)).other_emails).toEqual(emails('b'));
});

test('a merge of contacts gives no number twice, also not the mobile phone of the one that stays', async () => {
  const [mobile, office] = ['1711234567', '8912345678'].map((number) => ({ country_code: '+49', number }));
  const id = await contact({ phone_numbers: [], mobile_phone: '+49 171 1234567' });
  const other = await contact({ phone_numbers: [mobile, office], mobile_phone: '+49 89 12345678' });
  expect((await mergeContacts(id, [other])).status).toBe(200);
  expect(await read('/contacts', id)).toMatchObject({ phone_numbers: [office], mobile_phone: '+49 171 1234567' });
});

test('a merge of companies moves up to 5,000 contacts at once, and is refused for more', async () => {
  const [id, other] = [await company(), await company()];
  const fill = (count: number) => app.owner`
      insert into contacts (customer_id, first_name, last_name, work_email, company_id, folded)
      select ${customer.id}, 'A', 'B', '', ${other}, '{"last_name": "b", "work_email": ""}' from generate_series(1, ${count})`;
  await fill(5_001);
  expect(await mergeCompanies(id, [other])).toMatchObject({ status: 409, body: { code: 'conflict' } });
  await app.owner`
      delete from contacts where id = (select id from contacts where customer_id = ${customer.id} limit 1)`;
  await addTotals(app.owner, customer.id, { contacts: 5_000 });
  expect((await mergeCompanies(id, [other])).status).toBe(200);
  expect(
    (await customer.post('/contacts/metadata', { filters: { company_id: id } })).body.pagination.total_records,
  ).toBe(5_000);
  await expectExact();
});

const upsert = async (external_id: string, more: object = {}) => {
  const items = [{ external_id, ...more }];
  const { body } = await customer.post('/contacts/batch/upsert', { match: 'external_id', items });
  return body.data.results[0];
};

test('what names a merged record is 404 with its successor, and without one once that is deleted, when its external id is free', async () => {
  const [a, b] = [await contact({ external_id: 'gone' }), await contact({ external_id: 'b' })];
  const [c, d] = [await company(), await company()];
  await mergeContacts(b, [a]);
  await mergeCompanies(d, [c]);
  const merged = { code: 'not_found', message: 'No such contact', merged_into: b };
  expect(await customer.get(`/contacts/${a}`)).toMatchObject({ status: 404, body: merged });
  await customer.delete(`/contacts/${b}`);
  await customer.delete(`/company/${d}`);
  const { status, body } = await customer.get(`/contacts/${a}`);
  expect([status, 'merged_into' in body]).toEqual([404, false]);
  expect(await upsert('gone', contactBody())).toMatchObject({ status: 'created' });
});

test('what names a merged record is forgotten after 400 days', async () => {
  const [id, other] = [await contact(), await contact({ external_id: 'old' })];
  await contact({ external_id: 'kept' });
  await mergeContacts(id, [other], { external_id: id });
  await app.owner`
      update merged_records set merged_at = now() - interval '401 days' where customer_id = ${customer.id}`;
  expect((await customer.get(`/contacts/${other}`)).body).not.toHaveProperty('merged_into');
  expect(await upsert('old')).toMatchObject({ status: 'failed' });
  expect(await app.db.transaction(forgetOldMerges)).toBeGreaterThan(0);
  expect(await app.owner`select from merged_records where customer_id = ${customer.id}`).toHaveLength(0);
});

const requestRemoval = (prospectId: string) =>
  app.db
    .for({ customerId: customer.id }, 'command')
    .transaction((sql) =>
      withDeferredWrites(sql, customer.id, (deferred) =>
        markRemovalRequested(sql, customer.id, [prospectId], deferred),
      ),
    );
const fromProspects = async (): Promise<[prospects: string[], contacts: string[]]> => {
  const prospects = [0, 1].map(() => person({ work_email: `${crypto.randomUUID()}@x.example` }));
  const contacts = await app.db.transaction((sql) => syncProspects(sql, customer.id, prospects));
  return [prospects.map(({ _id }) => _id), prospects.map(({ _id }) => contacts.get(_id)!)];
};

test('the request of a person to be removed stays with the contact that stays, from its first time on', async () => {
  const ids = [await contact(), await contact(), await contact()];
  const [late, early] = ['2026-03-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z'];
  await app.owner`update contacts set removal_requested_at = ${late} where id = ${ids[1]!}`;
  await app.owner`update contacts set removal_requested_at = ${early} where id = ${ids[2]!}`;
  await truncateJournalOf(app.owner, customer.id);
  await mergeContacts(ids[0]!, [ids[1]!, ids[2]!]);
  expect((await read('/contacts', ids[0]!)).removal_requested_at).toBe(early);
  const [first] = await readJournal(app.owner, customer.id);
  expect(first!.data['changed']).toEqual(['removal_requested_at']);
});

/** Lets something wait for a merge that is under way, and repeats it if it could not wait. */
async function whileMerging<T>(merge: Parameters<typeof app.db.transaction>[0], act: () => Promise<T>): Promise<T> {
  const { acting } = await app.db.transaction(async (sql) => {
    await merge(sql);
    const acting = act().catch((error: { code: string }) => (error.code === 'unavailable' ? undefined : error));
    await somebodyWaitsFor(sql, app.owner);
    return { acting };
  });
  return ((await acting) as T | undefined) ?? act();
}
const mergeInto = (id: string, merged: string) => (sql: Parameters<typeof mergeInTransaction>[0]) =>
  mergeInTransaction(sql, customer.id, { id, merge_ids: [merged] });

test('the request of a person to be removed reaches the contact into which an earlier merge was merged in turn, while it is merged', async () => {
  const [prospects, [stays, goes]] = await fromProspects();
  await mergeContacts(stays!, [goes!]);
  const last = await contact();
  await whileMerging(mergeInto(last, stays!), () => requestRemoval(prospects[1]!));
  expect((await read('/contacts', last)).removal_requested_at).not.toBeNull();
});

test('a merge that races with a later unlock of a merged prospect makes no second contact', async () => {
  const prospects = [person({ work_email: 'one@example.com' }), person({ work_email: 'two@example.com' })];
  const sync = (some: typeof prospects) => app.db.transaction((sql) => syncProspects(sql, customer.id, some));
  const [stays, goes] = [...(await sync(prospects)).values()];
  await mergeContacts(stays!, [goes!], { other_emails: stays! });
  await whileMerging(mergeInto(await contact(), stays!), () => sync([prospects[1]!]));
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(1);
});

test('a contact that is created with the name of a company that is merged meanwhile has a company', async () => {
  const [id, gone] = [await company(), await company({ company_name: 'Gone Ltd' })];
  const { body } = await whileMerging(
    (sql) => mergeCompaniesInTransaction(sql, customer.id, { id, merge_ids: [gone] }),
    () => customer.post('/contacts', contactBody({ company: { name: 'gone ltd' } })),
  );
  expect((await read('/contacts', body.data.id)).company.id).not.toBeNull();
});

test('a verification of a contact that is merged meanwhile is stored with the contact that stays', async () => {
  const work_email = 'one@example.com';
  const [kept, merged] = [await contact({ work_email }), await contact({ work_email })];
  const given = { address: work_email, status: 'invalid' as const, contactId: merged };
  await whileMerging(mergeInto(kept, merged), () =>
    app.db.transaction((sql) => saveVerifications(sql, customer.id, [given])),
  );
  expect((await read('/contacts', kept)).verification_status).toBe('invalid');
});
