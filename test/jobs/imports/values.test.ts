import { describe, expect, test } from 'vitest';
import { encoderOf } from '../../../src/files/encodings.ts';
import { sweepJobs } from '../../../src/jobs/workers.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { type TestCustomer } from '../../setup/factories.ts';
import { beginImport, contactsOf, countsOf, importFile, sendBytes, sendFile, workAtAll } from '../importing.ts';
import { undoChange } from '../undoing.ts';
import { contextOf } from '../working.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const created = { object: 'contacts', mode: 'create' } as const;
const failuresOf = async (id: string, query = '') => (await customer.get(`/imports/${id}/failures${query}`)).body;
describe('a value that cannot be read', () => {
  const text =
    'first_name,work_email,location_country,birth_year,phone_numbers,job_title\n' +
    'Ada,ada@example.com,Germoney,1985,"+49 30 901820; none",CEO\n' +
    `Bob,bob@example.com,DE,,,${'x'.repeat(300)}\n` +
    'Cy,no address,,,030,\n' +
    'Dan,dan@example.com,DE,\\N,,\\N\n';

  test('is left out, the record is written, and a warning names it', async () => {
    const done = await importFile(app, customer, created, text);
    expect(done).toMatchObject({ status: 'COMPLETED', created: 3, failed: 1, warnings: 3, invalid_values: 'skip' });
    expect(
      await contactsOf(customer, 'first_name', 'location_country', 'birth_year', 'phone_numbers', 'job_title'),
    ).toMatchObject([
      {
        first_name: 'Ada',
        birth_year: 1985,
        phone_numbers: [{ country_code: '+49', number: '30901820' }],
        job_title: 'CEO',
      },
      { first_name: 'Bob', location_country: 'DE' },
      { first_name: 'Dan', birth_year: null },
    ]);
    const failures = await failuresOf(done.id);
    expect(
      failures.map(({ line, error, warning }: Record<string, unknown>) => [line, error ?? null, warning ?? null]),
    ).toEqual([
      [
        2,
        null,
        'location_country: "Germoney" is not a country (a name, or a code such as DE); phone_numbers: "none" is not a phone number',
      ],
      [3, null, expect.stringMatching(/^job_title: "x+…" is longer than 255 characters$/)],
      [
        4,
        'work_email: "no address" is not an e-mail address; phone_numbers: "030" is not a phone number; ' +
          'a new record needs one of work_email, external_id, profnet_url, phone_numbers, mobile_phone',
        null,
      ],
      [5, null, 'job_title: cannot be emptied'],
    ]);
  });

  test('fails its record if that is wanted, and in NDJSON', async () => {
    const done = await importFile(app, customer, { ...created, invalid_values: 'fail' }, text);
    expect(done).toMatchObject({ created: 0, failed: 4, warnings: 0, invalid_values: 'fail' });
    const lines = '{"first_name":"Ada","work_email":"ada@example.com","birth_year":"x","gender":7}\n';
    const strict = await importFile(app, customer, created, lines);
    expect(strict).toMatchObject({ format: 'ndjson', created: 0, failed: 1, invalid_values: 'fail' });
    expect(await failuresOf(strict.id)).toMatchObject([
      { error: 'gender: 7 is not a text; birth_year: "x" is not a number' },
    ]);
    const lenient = await importFile(app, customer, { ...created, invalid_values: 'skip' }, lines);
    expect(lenient).toMatchObject({ created: 1, warnings: 1 });
  });

  test('makes an errors file that is imported again as it is, once it is corrected', async () => {
    const done = await importFile(app, customer, created, text);
    const errors = String((await customer.get(`/imports/${done.id}/errors`)).body);
    const again = await importFile(app, customer, created, errors.replaceAll('Germoney', 'Germany'));
    expect(again).toMatchObject({ status: 'COMPLETED', total: 4, created: 3, failed: 1, warnings: 3 });
    const header = String((await customer.get(`/imports/${again.id}/errors`)).body).split('\r\n')[0];
    expect(header).toBe(errors.split('\r\n')[0]);
    expect(Object.keys((await failuresOf(again.id))[0].record)).not.toContain('_error');
    const lines = await importFile(
      app,
      customer,
      { ...created, format: 'ndjson' },
      '{"first_name":"Eve","score":1,"x":1}\n',
    );
    const fixed = String((await customer.get(`/imports/${lines.id}/errors`)).body).replace(
      '""x"":1',
      '""work_email"":""e@example.com""',
    );
    expect(await importFile(app, customer, created, fixed)).toMatchObject({
      status: 'COMPLETED',
      created: 1,
      failed: 0,
    });
  });
});

