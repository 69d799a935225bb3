import { beforeAll, beforeEach, expect, test } from 'vitest';
import { importFile } from '../jobs/importing.ts';
import { workAtUndos } from '../jobs/working.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../setup/factories.ts';
import { textOf, visitorOf } from './visitor.ts';

let app: TestApp;
let customer: TestCustomer;
let admin: Awaited<ReturnType<typeof visitorOf>>;
beforeAll(async () => {
  app = await startApp();
});
beforeEach(async () => {
  customer = await app.customer();
  admin = await visitorOf(app.fastify, customer.id);
});

/** Works at the undo that a form has started. */
async function work(location: unknown): Promise<void> {
  expect(location).toMatch(/^\/app\/jobs\/[0-9a-f-]{36}$/);
  await workAtUndos(app, customer);
  expect(textOf(await admin.get(String(location)))).toContain('completed');
}

const undoPath = (html: string): string => /href="(\/app\/changes\/[0-9a-f-]{36}\/undo)"/.exec(html)![1]!;

test("a contact's page tells who changed what, and each change can be taken back", async () => {
  const id = await make(customer, '/contacts', contactBody({ job_title: 'Clerk' }));
  await customer.patch(`/contacts/${id}`, { job_title: 'Baker', custom_fields: { plan: 'gold' } });
  const page = await admin.get(`/app/contacts/${id}`);
  const history = textOf(page);
  expect(history).toContain('an API key Job title: Clerk → Baker plan: – → gold');
  const question = textOf(await admin.get(undoPath(page.body)));
  expect(question).toContain('This has updated 1 contact. Of 1 record, all are taken back.');
  const { headers } = await admin.submit(undoPath(page.body), {});
  await work(headers['location']);
  expect((await customer.get(`/contacts/${id}`)).body).toMatchObject({ job_title: 'Clerk', custom_fields: {} });
});

test('what was deleted stands under Deleted, and is restored from there or from the message', async () => {
  const id = await make(customer, '/contacts', contactBody({ first_name: 'Ada', last_name: 'Lovelace' }));
  const page = await admin.get(`/app/contacts/${id}/delete`);
  const etag = /name="etag" value="([^"]*)"/.exec(page.body)![1]!.replaceAll('&#34;', '"').replaceAll('&quot;', '"');
  const gone = await admin.submit(`/app/contacts/${id}/delete`, { etag });
  const after = await admin.get(String(gone.headers['location']));
  expect(textOf(after)).toContain('This can be taken back. Undo');
  const deleted = await admin.get('/app/deleted');
  expect(textOf(deleted)).toContain('Ada Lovelace contact');
  expect(undoPath(deleted.body)).toBe(undoPath(after.body));
  const { headers } = await admin.submit(undoPath(deleted.body), {});
  await work(headers['location']);
  expect((await customer.get(`/contacts/${id}`)).status).toBe(200);
  const stranger = await visitorOf(app.fastify, (await app.customer()).id);
  expect((await stranger.get(undoPath(deleted.body))).status).toBe(404);
  expect(textOf(await stranger.get('/app/deleted'))).toContain('Nothing deleted');
});

test('an import is taken back from its page', async () => {
  const settings = { object: 'contacts', mode: 'create', format: 'csv' };
  const csv = 'external_id,last_name\nx1,One\nx2,Two\n';
  const { id } = await importFile(app, customer, settings, csv);
  const page = await admin.get(`/app/imports/${id}`);
  expect(textOf(page)).toContain('Undo this import');
  expect(textOf(await admin.get(undoPath(page.body)))).toContain('This has created 2 contacts');
  const { headers } = await admin.submit(undoPath(page.body), {});
  await work(headers['location']);
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(0);
  expect(textOf(await admin.get(`/app/changes/${id}`))).toContain('Taken back by a job');
});
