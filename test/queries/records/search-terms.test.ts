import type postgres from 'postgres';
import { expect, test } from 'vitest';
import { companySource, contactSource, foldRecord } from '../../../src/filters/columns.ts';
import type { Source, Folded, RecordFields } from '../../../src/filters/columns.ts';
import { Terms } from '../../../src/filters/to-sql.ts';
import { indexRecords } from '../../../src/jobs/workers.ts';
import { saveVerifications } from '../../../src/queries/crm/enrichment.ts';
import { syncProspects } from '../../../src/queries/crm/crm-sync.ts';
import { person } from '../../catalog/people.ts';
import { contextOf } from '../../jobs/working.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { companyBody, contactBody, make } from '../../setup/factories.ts';
import { somebodyWaitsFor } from '../../setup/locks.ts';
import { startServerProcess } from '../../setup/server-process.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

/** A row of contacts or companies. */
type Row = RecordFields & { id: string; customer_id: string; folded: Folded; terms: number[] | null };

const rowsOf = (owner: postgres.Sql, { table }: Source): Promise<Row[]> =>
  owner<Row[]>`select * from ${owner(table)}`.then((rows) => [...rows]);

const byNumber = (a: number, b: number): number => a - b;

/** Expects that each record has exactly the terms of its present values. */
async function expectTerms(owner: postgres.Sql): Promise<void> {
  for (const source of [contactSource, companySource]) {
    for (const { id, customer_id, folded, terms, ...record } of await rowsOf(owner, source)) {
      const expected = new Terms(source, customer_id).ofRecord(folded, record);
      expect({ id, indexed: folded['indexed'], terms: terms?.toSorted(byNumber) }).toEqual({
        id,
        indexed: 'yes',
        terms: expected.toSorted(byNumber),
      });
    }
  }
}

const found = async (filters: object): Promise<string[]> =>
  (await customer.post('/contacts/list', { filters })).body.map(({ id }: { id: string }) => id);

test('every way to write a record writes its terms', async () => {
  const company = await make(customer, '/company', companyBody({ external_id: 'Co-1', custom_fields: { tier: 1 } }));
  const custom_fields = { plan: 'Gold', seats: 12.5, trial: true, 'odd key/~': 'x' };
  const rich = { external_id: 'Ext-1', birth_year: 1980, other_emails: ['one@x.example'], custom_fields };
  const contact = await make(customer, '/contacts', contactBody({ ...rich, company: { id: company } }));
  await make(customer, '/contacts', contactBody({ company: { name: 'Named', industry: 'Mills' } }));
  await customer.patch(`/contacts/${contact}`, { last_name: 'Byron', birth_year: null, custom_fields: { plan: null } });
  await customer.patch(`/contacts/${contact}`, { assigned_to: customer.adminId, external_id: 'Ext-2' });
  await customer.patch(`/company/${company}`, { company_name: 'Renamed', custom_fields: { tier: false } });
  const prospects = [person({ work_email: 'ada@example.com' }), person({ work_email: 'new@example.com' })];
  await app.db.transaction((sql) => syncProspects(sql, customer.id, prospects));
  const verified = { address: 'ada@example.com', status: 'verified' as const, contactId: contact };
  await app.db.transaction((sql) => saveVerifications(sql, customer.id, [verified]));
  await expectTerms(app.owner);
  await customer.delete(`/company/${company}`);
  await expectTerms(app.owner);
});

/** What a program that does not know the terms writes of a contact. */
function named(last_name: string) {
  const fields = { first_name: 'Ada', last_name, work_email: 'ada@example.com' };
  return { ...fields, folded: app.owner.json(foldRecord(contactSource, fields)) };
}

test('several processes add terms at once, two are killed, and no record is left without its terms', async () => {
  const { owner, url } = app;
  const rows = Array.from({ length: 1_200 }, (_, i) => ({ customer_id: customer.id, ...named(`Name ${i}`) }));
  const made = await owner<{ id: string }[]>`insert into contacts ${owner(rows)} returning id`;
  const ids = made.map(({ id }) => id);
  const tagOf = async (id: string) => (await customer.get(`/contacts/${id}`)).headers['etag'];
  const before = await tagOf(ids[7]!);
  const start = () => startServerProcess(url, {}, ['test/queries/index-records-process.ts']);
  const withTerms = async (): Promise<number> =>
    (await owner`select from contacts where customer_id = ${customer.id} and folded ? 'indexed'`).count;
  await owner.begin(async (holding) => {
    // No process comes to an end, because each waits for this contact.
    await holding`select from contacts where customer_id = ${customer.id} and id = ${ids.at(-1)!} for update`;
    const [first, second] = await Promise.all([start(), start()]);
    await expect.poll(withTerms, { interval: 5 }).toBeGreaterThan(0);
    await first.stop('SIGKILL');
    await owner`
      update contacts set ${owner(named('Byron'))}, updated_at = (select clock_timestamp())
      where customer_id = ${customer.id} and id = ${ids[0]!}`;
    await somebodyWaitsFor(holding, owner);
    await second.stop('SIGKILL');
    expect(await withTerms()).toBeLessThan(ids.length);
  });
  const [third] = await Promise.all([start(), indexRecords(contextOf(app), 60_000)]);
  expect(await third.ended).toBe(0);
  expect(await withTerms()).toBe(ids.length);
  await expectTerms(owner);
  expect(await tagOf(ids[7]!), 'for callers nothing has changed').toBe(before);
  expect(await found({ last_name: 'byron' })).toEqual([ids[0]]);
  expect(await found({ last_name: ['name 0', 'name 1199'] })).toEqual([ids.at(-1)]);
}, 60_000);
