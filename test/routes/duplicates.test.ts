import { expect, test } from 'vitest';
import type { Sql } from '../../src/database/db.ts';
import { lowestId } from '../../src/database/connection.ts';
import { turnQueues } from '../../src/jobs/workers.ts';
import { findCountingCustomers } from '../../src/queries/crm/duplicates.ts';
import { beginImport, contactLines, contactsCsv, sendFile, workAtAll } from '../jobs/importing.ts';
import { contextOf, waitingMessages } from '../jobs/working.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, make } from '../setup/factories.ts';

const app = await startApp();

const customer = customerOfEachTest(app);

const contact = (more: object): Promise<string> => make(customer, '/contacts', contactBody(more));
const company = (company_name: string): Promise<string> => make(customer, '/company', companyBody({ company_name }));
const contacts = (by: string, paginate?: object) => customer.post('/contacts/duplicates', { by, paginate });
const companies = (by: string, paginate?: object) => customer.post('/company/duplicates', { by, paginate });
/** Counts duplicates as a worker does. */
const count = () => turnQueues['count-duplicates'].handle(contextOf(app), { customerId: customer.id });

test('duplicates by one value are as of now, by folded form, the most frequent first, with the oldest record first', async () => {
  const a = [await contact({ work_email: 'a@example.com' }), await contact({ work_email: 'A@example.com' })];
  const b: string[] = [];
  for (const _ of 'bbb') b.push(await contact({ work_email: 'b@example.com' }));
  await contact({ work_email: 'c@example.com' });
  await (await app.customer()).post('/contacts', contactBody({ work_email: 'c@example.com' }));
  const groups = [
    { value: 'b@example.com', count: 3, ids: b },
    { value: 'a@example.com', count: 2, ids: a },
  ];
  expect((await contacts('work_email')).body).toEqual(groups);
  expect((await contacts('work_email', { page: 2, limit: 1 })).body).toEqual([groups[1]]);
  expect((await contacts('work_email', { page: 3, limit: 1 })).body).toEqual([]);
  const { headers } = await contacts('work_email', { limit: 1 });
  const cursor = headers['x-next-cursor'];
  expect((await contacts('profnet_url', { limit: 1, cursor })).status).toBe(400);
  await customer.post('/contacts/merge', { id: b[0], merge_ids: b.slice(1) });
  expect((await contacts('work_email', { limit: 1, cursor })).body).toEqual([groups[1]]);
  await customer.delete(`/contacts/${a[0]}`);
  expect((await contacts('work_email')).body).toEqual([]);
});

test('duplicates by one value take profile URLs of any length, and leave out contacts without one, and with a URL that identifies nobody', async () => {
  const url = `https://example.com/in/${'ü'.repeat(2_000)}`;
  const ids = [await contact({ profnet_url: url }), await contact({ profnet_url: url.toUpperCase() })];
  for (const profnet_url of [null, 'none', 'https://www.linkedin.com/in/', 'linkedin.com/in/-?x=y/z'])
    for (let i = 0; i < 2; i += 1) await contact({ profnet_url });
  const { body } = await contacts('profnet_url');
  expect(body).toEqual([{ value: url.replaceAll('ü', 'u'), count: 2, ids }]);
});

test('duplicates by one value of companies leave out deleted ones', async () => {
  const ids = [await company('Ärzte Haus'), await company('ARZTE  haus'), await company('Other')];
  expect((await companies('name')).body).toEqual([{ value: 'arzte haus', count: 2, ids: ids.slice(0, 2) }]);
  await customer.delete(`/company/${ids[0]}`);
  expect((await companies('name')).body).toEqual([]);
});

test('duplicates by one value show the hundred oldest records of a large group', async () => {
  const items = Array.from({ length: 120 }, () => contactBody());
  const { body } = await customer.post('/contacts/batch/create', { items });
  const ids = body.data.results.map(({ id }: { id: string }) => id);
  expect((await contacts('work_email')).body).toEqual([
    { value: 'ada@example.com', count: 120, ids: ids.slice(0, 100) },
  ]);
});

