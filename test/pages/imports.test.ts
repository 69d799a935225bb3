import { connect, type Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { workAtAll } from '../jobs/importing.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, make } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, filledFields, type PageAnswer, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin: visitor } = adminOfEachTest(app);
const url = await app.fastify.listen({ host: '127.0.0.1', port: 0 });

const boundary = 'a-boundary';
const upsert = { object: 'contacts', mode: 'upsert', match: 'work_email', format: 'csv' };

/** Returns the body of a form with a file, which comes last as in the page. */
function multipart(fields: Record<string, string>, file?: string): string {
  const parts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="people.csv"\r\ncontent-type: text/csv\r\n\r\n`;
  return `${parts.join('')}${file === undefined ? '' : `${head}${file}\r\n`}--${boundary}--\r\n`;
}

const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };

async function upload(fields: Record<string, string>, file?: string, by = visitor): Promise<PageAnswer> {
  const given = { ...(await by.fieldsOf('/app/imports/new')), ...upsert, ...fields };
  return by.send('POST', '/app/imports/new', { headers, payload: multipart(given, file) });
}

/** Begins an upload over a connection of its own. Returns the connection, and a function that returns what has been received. */
function openUpload(length: number): { socket: Socket; answer: () => string } {
  let answer = '';
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
    .on('data', (bytes) => (answer += bytes.toString()))
    .on('error', () => undefined);
  const head = [
    'POST /app/imports/new HTTP/1.1',
    'host: 127.0.0.1',
    `content-type: ${headers['content-type']}`,
    `cookie: session=${visitor.cookies.get('session')}`,
    `content-length: ${length}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  return { socket, answer: () => answer };
}

const imports = () =>
  app.owner<{ id: string; status: string; mapping: object | null; dry_run: boolean; chunks: number }[]>`
    select id, status, mapping, dry_run,
      (select count(*)::int from import_chunks c where c.customer_id = i.customer_id and c.import_id = i.id) as chunks
    from imports i where customer_id = ${customer.id} order by id`;

const people =
  'E-Mail,First Name,last_name,phone_numbers,Shoe size\r\nada@example.com,Ada,Lovelace,,38\r\nno address,<b>,B,,40\r\n';

test('an import with the pages goes from the file over its mapping and a check to the records and the errors file', async () => {
  const uploaded = await upload({ name: 'People of March' }, people);
  expect(uploaded.status).toBe(303);
  const page = uploaded.location!;
  const preview = await visitor.get(page);
  const text = textOf(preview);
  expect(text).toContain('People of March');
  expect(text).toContain('Shoe size');
  expect(text).toMatch(/Record 2: Work e-mail: "no address" is not an e-mail address/);
  expect(preview.body).not.toContain('<b>,');
  expect(textOf(await visitor.get('/app'))).toMatch(/People of March not started It waits for you/);
  const shown = filledFields(preview.body, page);
  expect([0, 1, 2, 3, 4].map((i) => shown[`column-${i}`])).toEqual([
    'work_email',
    'first_name',
    'last_name',
    'phone_numbers',
    '',
  ]);
  expect(text).toContain('Guessed by name or values, so please look at them: “E-Mail”, “First Name”.');
  expect(text.match(/guessed/gi)).toHaveLength(1);
  expect(text).toContain('To keep a column that is left out, choose a field for it');

  const saved = await visitor.submit(page, { 'column-4': 'custom_fields.Shoe size', do: 'save' });
  expect(saved.location).toBe(page);
  expect(textOf(await visitor.get(page))).toMatch(/The first records .* Shoe size Ada .* 38/);

  expect((await visitor.submit(page, { do: 'start' })).location).toBe(page);
  expect((await visitor.get(page)).body).toContain('data-live');
  await workAtAll(app, customer);
  const ended = await visitor.get(page);
  expect(textOf(ended)).toContain('The import is complete.');
  expect(textOf(ended)).toContain('2 records: 1 new · 1 left out');
  const errors = await visitor.get(`${page}/errors.csv`);
  expect(errors.headers['content-disposition']).toBe('attachment; filename="errors.csv"');
  expect(errors.body).toContain('no address');
  const again = /href="([^"]+)">upload the corrected records/.exec(ended.body)![1]!;
  expect(again.replaceAll(/&#38;|&amp;/g, '&').replaceAll('&#61;', '=')).toContain('mode=upsert');
  const { body } = await customer.post('/contacts/list', {});
  expect(textOf(await visitor.get(`/app/contacts/${body[0].id}`))).toContain('Grace Hopper created it');
});

test('an import reads a column of a declared field by its label or key, and calls another one new', async () => {
  const declared = { label: 'Größtes Interesse', type: 'choice', choices: ['Kauf', 'Miete'] };
  await customer.call('PUT', '/fields/contacts/interesse', declared);
  const columns = 'GROSSTES INTERESSE|interesse|Interesse?'.split('|');
  for (const column of columns) {
    const file = `E-Mail;Vorname;${column};Haarfarbe\nada@example.com;Ada;kauf;rot\n`;
    const page = (await upload({}, file)).location!;
    const { body } = await visitor.get(page);
    expect(filledFields(body, page)).toMatchObject({ 'column-2': 'custom_fields.interesse', 'column-3': '' });
    expect(body).toMatch(/<optgroup label="Your own fields">\s*<option value="custom_fields.interesse"/);
    expect(textOf(await visitor.get(page))).toContain('New field “Haarfarbe”');
    expect(body).not.toContain(`New field “${column}`);
    expect(textOf(await visitor.get(page))).toMatch(
      /Größtes Interesse choice .* The first records .* Größtes Interesse Ada ada@example.com Kauf/,
    );
    await visitor.submit(page, { do: 'check' });
    await workAtAll(app, customer);
    await visitor.submit(page, { do: 'import' });
    await workAtAll(app, customer);
  }
  const { body } = await customer.post('/contacts/list', {});
  expect(body).toMatchObject([{ custom_fields: { interesse: 'Kauf' } }]);
});

test('the upload of corrected records finds those that are stored by then', async () => {
  const corrections = await upload({}, 'E-Mail,First Name,_line,_error,_warning\n,Grace,3,work_email: is missing,\n');
  expect(textOf(await visitor.get(corrections.location!))).not.toContain('_error');
  await visitor.submit(corrections.location!, { mode: 'update work_email', do: 'start' });
  await workAtAll(app, customer);
  const { body } = await visitor.get(corrections.location!);
  expect(body).toMatch(/href="\/app\/imports\/new\?[^"]*mode(?:=|&#61;)update/);
});

test('an import creates those without an address by a second one, and counts a repeated address once', async () => {
  const list = (await customer.post('/list-contact', { name: 'Fair' })).body.id;
  const file =
    'E-Mail;Vorname;Telefon;Stand\nada@example.com;Ada;;A\nada@example.com;Ada;;A\n;Jörg;+49 911 224455;007\n' +
    'joerg(at)example;Jörg;+49 911 224456;B\n;Käthe;+49 911 224457;C\n;Ilse;;D\nada@example.com;Eda;;A\n';
  const page = (await upload({ mode: '', match: '' }, file)).location!;
  await visitor.submit(page, { 'column-3': 'custom_fields.Stand', list_id: list, do: 'check' });
  await workAtAll(app, customer);
  const checked = textOf(await visitor.get(page));
  expect(checked).toContain('7 records: would be 1 new · 2 repeated in the file · 4 left out');
  expect(checked).toContain('Work e-mail is missing; a new record needs one of Work e-mail');
  expect(textOf(await visitor.get('/app/imports'))).toContain('7 records: would be 4 left out');
  expect(checked).toContain(
    '3 records without a valid work e-mail, by which this import finds the contacts that you have. Import the',
  );
  await visitor.submit(page, { do: 'import' });
  await workAtAll(app, customer);
  const done = await visitor.get(page);
  expect(textOf(done)).toContain('7 records: 1 new · 1 changed · 1 the same already · 4 left out.');
  expect(done.body).toContain(`href="/app/lists/${list}"`);
  const sent = { ...(await visitor.fieldsOf(page, '/app/logout')), do: 'anew' };
  const [{ location: second }, again] = await Promise.all([visitor.post(page, sent), visitor.post(page, sent)]);
  expect(second).toBe(again.location);
  await workAtAll(app, customer);
  const created = textOf(await visitor.get(second!));
  expect(created).toMatch(/^people.csv, those without work e-mail .* left out by another import/);
  expect(created).toContain('3 records: 3 new, 1 with a value left out. Next: see their list');
  const told = textOf(await visitor.get(page));
  expect(told).toContain('4 left out. Of those left out, 3 were created as new .');
  expect(told.match(/left out, then created as new Work e-mail/g)).toHaveLength(3);
  expect(created).toContain('Undo this import');
  const { body } = await customer.post('/contacts/list', { filters: { first_name: 'Jörg' } });
  const stands = [{ Stand: 'B' }, { Stand: '007' }];
  expect(body).toMatchObject(stands.map((custom_fields) => ({ work_email: '', custom_fields })));
  const rows = textOf(await visitor.get('/app/imports'));
  expect(rows).toContain('1 the same already · 4 left out Of those left out, 3 were created as new .');
  expect(rows.match(/people.csv/g)).toHaveLength(1);
  expect(rows).toContain('by Grace Hopper');
});

test('the columns of a checked file can be changed without another upload, and it is read as it was', async () => {
  const hats = { type: 'number', label: 'Hats' };
  expect((await customer.call('PUT', '/fields/contacts/hats', hats)).status).toBe(200);
  const file = 'Vorname;E-Mail;Hut\r\nJürgen;j@example.com;"1.234"\r\nVorname;E-Mail;Hut\r\nIda;i@example.com;9\r\n';
  const page = (await upload({ mode: 'create', match: '' }, file)).location!;
  const list_id = (await customer.post('/list-contact', { name: 'Gone' })).body.id;
  await visitor.submit(page, { 'column-2': 'custom_fields.hats', list_id, do: 'check' });
  await workAtAll(app, customer);
  const checked = textOf(await visitor.get(page));
  await customer.delete(`/list-contact/${list_id}`);
  const fields = await visitor.fieldsOf(page, page);
  const reopened = await Promise.all([1, 2].map(() => visitor.post(page, { ...fields, name: 'Fair', do: 'again' })));
  expect(reopened.map(({ location }) => location)).toEqual(Array(2).fill(`${page}?list_id=new&name=Fair`));
  const path = page.replace('/app', '');
  expect((await customer.get(path)).body).toMatchObject({ status: 'UPLOADED', total: null });
  // The repeated header line was a failure of the check.
  expect((await customer.get(`${path}/failures`)).body).toEqual([]);
  const stale = await visitor.post(page, { ...fields, do: 'import' });
  expectPage(stale, 409, 'The columns have changed since this check');
  const shown = await visitor.fieldsOf(reopened[0]!.location!, page);
  expect(shown).toMatchObject({
    mode: 'create',
    name: 'Fair',
    'column-0': 'first_name',
    'column-2': 'custom_fields.hats',
  });
  await visitor.post(page, { ...shown, do: 'check' });
  await workAtAll(app, customer);
  const countsIn = (text: string): string => /Checked\..*?written\. (.*?\.)/.exec(text)![1]!;
  expect(countsIn(textOf(await visitor.get(page)))).toBe(countsIn(checked));
  await visitor.submit(page, { do: 'again' });
  const changed = { ...shown, 'column-0': 'last_name', 'column-2': 'custom_fields.hut' };
  expect((await visitor.post(page, { ...changed, do: 'start' })).status).toBe(303);
  await workAtAll(app, customer);
  const { body } = await customer.post('/contacts/list', { filters: { last_name: 'Jürgen' } });
  expect(body).toMatchObject([{ custom_fields: { hut: '1.234' } }]);
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(2);
  expect((await visitor.post(page, { ...shown, do: 'again' })).status).toBe(409);
});

test('people without an address whom a check has left out are created once, also if that was cut short or the columns change', async () => {
  const page = (
    await upload({ mode: '', match: '' }, 'E-Mail;Vorname;Telefon\n;Ada;+49 911 224455\n;Bob;+49 911 224456\n')
  ).location!;
  await visitor.submit(page, { do: 'check' });
  await workAtAll(app, customer);
  const name = 'Without address';
  const second = (await visitor.submit(page, { list_id: 'new', name, do: 'anew' })).location!;
  await workAtAll(app, customer);
  expect((await customer.post('/list-contact/list', {})).body).toMatchObject([{ name, contacts_count: 2 }]);
  await app.owner`update imports set status = 'CANCELLED' where id = ${second.split('/').at(-1)!}`;
  const sent = await visitor.fieldsOf(page, '/app/logout');
  expect((await visitor.post(page, { ...sent, do: 'anew' })).location).toBe(second);
  // The last release has marked it by a hash.
  await app.owner`update imports set fingerprint = sha256(${`copy of ${page.split('/').at(-1)}`}::text::bytea) where id = ${second.split('/').at(-1)!}`;
  expect((await visitor.post(page, { ...sent, do: 'anew' })).location).toBe(second);
  const refused = await visitor.post(page, { ...sent, do: 'again' });
  expect([refused.status, textOf(refused)]).toEqual([409, expect.stringContaining('created as new already')]);
  expect(textOf(refused)).not.toContain('Change the columns');
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(2);
});

test('a record that finds several people by one of its addresses says so, and is not created as new', async () => {
  for (const first_name of ['Ada', 'Bob'])
    await make(customer, '/contacts', contactBody({ first_name, work_email: 'twin@example.com' }));
  const page = (await upload({ mode: '', match: '' }, 'E-Mail,Vorname\n"twin@example.com; foo@bar",Cy\n')).location!;
  await visitor.submit(page, { do: 'check' });
  await workAtAll(app, customer);
  const shown = textOf(await visitor.get(page));
  expect(shown).toMatch(/“?"foo@bar" is not an e-mail address; .*matching ids: /);
  expect(shown).not.toContain('Create as new contacts');
  const sent = await visitor.fieldsOf(page, '/app/logout');
  expect((await visitor.post(page, { ...sent, do: 'anew' })).status).toBe(409);
});

test('an import with the pages offers another way for people without an address, and for those who are there', async () => {
  await make(customer, '/contacts', contactBody({ work_email: 'ada@example.com' }));
  const file = 'E-Mail,First Name,Phone,Shoe\nada@example.com,Ada,,\n,Grace,+44 20 7946 0000,38\n';
  const page = (await upload({}, file)).location!;
  const shown = async () => textOf(await visitor.get(page));
  const [twice, out] = ['Already in your contacts: 1 of', 'Without a valid work e-mail: 1 of the first 2 records'];
  expect(await shown()).toContain(out);
  expect((await visitor.get(page)).body.match(/class="notice/g)).toHaveLength(1);
  // Enter in a field presses the first button.
  const [, first] = /<button name="do" value="([^"]+)"/.exec((await visitor.get(page)).body)!;
  expect(first).toBe('save');
  await visitor.submit(page, { do: 'save create' });
  expect(await shown()).toContain(twice);
  expect(await shown()).not.toContain(out);
  await visitor.submit(page, { do: 'save upsert work_email' });
  expect(await shown()).not.toContain(twice);
  // Without a phone number too, they cannot be created either.
  const neither = await visitor.get((await upload({}, 'E-Mail,First Name\nada@example.com,Ada\n,Grace\n')).location!);
  expect(textOf(neither)).toContain(out);
  expect(neither.body).not.toContain('save create');
});

test.each([
  ['as the file shows changes whom it finds by the address', '', 'E-Mail', {}, '2 records: 1 new · 1 changed'],
  [
    'as the file shows goes by the columns as they are at the start',
    '',
    'Adresse elektronisch',
    { 'column-0': 'work_email' },
    '1 new · 1 changed',
  ],
  ['creates all when that is chosen', '', 'E-Mail', { mode: 'create' }, '2 records: 2 new'],
])('an import with the pages %s', async (_what, mode, header, fields, outcome) => {
  await make(customer, '/contacts', contactBody({ work_email: 'ada@example.com' }));
  const file = `${header};Vorname;Telefon\nada@example.com;Ada;+44 20 79460002\ngrace@example.com;Grace;+44 20 79460001\n`;
  const page = (await upload({ mode, match: '' }, file)).location!;
  await visitor.submit(page, { ...fields, do: 'start' });
  await workAtAll(app, customer);
  expect(textOf(await visitor.get(page))).toContain(outcome);
});

test('an import with the pages is checked first, shows what would happen to each record, and is then imported without a second upload', async () => {
  const file =
    'Vorname;Nachname;E-Mail;Land;Schuhgröße\r\nAda;Lovelace;ada@example.com;Vereinigtes Königreich;38\r\n' +
    'Grace;Hopper;grace@example.com;Germoney;40\r\n;;no address;;\r\n';
  const page = (await upload({ mode: 'create', match: '' }, file)).location!.split('?')[0]!;
  await visitor.submit(page, { 'column-4': 'custom_fields.Schuhgröße', do: 'check' });
  await workAtAll(app, customer);
  const checked = await visitor.get(page);
  const text = textOf(checked);
  expect(text).toContain('Nothing was written. 3 records: would be 2 new · 1 left out, 1 with a value left out');
  expect(text).toMatch(/What would happen .* 3 would be written, with a value left out/);
  expect(text).toContain('Country: "Germoney" is not a country (a name, or a code such as DE)');
  expect(text).toContain('Work e-mail: "no address" is not an e-mail address');
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(0);
  expect(await imports()).toMatchObject([{ status: 'COMPLETED', dry_run: true }]);

  expect(text).toContain('Import 2 contacts now');
  expect((await visitor.submit(page, { do: 'import' })).location).toBe(page);
  await workAtAll(app, customer);
  expect(textOf(await visitor.get(page))).toContain(
    'The import is complete. 3 records: 2 new · 1 left out, 1 with a value left out',
  );
  expect(await imports()).toMatchObject([{ status: 'COMPLETED', dry_run: false }]);
  const { body } = await customer.post('/contacts/list', { filters: { work_email: 'ada@example.com' } });
  expect(body).toMatchObject([{ location_country: 'GB', custom_fields: { Schuhgröße: 38 } }]);
  const twice = await visitor.post(page, { ...(await visitor.fieldsOf('/app/password')), do: 'import' });
  expect(twice.status).toBe(409);
});

test('an import with the pages shows in its check who stands in the file several times, and shows old and new values', async () => {
  const ada = { first_name: 'Ada', last_name: 'Lovelace', work_email: 'ada@example.com' };
  const body = contactBody({ ...ada, job_title: 'Clerk <1>', location_country: 'GB' });
  const id = await make(customer, '/contacts', body);
  const twice = 'ADA@example.com;Chief;DE\r\nada@example.com;Chief;DE\r\n';
  const others = Array.from({ length: 1_000 }, (_, i) => `p${i}@example.com;;\r\n`).join('');
  const file = `E-Mail;Job Title;Land\r\n${twice}new@example.com;A;\r\nnew@example.com;B;\r\n${others}new@example.com;C;\r\n`;
  const page = (await upload({ mode: 'upsert', match: 'work_email' }, file)).location!;
  const waiting = await visitor.get(page);
  await visitor.submit(page, { do: 'check' });
  await workAtAll(app, customer);
  for (const shown of [waiting, await visitor.get(page)]) {
    expect(textOf(shown)).toContain(
      'The same work e-mail stands in several records, of which the last counts: lines 2/3',
    );
    expect(textOf(shown)).toMatch(/2 Ada Lovelace Job title: Clerk <1> → Chief/);
    expect(textOf(shown)).toMatch(/Country: United Kingdom → Germany/);
    expect(shown.body).toContain(`href="/app/contacts/${id}"`);
  }
  const checked = await visitor.get(page);
  expect(textOf(checked)).toContain('lines 2/3, 4/5/1006.');
  expect(checked.body).toContain('>checked</span>');
  expect(textOf(checked)).toContain('1,005 records: would be 1,001 new · 2 repeated in the file · 2 changed. The same');
  await visitor.submit(page, { do: 'import' });
  await workAtAll(app, customer);
  expect(textOf(await visitor.get(page))).toContain(
    '1,005 records: 1,001 new · 3 changed · 1 the same already. Next: see these contacts',
  );
});

test('an import with the pages ends what it says about titles that it left out with one point', async () => {
  const page = (await upload({}, 'E-Mail,Name\nada@example.com,Dr. Ada Lovelace\n')).location!;
  await visitor.submit(page, { do: 'start' });
  await workAtAll(app, customer);
  expect(textOf(await visitor.get(page))).toMatch(/left out of full names: Dr\.(?!\.)/);
});

test('an import with the pages is checked with a new list, which is there only once the records are imported', async () => {
  const page = (await upload({ mode: 'create', match: '' }, people)).location!.split('?')[0]!;
  const lists = async () => (await customer.post('/list-contact/list', {})).body;
  const refused = await visitor.submit(page, { name: 'x'.repeat(300), do: 'check' });
  expect([refused.status, await lists()]).toEqual([400, []]);
  const { location } = await visitor.submit(page, { name: 'Messe & Co', do: 'check' });
  expect(location).toBe(`${page}?list_id=new&name=Messe+%26+Co`);
  await workAtAll(app, customer);
  const checked = await visitor.get(location!);
  expect(checked.body).toMatch(/name="name"[^>]* value="Messe &#38; Co"/);
  expect([filledFields(checked.body, page)['list_id'], await lists()]).toEqual(['new', []]);
  const token = filledFields(checked.body, page);
  const sent = { ...token, name: 'Messe & Co', do: 'import' };
  expect((await visitor.post(page, sent)).status).toBe(303);
  expect((await visitor.post(page, sent)).status).toBe(409);
  await workAtAll(app, customer);
  expect(await lists()).toMatchObject([{ name: 'Messe & Co', contacts_count: 1 }]);
  const assign = /href="([^"]+)"[^>]*>assign all in it</.exec((await visitor.get(page)).body)![1]!;
  await visitor.submit(assign.replaceAll('&#38;', '&').replaceAll('&#61;', '='));
  const { body } = await customer.post('/contacts/list', {});
  expect(body).toMatchObject([{ assigned_to: visitor.user.userId }]);
  const links = async () => /see their list/.test((await visitor.get(page)).body);
  expect(await links()).toBe(true);
  await customer.delete(`/list-contact/${(await lists())[0].id}`);
  expect(await links()).toBe(false);
});