test('a column of a custom field keeps its type in the errors file, whichever records that has', async () => {
  const rows = ['a,Ada,b-7,Germany', 'b,Bob,12,Germoney', 'c,Cy,13,Germoney'];
  const text = `external_id,first_name,custom_fields.code,location_country\n${rows.join('\n')}\n`;
  const done = await importFile(app, customer, { ...created, invalid_values: 'fail' }, text);
  const errors = String((await customer.get(`/imports/${done.id}/errors`)).body);
  await importFile(app, customer, created, errors.replaceAll('Germoney', 'Germany'));
  expect(await contactsOf(customer, 'first_name', 'custom_fields')).toEqual([
    { first_name: 'Ada', custom_fields: { code: 'b-7' } },
    { first_name: 'Bob', custom_fields: { code: '12' } },
    { first_name: 'Cy', custom_fields: { code: '13' } },
  ]);
});

test('texts that do not look like the default encoding are named before and after an import', async () => {
  const file = encoderOf('macintosh').encode('first_name,work_email\nMüller,m@example.com\n');
  const id = await sendBytes(customer, { ...created, start: false }, file);
  const warning = expect.stringContaining('but "MŸller" looks wrong');
  const preview = (await customer.get(`/imports/${id}/preview`)).body;
  expect(preview).toMatchObject({ encoding: 'windows-1252', warnings: [{ path: '/encoding', message: warning }] });
  await customer.post(`/imports/${id}/start`);
  await workAtAll(app, customer);
  expect(await failuresOf(id)).toEqual([{ line: 1, warning, record: {} }]);

  const named = await sendBytes(customer, { ...created, encoding: 'macintosh', start: false }, file);
  expect((await customer.get(`/imports/${named}/preview`)).body.warnings).toEqual([]);
});

describe('guessed columns', () => {
  const file = 'Vorname;Mail;Schuhgröße;\nAda;ada@example.com;38;\nGrace;grace@example.com;40;\n';

  test('are found; what stays open is left out, and named as line 1', async () => {
    const id = await beginImport(customer, { ...created, guess: true, start: false });
    await sendFile(customer, id, file);
    const preview = (await customer.get(`/imports/${id}/preview`)).body;
    expect(preview).toMatchObject({
      mapping: { Vorname: 'first_name', Mail: 'work_email', Schuhgröße: null },
      mapping_from: { Vorname: 'guess', Mail: 'guess', Schuhgröße: null },
      separator: ';',
      errors: [],
      warnings: [{ path: '/mapping/Schuhgröße', message: expect.stringContaining('"Schuhgröße" is left out') }],
    });
    await customer.post(`/imports/${id}/start`);
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ created: 2, failed: 0, warnings: 0 });
    const failures = await failuresOf(id);
    expect(failures).toEqual([
      { line: 1, warning: expect.stringContaining('"Schuhgröße" is left out'), record: { Schuhgröße: 'Schuhgröße' } },
    ]);
    expect((await customer.get(`/imports/${id}/errors`)).body).toBe(
      'Vorname;Mail;Schuhgröße;_line;_error;_warning\r\n',
    );
  });

  test('are remembered for the same headers of the same customer and kind of record', async () => {
    const mapping = {
      Schuhgröße: { field: 'custom_fields.shoe', type: 'text' },
      Mail: 'personal_email',
      Vorname: 'last_name',
    };
    const phone = file.replaceAll(';\n', ';+49 30 901820\n').replace(';+49 30 901820\n', ';phone_numbers\n');
    const used = { ...created, guess: true, mapping, dry_run: true };
    expect(await importFile(app, customer, used, phone)).toMatchObject({ status: 'COMPLETED', created: 2 });
    const previewOf = async (caller: TestCustomer, settings: object) => {
      const id = await beginImport(caller, { ...created, start: false, ...settings });
      await sendFile(caller, id, phone);
      const { body } = await caller.get(`/imports/${id}/preview`);
      await caller.post(`/imports/${id}/cancel`);
      return body;
    };
    expect(await previewOf(customer, { guess: true })).toMatchObject({
      mapping: { Vorname: 'last_name', Mail: 'personal_email', Schuhgröße: mapping['Schuhgröße'] },
      mapping_from: { Vorname: 'remembered', Mail: 'remembered', Schuhgröße: 'remembered', phone_numbers: 'name' },
    });
    expect((await previewOf(customer, {})).mapping_from).toMatchObject({ Vorname: null, Schuhgröße: null });
    expect((await previewOf(await app.customer(), { guess: true })).mapping_from).toMatchObject({ Vorname: 'guess' });
  });
});