test('duplicates that workers count are 503 with Retry-After until the first count, and then say when it began', async () => {
  const ids = [await company('ACME, Inc.'), await company('Acme Incorporated'), await company('Acme Bakery')];
  const before = await companies('external_name');
  expect(before).toMatchObject({ status: 503, headers: { 'retry-after': '5' }, body: { code: 'unavailable' } });
  expect(await waitingMessages(app, 'count-duplicates', customer.id)).toBe(1);
  const begun = Date.now();
  await count();
  const { status, headers, body } = await companies('external_name');
  expect([status, body]).toEqual([200, [{ value: 'acme', count: 2, ids: ids.slice(0, 2) }]]);
  expect(Math.abs(Date.parse(headers['x-as-of'] as string) - begun)).toBeLessThan(60_000);
});

test('duplicates that workers have not yet counted stay 503 when an import ends, which makes only counted ones due', async () => {
  const importOne = async () => {
    await sendFile(customer, await beginImport(customer), contactsCsv(...contactLines(1)));
    await workAtAll(app, customer);
  };
  await contacts('name_and_company');
  await importOne();
  expect((await contacts('name_and_company')).status).toBe(503);
  await count();
  const counted = (await contacts('name_and_company')).headers['x-as-of'];
  await importOne();
  expect(Date.parse((await contacts('name_and_company')).headers['x-as-of'] as string)).toBeLessThan(
    Date.parse(counted as string),
  );
});

test('duplicates that workers count compare the names and the company of contacts; one without either makes no group', async () => {
  const given = { first_name: 'Zoë', last_name: 'Ångström', company: { name: 'Acme' } };
  const ids = [await contact(given), await contact({ ...given, first_name: 'ZOE' })];
  await contact({ ...given, company: { name: 'Other' } });
  for (const _ of 'ab') await contact({ first_name: 'No', last_name: 'Company' });
  await contacts('name_and_company');
  await count();
  expect((await contacts('name_and_company')).body).toEqual([{ value: 'zoe angstrom, acme', count: 2, ids }]);
});

const age = (column: string, minutes: number) => app.owner`
  update duplicate_counts set ${app.owner(column)} = now() - ${minutes} * interval '1 minute' where customer_id = ${customer.id}`;

async function isDue(): Promise<boolean> {
  const due = (sql: Sql) => findCountingCustomers(sql, { after: lowestId, limit: 1_000 });
  return (await app.db.search(due)).includes(customer.id);
}

test('duplicates that workers count are counted again if a customer with few records asks after a minute, once for many callers', async () => {
  await company('Acme');
  await companies('external_name');
  await count();
  await company('Acme AG');
  const askThrice = () => Promise.all([1, 2, 3].map(() => companies('external_name')));
  const waiting = () => waitingMessages(app, 'count-duplicates', customer.id);
  await askThrice();
  const before = await waiting();
  expect(await isDue()).toBe(false);
  await age('counted_at', 2);
  for (const { status, body } of await askThrice()) expect([status, body]).toEqual([200, []]);
  expect([await isDue(), (await waiting()) - before]).toEqual([true, 1]);
  await count();
  expect((await companies('external_name')).body).toMatchObject([{ count: 2 }]);
  await app.owner`update journal set contacts = 20000 where customer_id = ${customer.id}`;
  await age('counted_at', 2);
  await askThrice();
  expect(await isDue()).toBe(false);
});

test('duplicates that workers count are never older than 15 minutes, counted again after 10, and forgotten a day after the last question', async () => {
  await company('Acme');
  await companies('external_name');
  await count();
  await company('Acme AG');
  expect((await companies('external_name')).body).toEqual([]);
  expect(await isDue()).toBe(false);
  await age('counted_at', 11);
  expect(await isDue()).toBe(true);
  await age('counted_at', 16);
  expect((await companies('external_name')).status).toBe(503);
  await count();
  expect((await companies('external_name')).body).toMatchObject([{ count: 2 }]);
  await age('asked_at', 24 * 60 + 1);
  expect(await isDue()).toBe(true);
  await count();
  expect(await app.owner`select from duplicate_counts where customer_id = ${customer.id}`).toHaveLength(0);
  expect(await app.owner`select from duplicate_groups where customer_id = ${customer.id}`).toHaveLength(0);
});