test('an import with the pages is not started while all its records must fail, and keeps what was chosen', async () => {
  const file = 'E-Mail,First Name,Family\nada@example.com,Ada,Lovelace\n';
  const page = (await upload({ mode: 'create', match: '' }, file)).location!.split('?')[0]!;
  for (const action of ['start', 'check']) {
    const refused = await visitor.submit(page, { 'column-0': '', 'column-2': '', do: action });
    expectPage(refused, 400, 'The import is not started');
    expect(textOf(refused)).toContain('no column is read as Work e-mail or Your own id or Profile');
    expect(textOf(refused)).not.toContain('no column is read as first_name');
  }
  const twice = await visitor.submit(page, { 'column-2': 'first_name', do: 'start' });
  expect([twice.status, filledFields(twice.body, page)['column-2']]).toEqual([400, 'first_name']);
  expect(await imports()).toMatchObject([{ status: 'UPLOADED' }]);
  expect((await visitor.submit(page, { 'column-0': 'work_email', 'column-2': 'last_name', do: 'start' })).status).toBe(
    303,
  );
  expect(await imports()).toMatchObject([{ status: 'PENDING', dry_run: false }]);
});

test('an import with the pages can be cancelled by members too, and then neither changed nor started', async () => {
  const visitor = await visitorOf(app.fastify, customer.id, 'member');
  const page = (await upload({}, people, visitor)).location!;
  const fields = await visitor.fieldsOf(page);
  expectPage(await visitor.post(page, { ...fields, do: 'launch' }), 400, 'Press one of the buttons.');
  expect((await visitor.submit(`${page}/cancel`)).location).toBe(page);
  expect(await imports()).toMatchObject([{ status: 'CANCELLED', chunks: 0 }]);
  expect((await visitor.post(page, { ...fields, do: 'start' })).status).toBe(409);
  expect((await visitor.submit(`${page}/cancel`)).status).toBe(409);
});

