import { describe, expect, test } from 'vitest';
import { sweepJobs } from '../../src/jobs/workers.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { contactBody, make, makeList } from '../setup/factories.ts';
import {
  beginImport,
  contactLines,
  contactsOf,
  contactsCsv,
  countsOf,
  errorsOf,
  importFile,
  newContacts,
  openErrors,
  sendFile,
  workAtAll,
} from './importing.ts';
import { contextOf, slowDb } from './working.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

const app = await startApp();

const customer = customerOfEachTest(app);

const upserted = { ...newContacts, mode: 'upsert', match: 'work_email' } as const;

const emailsOf = async (caller = customer): Promise<string[]> =>
  (await contactsOf(caller, 'work_email')).map(({ work_email }) => work_email);

const counted = async (caller = customer): Promise<number> =>
  (await caller.post('/contacts/metadata', {})).body.pagination.total_records;

describe('an import', () => {
  test('creates the records of a file in their order, and names those that fail', async () => {
    const lines = contactLines(1_200);
    lines[7] = 'Ada,No 7,no address,';
    lines[1_100] = 'Ada,No 1100,ada@example.com,,too,many';
    const done = await importFile(app, customer, newContacts, contactsCsv(...lines));
    expect(done).toMatchObject({ status: 'COMPLETED', error: null, finished_at: expect.any(String) });
    expect(countsOf(done)).toEqual({
      total: 1_200,
      processed: 1_200,
      created: 1_198,
      updated: 0,
      unchanged: 0,
      failed: 2,
    });
    expect(await emailsOf()).toEqual(lines.filter((_, i) => i !== 7 && i !== 1_100).map((line) => line.split(',')[2]));
    expect(await counted()).toBe(1_198);
    expect(await errorsOf(customer, done.id)).toEqual([
      'Ada,No 7,no address,,9,"work_email: ""no address"" is not an e-mail address"',
      expect.stringMatching(/^Ada,No 1100,ada@example\.com,,.*1102,/),
    ]);
    const [left] = await app.owner`select count(*) from import_chunks where import_id = ${done.id}`;
    expect(left!['count']).toBe('0');
  });

  test('names records that PostgreSQL rejects, and writes the others', async () => {
    const lines = contactLines(1_200);
    for (const at of [0, 700, 701, 1_199]) lines[at] = `Zoe,No ${at},zoe${at}@example.com,`;
    await app.owner`
        alter table contacts
        add constraint contacts_without_zoe check (first_name <> 'Zoe') not valid`;
    const done = await importFile(app, customer, upserted, contactsCsv(...lines));
    await app.owner`alter table contacts drop constraint contacts_without_zoe`;
    expect(done).toMatchObject({ status: 'COMPLETED', created: 1_196, failed: 4 });
    expect(await counted()).toBe(1_196);
    expect(await emailsOf()).toEqual(lines.filter((line) => !line.startsWith('Zoe')).map((line) => line.split(',')[2]));
    expect(await errorsOf(customer, done.id)).toEqual(
      [0, 700, 701, 1_199].map((at) => `${lines[at]},${at + 2},the database cannot store this record`),
    );
  });

  test.each(['create', 'upsert'])('creates contacts that can be found and have a name (%s)', async (mode) => {
    const match = mode === 'upsert' ? { match: 'external_id' } : {};
    const lines = [
      'x-1,Ada,,,,',
      ',,Hopper,+44 20 79460000,,',
      ',,,,a@b.example,',
      ',Ada,L,,,https://none.example',
      'x-2,,,,,',
    ];
    const text = ['external_id,first_name,last_name,phone_numbers,work_email,profnet_url', ...lines].join('\n');
    const done = await importFile(app, customer, { object: 'contacts', mode, format: 'csv', ...match }, text);
    const errors = (await errorsOf(customer, done.id)).join('\n');
    expect(errors).toContain('a new record needs one of first_name, last_name, work_email');
    expect(countsOf(done)).toMatchObject(mode === 'create' ? { created: 3, failed: 2 } : { created: 1, failed: 4 });
    expect(errors).toContain('a new record needs one of work_email, external_id, profnet_url');
    const [first] = (await customer.post('/contacts/list', { filters: { external_id: 'x-1' } })).body;
    expect(first).toMatchObject({ first_name: 'Ada', last_name: '', work_email: '', phone_numbers: [] });
  });

  test('updates and creates by e-mail address, in the order of the file also if an address comes again', async () => {
    const known = await make(customer, '/contacts', contactBody({ work_email: 'known@example.com', job_title: 'Old' }));
    const rows = Array.from({ length: 300 }, (_, i) => [
      `Ada,Lovelace,KNOWN@example.com,,title ${i}`,
      `Grace,Hopper,new${i >> 1}@example.com,,title ${i}`,
    ]).flat();
    const text = ['first_name,last_name,work_email,phone_numbers,job_title', ...rows].join('\n');
    const done = await importFile(app, customer, upserted, text);
    expect(countsOf(done)).toEqual({ total: 600, processed: 600, created: 150, updated: 450, unchanged: 0, failed: 0 });
    expect((await customer.get(`/contacts/${known}`)).body.job_title).toBe('title 299');
    const titles = (await contactsOf(customer, 'work_email', 'job_title')).filter(({ work_email }) =>
      work_email.startsWith('new'),
    );
    expect(titles).toEqual(
      Array.from({ length: 150 }, (_, i) => ({ work_email: `new${i}@example.com`, job_title: `title ${2 * i + 1}` })),
    );
  });

  test('hands an external id over from one record to another in the order of the file', async () => {
    const lines = ['ra,EX,a', 'ra,EY,b', 'rb,EX,c', 'stored,,d', 'stored,E2,e', 'rc,E1,f', 'rd,EY,g'];
    const text = [
      'work_email,external_id,job_title,first_name,last_name,phone_numbers',
      ...lines.map((line) => `${line.replace(',', '@example.com,')},Ada,L,`),
    ].join('\n');
    await make(customer, '/contacts', contactBody({ work_email: 'stored@example.com', external_id: 'E1' }));
    const done = await importFile(app, customer, upserted, text);
    expect(countsOf(done)).toMatchObject({ created: 3, updated: 3, failed: 1 });
    expect((await errorsOf(customer, done.id))[0]).toMatch(/^rd@example\.com,EY,.*another contact has it$/);
    const stored = await contactsOf(customer, 'work_email', 'external_id', 'job_title');
    expect(new Set(stored.map((contact) => Object.values(contact).join(' ')))).toEqual(
      new Set(['ra@example.com EY b', 'rb@example.com EX c', 'stored@example.com E2 e', 'rc@example.com E1 f']),
    );
  });

  test.each(['contacts', 'companies'] as const)(
    'does not take white space or n/a for an external id (%s)',
    async (object) => {
      const name = object === 'contacts' ? 'first_name' : 'company_name';
      const settings = { ...newContacts, object, mode: 'upsert', match: 'external_id' };
      await importFile(app, customer, settings, `${name},external_id\nAda,x-1\nBea," y "\nFay,"-"\n`);
      const lines = ['Ada B, x-1 ', 'Bea B," y "', 'Cleo,   ', 'Dora,"   "', 'Eve,n/a', 'Eva,N/A', 'Fay B,"-"'];
      const done = await importFile(app, customer, settings, `${name}, external_id\n${lines.join('\n')}\n`);
      expect(countsOf(done)).toMatchObject({ created: 0, updated: 3, failed: 4 });
      const errors = (await errorsOf(customer, done.id)).map((line) => line.split(/,(?="?external_id: )/));
      expect(errors).toEqual(
        ['Cleo,   ,4', 'Dora,"   ",5', 'Eve,n/a,6', 'Eva,N/A,7'].map((line) => [
          line,
          expect.stringContaining('external_id: is missing'),
        ]),
      );
      // Companies could be created without it.
      expect(String(errors).includes('a new record needs one of')).toBe(object === 'contacts');
      const kind = object === 'contacts' ? 'contacts' : 'company';
      const { body } = await customer.post(`/${kind}/export`, { format: 'csv', fields: [name, 'external_id'] });
      expect(body).toBe(`${name},external_id\r\nFay B,"-"\r\nBea B," y "\r\nAda B,x-1\r\n`);
    },
  );

  test('adds whoever it writes or finds unchanged to its lists by hand, also if one was deleted meanwhile', async () => {
    const [list, deleted] = [await makeList(app.fastify, customer), await makeList(app.fastify, customer)];
    await make(
      customer,
      '/contacts',
      contactBody({ work_email: 'ada0@example.com', first_name: 'Ada', last_name: 'No 0' }),
    );
    const id = await beginImport(customer, { ...upserted, list_ids: [list, deleted, list] });
    await sendFile(customer, id, contactsCsv(...contactLines(3), 'Ada,Bad,no address,'));
    await customer.delete(`/list-contact/${deleted}`);
    await workAtAll(app, customer);
    const { body } = await customer.get(`/imports/${id}`);
    expect(countsOf(body)).toMatchObject({ created: 2, unchanged: 1, failed: 1 });
    expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(3);
  });

  test('does not touch records of another customer, whatever names them', async () => {
    const other = await app.customer();
    const foreign = await make(
      other,
      '/contacts',
      contactBody({ work_email: 'ada@example.com', external_id: undefined }),
    );
    const before = (await other.get(`/contacts/${foreign}`)).body;
    const company = before.company.id ?? crypto.randomUUID();
    const update = await importFile(
      app,
      customer,
      { object: 'contacts', mode: 'update', format: 'csv' },
      `id,job_title\n${foreign},Thief\n`,
    );
    expect(countsOf(update)).toMatchObject({ failed: 1, updated: 0 });
    const upsert = await importFile(
      app,
      customer,
      upserted,
      `first_name,last_name,work_email,phone_numbers,company.id,assigned_to\nAda,L,ada@example.com,,${company},\nAda,L,b@example.com,,,${other.adminId}\n`,
    );
    expect(countsOf(upsert)).toMatchObject({ failed: 2 });
    expect((await other.get(`/contacts/${foreign}`)).body).toEqual(before);
  });
});

test('a transaction that takes too long is written in smaller ones', async () => {
  const slow = await slowDb(app, 'Slow', 0.003);
  const id = await beginImport(customer, newContacts);
  await sendFile(customer, id, contactsCsv(...contactLines(700).map((line) => line.replace('Ada', 'Slow'))));
  await workAtAll(app, customer, { db: slow.for({ customerId: customer.id }, 'import') });
  expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'COMPLETED', created: 700 });
});

describe('a dry run', () => {
  test('shows what it would change of the first 20 records, and how many match values several records have', async () => {
    const [first, second] = [0, 1].map((i) => `ada${i}@example.com`);
    const old = { first_name: 'Ida', job_title: 'Clerk', custom_fields: { plan: 'a', seats: 3 } };
    const body = contactBody({ ...old, work_email: first, company: { name: 'Acme' } });
    const id = await make(customer, '/contacts', body);
    for (let i = 1; i < 30; i += 1)
      await make(customer, '/contacts', contactBody({ work_email: `ada${i}@example.com`, job_title: '' }));
    const header = 'work_email,first_name,job_title,company.name,custom_fields.plan';
    const others = Array.from({ length: 29 }, (_, i) => `ada${i + 1}@example.com,,Boss,,`);
    const text = [header, `${first!.toUpperCase()},Ida,Chief,New Ltd,b`, ...others, `${second},,Chief,,`].join('\n');
    const uploaded = await beginImport(customer, { ...upserted, start: false });
    await sendFile(customer, uploaded, text);
    const preview = (await customer.get(`/imports/${uploaded}/preview`)).body;
    const done = await importFile(app, customer, { ...upserted, dry_run: true }, text);
    const shown = (await customer.get(`/imports/${done.id}`)).body;
    const fields = { job_title: ['Clerk', 'Chief'], company: ['Acme', 'New Ltd'], 'custom_fields.plan': ['a', 'b'] };
    for (const { changes, repeated } of [preview, shown]) {
      expect(changes).toHaveLength(20);
      expect(changes[0]).toEqual({ line: 2, id, fields });
      expect(changes[1]).toMatchObject({ line: 3, fields: { job_title: ['', 'Boss'] } });
      expect(repeated).toBe(1);
    }
    const blind = await customer.withScopes(['contacts:create', 'contacts:update']);
    expect((await blind.get(`/imports/${uploaded}/preview`)).body).toMatchObject({ changes: [], repeated: 1 });
    expect((await blind.get(`/imports/${done.id}`)).body).toMatchObject({ changes: null, repeated: 1 });
    expect((await customer.get(`/contacts/${id}`)).body).toMatchObject({ ...old, company: { company_name: 'Acme' } });
    expect((await customer.post('/company/list', {})).body).toHaveLength(1);
    await customer.post(`/imports/${done.id}/start`, { dry_run: false });
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${done.id}`)).body).toMatchObject({
      changes: null,
      repeated: null,
      updated: 31,
    });
  });

  test('writes nothing, and counts what would happen to each record by what is stored', async () => {
    await make(
      customer,
      '/contacts',
      contactBody({ work_email: 'ada0@example.com', first_name: 'Ada', last_name: 'No 0' }),
    );
    await make(customer, '/contacts', contactBody({ work_email: 'ada1@example.com' }));
    const [before] =
      await app.owner`select array_agg(to_jsonb(c) order by id) as contacts from contacts c where customer_id = ${customer.id}`;
    const list = await makeList(app.fastify, customer);
    const lines = [...contactLines(4), ...contactLines(4), 'Ada,Bad,no address,'];
    const done = await importFile(
      app,
      customer,
      { ...upserted, dry_run: true, list_ids: [list] },
      contactsCsv(...lines),
    );
    expect(countsOf(done)).toEqual({ total: 9, processed: 9, created: 4, updated: 2, unchanged: 2, failed: 1 });
    const [after] =
      await app.owner`select array_agg(to_jsonb(c) order by id) as contacts from contacts c where customer_id = ${customer.id}`;
    expect(after).toEqual(before);
    expect(await counted()).toBe(2);
    expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(0);
    expect(await errorsOf(customer, done.id)).toHaveLength(1);
  });
});

describe('imports in the background', () => {
  test('into very many lists are cancelled between two transactions, and count the members of each list', async () => {
    const lists: string[] = [];
    for (let i = 0; i < 200; i += 1) lists.push(await makeList(app.fastify, customer));
    const id = await beginImport(customer, { ...newContacts, list_ids: lists });
    await sendFile(customer, id, contactsCsv(...contactLines(1_000)));
    const work = workAtAll(app, customer);
    await expect.poll(async () => (await customer.get(`/imports/${id}`)).body.processed).toBeGreaterThan(0);
    expect((await customer.post(`/imports/${id}/cancel`, {})).status).toBe(200);
    await work;
    const { body } = await customer.get(`/imports/${id}`);
    expect(body).toMatchObject({ status: 'CANCELLED', created: await counted(), failed: 0 });
    expect(body.created).toBeLessThan(1_000);
    const shown = (await customer.post('/list-contact/list', { limit: 100 })).body as Json[];
    expect(new Set(shown.map(({ contacts_count }) => contacts_count))).toEqual(new Set([body.created]));
  });

  test('that wait for their file or their start are cancelled after 24 hours', async () => {
    const [uploading, uploaded, young, reopened] = [
      await beginImport(customer, { ...newContacts, start: false }),
      await beginImport(customer, { ...newContacts, start: false }),
      await beginImport(customer, { ...newContacts, start: false }),
      await beginImport(customer, { ...newContacts, start: false }),
    ];
    await sendFile(customer, uploaded, contactsCsv());
    // The time of an import is that of its id.
    const aged = async (id: string) => {
      const [row] = await app.owner<[{ id: string }]>`
        insert into imports (customer_id, id, name, object, mode, format, ignore_unknown, list_ids, dry_run, is_automatic, status, file_bytes)
        select customer_id, uuidv7(interval '-25 hours'), name, object, mode, format, ignore_unknown, list_ids, dry_run, is_automatic, status, file_bytes
        from imports where id = ${id} returning id`;
      await app.owner`delete from imports where id = ${id}`;
      return row.id;
    };
    const old = [await aged(uploading), await aged(uploaded)];
    // Its columns can change since its check has ended, an hour ago.
    const waiting = await aged(reopened);
    await app.owner`update imports set due_at = now() - interval '1 hour' where id = ${waiting}`;
    await sweepJobs(contextOf(app), {});
    for (const id of old) expect((await customer.get(`/imports/${id}`)).body.status).toBe('CANCELLED');
    for (const id of [young, waiting]) expect((await customer.get(`/imports/${id}`)).body.status).toBe('UPLOADING');
  });

  test('lose their failed records 30 days after their end', async () => {
    const done = await importFile(app, customer, newContacts, contactsCsv('Ada,Bad,no address,'));
    expect(await errorsOf(customer, done.id)).toHaveLength(1);
    const endedAgo = (time: string) =>
      app.owner`update imports set finished_at = now() - ${time}::interval where id = ${done.id}`;
    await endedAgo('29 days 23:59');
    const download = await openErrors(app, customer, done.id);
    // A download that begins now may still run when the records can no longer be read.
    await endedAgo('30 days 00:59');
    await sweepJobs(contextOf(app), {});
    expect((await customer.get(`/imports/${done.id}/errors`)).status).toBe(409);
    expect((await download.readAll()).join('')).toContain('no address');
    await endedAgo('31 days');
    await sweepJobs(contextOf(app), {});
    expect((await app.owner`select from import_rows where import_id = ${done.id}`).count).toBe(0);
    expect((await customer.get(`/imports/${done.id}/errors`)).status).toBe(409);
    expect((await customer.get(`/imports/${done.id}`)).body.failed).toBe(1);
  });
});
