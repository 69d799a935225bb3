import type postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { withoutTerms } from '../../../src/filters/narrowing.ts';
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

const found = async (filters: object, by = customer): Promise<string[]> =>
  (await by.post('/contacts/list', { filters })).body.map(({ id }: { id: string }) => id);

const rich = {
  external_id: 'Ext-1',
  birth_year: 1980,
  job_title: 'Analyst',
  other_emails: ['one@x.example'],
  custom_fields: { plan: 'Gold', seats: 12.5, trial: true, 'odd key/~': 'x' },
};

test('every way to write a record writes its terms', async () => {
  const company = await make(customer, '/company', companyBody({ external_id: 'Co-1', custom_fields: { tier: 1 } }));
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

/** The statements of a program that does not know the terms. */
const older = (sql: postgres.Sql, customerId: string) => ({
  insert: async (fields: { first_name: string; last_name: string; work_email: string }): Promise<string> => {
    const row = { customer_id: customerId, ...fields, folded: sql.json(foldRecord(contactSource, fields)) };
    const [contact] = await sql<{ id: string }[]>`insert into contacts ${sql(row)} returning id`;
    return contact!.id;
  },
  update: (id: string, fields: { first_name: string; last_name: string; work_email: string }) => sql`
    update contacts
    set ${sql({ ...fields, folded: sql.json(foldRecord(contactSource, fields)) })}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId} and id = ${id}`,
});

const named = (last_name: string) => ({ first_name: 'Ada', last_name, work_email: 'ada@example.com' });

/** A release of this program that stores one more text folded. */
const later: Source = {
  ...contactSource,
  searchVersion: contactSource.searchVersion + 1,
  columns: {
    ...contactSource.columns,
    verification_status: {
      type: 'text',
      isFolded: true,
      value: `(c.folded ->> 'verification_status') collate "C"`,
      raw: 'c.verification_status',
      required: true,
    },
  },
};

describe('a later release that stores another text folded', () => {
  const stored = (id: string) => rowsOf(app.owner, contactSource).then((rows) => rows.find((row) => row.id === id)!);

  test('gets the text and its terms for all records, reads none of them by its terms before, and runs beside this one', async () => {
    const id = await make(customer, '/contacts', contactBody(rich));
    const other = await make(customer, '/contacts', contactBody());
    expect((await stored(id)).folded).not.toHaveProperty('verification_status');
    const waiting = () =>
      app.owner`select from contacts c where ${app.owner.unsafe(withoutTerms(later))} and customer_id = ${customer.id}`;
    expect(await waiting()).toHaveLength(2);
    await indexRecords(contextOf(app), 60_000, [later]);
    expect(await waiting()).toHaveLength(0);
    for (const one of [id, other]) {
      const { customer_id, folded, terms, ...record } = await stored(one);
      expect(folded).toMatchObject({ verification_status: 'unverified', last_name: 'lovelace' });
      expect(terms!.toSorted(byNumber)).toEqual(
        new Terms(later, customer_id).ofRecord(folded, record).toSorted(byNumber),
      );
    }
    // The present release beside it undoes nothing, but does not know the text: the later one computes it again.
    expect(await indexRecords(contextOf(app), 60_000)).toBe(0);
    await customer.patch(`/contacts/${id}`, { last_name: 'Byron' });
    expect((await stored(id)).folded).not.toHaveProperty('verification_status');
    expect(await indexRecords(contextOf(app), 60_000, [later])).toBeGreaterThan(0);
    expect((await stored(id)).folded).toMatchObject({ verification_status: 'unverified', last_name: 'byron' });
  });
});

test('several processes add terms at once, two are killed, and no record is left without its terms', async () => {
  const { owner, url } = app;
  const program = older(owner, customer.id);
  const ids: string[] = [];
  for (let i = 0; i < 1_200; i += 1) ids.push(await program.insert(named(`Name ${i}`)));
  const tagOf = async (id: string) => (await customer.get(`/contacts/${id}`)).headers['etag'];
  const before = await tagOf(ids[7]!);
  const start = () => startServerProcess(url, {}, ['test/queries/index-records-process.ts']);
  const withTerms = async (): Promise<number> =>
    (await owner`select from contacts where customer_id = ${customer.id} and folded ? 'indexed'`).count;
  await owner.begin(async (holding) => {
    // No process comes to an end, because each waits for this contact.
    await holding`select from contacts where customer_id = ${customer.id} and id = ${ids.at(-1)!} for update`;
    const [first, second] = await Promise.all([start(), start()]);
    await expect.poll(withTerms, { timeout: 30_000, interval: 5 }).toBeGreaterThan(0);
    await first.stop('SIGKILL');
    await program.update(ids[0]!, named('Byron'));
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