test.each([
  ['no file', {}, undefined, 'Choose a file.'],
  ['an unknown format', { format: 'pdf' }, people, 'Choose one of the choices.'],
])('an import with the pages refuses %s beside its field, and keeps nothing', async (_what, fields, file, message) => {
  expectPage(await upload(fields, file), 400, message);
  expect(await imports()).toEqual([]);
});

test('an import with the pages says when 20 others wait, and offers to discard them', async () => {
  const body = { object: 'contacts', mode: 'create', start: false, name: 'Left' };
  for (let i = 0; i < 20; i++) expect((await customer.post('/imports', body)).status).toBe(201);
  expectPage(await upload({}, people), 409, /20 imports wait for.*Left · Discard/);
  const [first] = await imports();
  await visitor.submit(`/app/imports/${first!.id}/cancel`);
  expect((await upload({}, people)).status).toBe(303);
});

test.each([
  ['a quote left open', 'first_name,"open\n', 'With these settings, something is wrong'],
  ['a picture', '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\n', 'it is a picture or another file without text'],
  ['nothing', '', 'something is wrong: the file has no records'],
  ['a header only', 'E-Mail,First Name\n', 'something is wrong: the file has no records'],
  ['empty lines', '\r\n\r\n', 'has no header line'],
])(
  'an import with the pages says what is wrong with a file of %s, and offers no start',
  async (_what, file, reason) => {
    const page = (await upload({ mode: '', match: '', format: 'auto' }, file)).location!;
    const preview = await visitor.get(page);
    expect(textOf(preview)).toContain(reason);
    expect(preview.body).not.toMatch(/value="(start|check)"/);
    expectPage(await visitor.submit(page, { do: 'start' }), 400, 'The import is not started');
  },
);

