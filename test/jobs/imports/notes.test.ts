import { expect, test } from 'vitest';
import { startApp } from '../../setup/app.ts';

import { beginImport, countsOf, importFile, sendFile, workAtAll } from '../importing.ts';
import { undoChange } from '../undoing.ts';

const app = await startApp();

test('a column of notes makes each note once, and an undo takes the records with their notes back', async () => {
  const customer = await app.customer();
  const file =
    'work_email,Notizen\nada@example.com,"Met at the fair.\nCall in May"\nbob@example.com,-\ncy@example.com,\n';
  const settings = { object: 'contacts', mode: 'upsert', match: 'work_email', guess: true } as const;
  const first = await importFile(app, customer, settings, file);
  expect(countsOf(first)).toMatchObject({ created: 3, failed: 0 });
  const again = await importFile(app, customer, settings, file.replace('-', 'New'));
  expect(countsOf(again)).toMatchObject({ unchanged: 3 });
  const notes = (await customer.post('/activities/list', {})).body;
  expect(notes).toMatchObject([
    { type: 'note', body: 'New', title: '' },
    { type: 'note', body: 'Met at the fair.\nCall in May', contact_id: expect.any(String) },
  ]);
  await undoChange(app, customer, first.id);
  expect((await customer.post('/contacts/list', {})).body).toMatchObject([{ work_email: 'bob@example.com' }]);
  expect((await customer.post('/activities/list', {})).body).toMatchObject([{ body: 'New' }]);
  await importFile(app, customer, { object: 'companies', mode: 'create' }, 'company_name,note\nEngines,Old friends\n');
  expect((await customer.post('/activities/list', { filters: { body: 'Old friends' } })).body).toMatchObject([
    { body: 'Old friends', company_id: expect.any(String) },
  ]);
});

test('a key that may not make activities cannot import notes: it is told, and a guess leaves them out', async () => {
  const customer = await app.customer();
  // Its mapping is remembered for all keys of the customer.
  await importFile(
    app,
    customer,
    { object: 'contacts', mode: 'create', guess: true },
    'work_email,Notes\nz@b.example,y\n',
  );
  const client = await customer.withScopes(['contacts:create', 'contacts:update', 'contacts:read']);
  const named = await client.post('/imports', { object: 'contacts', mode: 'create', mapping: { Notes: 'note' } });
  expect(named).toMatchObject({ status: 403 });
  const done = await importFile(
    app,
    client,
    { object: 'contacts', mode: 'create', guess: true },
    'work_email,Notes\na@b.example,x\n',
  );
  expect(countsOf(done)).toMatchObject({ created: 1 });
  expect((await client.get(`/imports/${done.id}/failures`)).body).toMatchObject([
    { line: 1, warning: expect.stringContaining('Notes') },
  ]);
  const whoever = { object: 'contacts', mode: 'create', guess: true, dry_run: true } as const;
  const checked = await importFile(app, customer, whoever, 'work_email,Notes\ny@b.example,x\n');
  expect(checked).toMatchObject({ status: 'COMPLETED', created: 1 });
  expect(await client.post(`/imports/${checked.id}/start`, { dry_run: false })).toMatchObject({ status: 403 });
  const plain = await importFile(
    app,
    client,
    { object: 'contacts', mode: 'create' },
    'work_email,note\nc@b.example,x\n',
  );
  expect(plain).toMatchObject({
    status: 'FAILED',
    error: expect.stringContaining('"note" is not the name of a field'),
  });
  // Whoever starts an import decides, not who changes it before.
  const begunByKey = await beginImport(client, { ...whoever, dry_run: false, start: false });
  await sendFile(client, begunByKey, 'work_email,Notes\nw@b.example,z\n');
  const previews = [customer, client].map(
    async (one) => (await one.get(`/imports/${begunByKey}/preview`)).body.mapping,
  );
  expect(await Promise.all(previews)).toMatchObject([{ Notes: 'note' }, { Notes: null }]);
  const later = await beginImport(customer, { ...whoever, dry_run: false, start: false });
  await sendFile(customer, later, 'work_email,Notes\nw@b.example,z\n');
  expect(await client.patch(`/imports/${later}`, {})).toMatchObject({ status: 200 });
  expect(await customer.post(`/imports/${later}/start`, {})).toMatchObject({ status: 200 });
  await workAtAll(app, customer);
  const { body: begun } = await customer.post('/imports', { object: 'contacts', mode: 'create' });
  const sent = await client.call('PUT', `/imports/${begun.data.id}/file`, 'work_email,note\nd@b.example,x\n', {
    'content-type': 'text/csv',
  });
  expect(sent).toMatchObject({ status: 200 });
  await workAtAll(app, customer);
  expect((await client.get(`/imports/${begun.data.id}`)).body).toMatchObject({ status: 'FAILED' });
  expect((await customer.post('/activities/list', {})).body).toMatchObject([{ body: 'z' }, { body: 'y' }]);
});