describe('what is remembered for guessing', () => {
  const waiting = async (text: string, settings: object = {}) => {
    const id = await beginImport(customer, { ...created, guess: true, start: false, ...settings });
    await sendFile(customer, id, text);
    return id;
  };
  const mappingOf = async (id: string) => (await customer.get(`/imports/${id}/preview`)).body.mapping;
  const file = 'ID,Vorname,Mail\na1,Ada,ada@example.com\n';

  test('is for an import what its preview showed, whatever others remember before it starts', async () => {
    const id = await waiting(file);
    expect(await mappingOf(id)).toMatchObject({ Vorname: 'first_name', Mail: 'work_email', ID: 'external_id' });
    const other = { Vorname: 'last_name', Mail: 'personal_email', ID: 'work_email' };
    await importFile(app, customer, { ...created, mapping: other, dry_run: true }, file);
    expect(await mappingOf(id)).toMatchObject({ Vorname: 'first_name', Mail: 'work_email' });
    const later = await waiting(file);
    expect(await mappingOf(later)).toEqual(other);
    await customer.post(`/imports/${later}/cancel`);
    await customer.post(`/imports/${id}/start`);
    await workAtAll(app, customer);
    expect(await contactsOf(customer, 'first_name', 'last_name', 'work_email')).toEqual([
      { first_name: 'Ada', work_email: 'ada@example.com' },
    ]);
  });
});

describe('a dry run that has ended', () => {
  const file = 'first_name,work_email,birth_year\nAda,ada@example.com,soon\nBob,no address,\n';
  const startForReal = (id: string) => customer.post(`/imports/${id}/start`, { dry_run: false });

  test('is run for real, once, with the same file and new numbers', async () => {
    const done = await importFile(app, customer, { ...created, dry_run: true }, file);
    expect(done).toMatchObject({ status: 'COMPLETED', created: 1, failed: 1, warnings: 1 });
    expect((await customer.post(`/imports/${done.id}/start`)).status).toBe(409);
    expect((await customer.post(`/imports/${done.id}/start`, { dry_run: true })).status).toBe(409);
    const started = await Promise.all([startForReal(done.id), startForReal(done.id), startForReal(done.id)]);
    expect(started.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409]);
    expect(started.find(({ status }) => status === 200)!.body).toMatchObject({
      id: done.id,
      status: 'PENDING',
      dry_run: false,
      processed: 0,
      warnings: 0,
      finished_at: null,
    });
    expect(await failuresOf(done.id)).toEqual([]);
    await workAtAll(app, customer);
    const real = (await customer.get(`/imports/${done.id}`)).body;
    expect(real).toMatchObject({ status: 'COMPLETED', dry_run: false, total: 2, created: 1, failed: 1, warnings: 1 });
    expect(await contactsOf(customer, 'work_email')).toEqual([{ work_email: 'ada@example.com' }]);
    expect((await startForReal(done.id)).status).toBe(409);
    expect((await app.owner`select from import_rows where import_id = ${done.id}`).count).toBe(2);
  });

  test('keeps its file and records for 24 hours, the latest three of a customer, and not of a failed one', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 4; i += 1)
      ids.push((await importFile(app, customer, { ...created, dry_run: true }, `${file}Cy,cy@example.com,\n`)).id);
    const failed = await importFile(app, customer, { ...created, dry_run: true }, 'nothing,x\n1,2\n');
    expect(failed.status).toBe('FAILED');
    const kept = async () =>
      (
        await app.owner`select distinct import_id from import_rows where customer_id = ${customer.id} and error is null and warning is null order by 1`
      ).map((row) => row['import_id']);
    const files = async () =>
      (await app.owner`select import_id from import_chunks where customer_id = ${customer.id} order by 1`).map(
        (row) => row['import_id'],
      );
    expect([await kept(), await files()]).toEqual([ids.slice(1), ids.slice(1)]);
    expect((await startForReal(ids[0]!)).status).toBe(409);
    expect((await startForReal(failed.id)).status).toBe(409);
    await app.owner`update imports set rows_kept_until = now() - interval '1 s' where id = ${ids[1]!}`;
    expect((await startForReal(ids[1]!)).status).toBe(409);
    await sweepJobs(contextOf(app), {});
    expect([await kept(), await files()]).toEqual([ids.slice(2), ids.slice(2)]);
    expect((await startForReal(ids[2]!)).status).toBe(200);
    await workAtAll(app, customer);
    expect(await files()).toEqual(ids.slice(3));
  });
});

test('a column of notes makes each note once, and an undo takes the records with their notes back', async () => {
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
  const begun = await beginImport(client, { object: 'contacts', mode: 'create' });
  await sendFile(client, begun, 'work_email,note\nd@b.example,x\n');
  await workAtAll(app, customer);
  expect((await client.get(`/imports/${begun}`)).body).toMatchObject({
    status: 'FAILED',
    error: expect.stringContaining('"note" is not the name of a field'),
  });
  expect((await customer.post('/activities/list', {})).body).toMatchObject([{ body: 'y' }]);
});