test.each([
  ['no token', (fields: Record<string, string>) => ({ ...fields, form_token: '' })],
  ['a wrong token', (fields: Record<string, string>) => ({ ...fields, form_token: `${fields['form_token']}x` })],
  [
    'no token before the file',
    (fields: Record<string, string>) => ({ mode: fields['mode']!, format: fields['format']! }),
  ],
])('the upload with %s is 403 before its file is there', async (_what, change) => {
  const fields = change({ ...(await visitor.fieldsOf('/app/imports/new')), ...upsert });
  const whole = multipart(fields, 'x'.repeat(1000));
  const beginning = whole.slice(0, whole.indexOf('xxx') + 10);
  const { socket, answer } = openUpload(100_000_000);
  socket.write(beginning); // 100 MB are announced, and hardly any of it is sent
  await vi.waitFor(() => expect(answer()).toMatch(/^HTTP\/1\.1 403 /), { timeout: 20_000 });
  socket.destroy();
  expect(await imports()).toEqual([]);
});

test('the upload that is refused is read to its end, and its connection can be used again', async () => {
  const fields = { ...(await visitor.fieldsOf('/app/imports/new')), ...upsert, form_token: 'wrong' };
  const whole = multipart(fields, 'x'.repeat(32 * 1024 * 1024)); // more than the buffers of a connection hold
  const { socket, answer } = openUpload(whole.length);
  socket.write(`${whole}GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`);
  await vi.waitFor(() => expect(answer()).toMatch(/^HTTP\/1\.1 403 [\s\S]*HTTP\/1\.1 200 OK/), { timeout: 20_000 });
  socket.destroy();
});

test('the upload that breaks off leaves no import that waits, and no piece of the file', async () => {
  const fields = { ...(await visitor.fieldsOf('/app/imports/new')), ...upsert };
  const whole = multipart(fields, `work_email\r\n${'ada@example.com\r\n'.repeat(200_000)}`);
  const { socket } = openUpload(whole.length);
  socket.write(whole.slice(0, -100_000));
  await vi.waitFor(async () => expect((await imports())[0]?.chunks).toBeGreaterThan(1), {
    timeout: 20_000,
  });
  socket.destroy();
  await expect.poll(imports, { timeout: 20_000 }).toMatchObject([{ status: 'CANCELLED', chunks: 0 }]);
});

test('a very wide file has a small page, and can be started from it', async () => {
  const wide = Array.from({ length: 5_000 }, (_, i) => `custom_fields.c${i}`);
  const file = `first_name,last_name,work_email,${wide.join(',')}\r\nAda,Lovelace,ada@example.com,${wide.map((_, i) => (i < 20 ? i : '')).join(',')}\r\n`;
  const { location } = await upload({}, file);
  const page = await visitor.get(location!);
  expect(page.body.length).toBeLessThan(150_000);
  expect(page.body.match(/<select name="column-/g)).toHaveLength(40);
  expect(textOf(page)).toContain('Columns 1 to 40 of 5,003');
  const first = { ...(await visitor.fieldsOf(location!)), 'column-3': '' };
  expect((await visitor.post(location!, { ...first, do: 'save' })).location).toBe(location);
  const second = `${location}?page=2`;
  expect(page.body.replaceAll('&#61;', '=')).toContain(`href="${second}"`);
  const fields = await visitor.fieldsOf(second, location);
  expect(fields).toMatchObject({ 'column-40': 'custom_fields.c37' });
  expect((await visitor.post(location!, { ...fields, do: 'save' })).location).toBe(second);
  expect((await visitor.post(location!, { ...fields, do: 'start' })).status).toBe(303);
  await workAtAll(app, customer);
  const [row] = await app.owner<{ custom_fields: object }[]>`
      select custom_fields from contacts where customer_id = ${customer.id}`;
  expect(Object.keys(row!.custom_fields)).toHaveLength(19);
});

test('a form with a field named __proto__, or that is no JSON although it says so, is 400', async () => {
  const fields = { ...(await visitor.fieldsOf('/app/imports/new')), ...upsert };
  for (const [head, value] of [
    ['name="__proto__"', 'x'],
    ['name="x"\r\ncontent-type: application/json', '{'],
    ['name="mode"\r\ncontent-type: application/json', '{"toString":1,"valueOf":1}'],
  ]) {
    const odd = `--${boundary}\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n`;
    const payload = odd + multipart(fields);
    expect((await visitor.send('POST', '/app/imports/new', { headers, payload })).status, head).toBe(400);
  }
  expect((await imports()).filter(({ status }) => status !== 'CANCELLED')).toEqual([]);
});
