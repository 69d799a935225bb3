import { writeXlsx } from 'hucre/xlsx';
import { describe, expect, test } from 'vitest';
import { CallerHungUp } from '../../../src/access/credentials.ts';
import type { Database } from '../../../src/database/db.ts';
import { encodingOfMark } from '../../../src/files/encodings.ts';
import { importRecords } from '../../../src/jobs/import-records.ts';
import { receiveFile } from '../../../src/jobs/start-import.ts';
import { allImports } from '../../../src/queries/jobs/imports.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import {
  beginImport,
  contactLines,
  contactsCsv,
  newContacts,
  openErrors,
  sendBytes,
  sendFile,
  workAtAll,
} from '../importing.ts';
import { contextOf } from '../working.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const created = { object: 'contacts', mode: 'create', invalid_values: 'fail' } as const;
const waiting = { ...created, start: false } as const;

/** A German Excel saves such a file as "CSV". */
const german = 'first_name;last_name;work_email\r\nJörg;Müller – €;joerg@example.com\r\nÄnne;Groß;no address\r\n';
const windows1252 = Buffer.from(
  [...german].map((letter) => ({ '–': 0x96, '€': 0x80 })[letter] ?? letter.charCodeAt(0)),
);
const utf16le = Buffer.from(`\ufeff${german}`, 'utf16le');
const utf16be = Buffer.from(utf16le).swap16();

async function done(settings: object, bytes: Buffer) {
  const id = await sendBytes(customer, settings, bytes);
  await workAtAll(app, customer);
  return (await customer.get(`/imports/${id}`)).body;
}

async function errorsOf(id: string): Promise<{ type: string; bytes: Buffer }> {
  const { type, readAll } = await openErrors(app, customer, id);
  return { type, bytes: Buffer.concat(await readAll()) };
}

const lastNames = async (): Promise<string[]> =>
  (await app.owner`select last_name from contacts where customer_id = ${customer.id} order by last_name`).map(
    (row) => row['last_name'],
  );

describe('the encoding of a file', () => {
  test.each([
    ['UTF-8', 'utf-8', Buffer.from(german)],
    ['UTF-8 with a mark', 'utf-8', Buffer.from(`\ufeff${german}`)],
    ['UTF-16, little endian', 'utf-16le', utf16le],
    ['UTF-16, big endian', 'utf-16be', utf16be],
    ['Windows-1252', 'windows-1252', windows1252],
  ])('%s is found, read and kept in the errors file, which can be sent again', async (_name, encoding, bytes) => {
    const found = await done(created, bytes);
    expect(found).toMatchObject({ status: 'COMPLETED', format: 'csv', encoding, total: 2, created: 1, failed: 1 });
    expect(await lastNames()).toEqual(['Müller – €']);
    const { type, bytes: errors } = await errorsOf(found.id);
    expect(type).toBe(`text/csv; charset=${encoding}`);
    const text = new TextDecoder(encoding, { fatal: true }).decode(errors);
    expect(text.split('\r\n').slice(0, 2)).toEqual([
      'first_name;last_name;work_email;_line;_error;_warning',
      expect.stringMatching(/^Änne;Groß;no address;3;/),
    ]);
    expect(encodingOfMark(errors)).toBe(encodingOfMark(bytes));
    const again = await done(created, errors);
    expect(again).toMatchObject({ encoding, total: 1, failed: 1 });
  });

  test('is shown by the import and its preview, and can be changed before the start', async () => {
    const id = await sendBytes(customer, waiting, Buffer.from('first_name\n\xa3\xb1\n', 'latin1'));
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ format: 'csv', encoding: 'windows-1252' });
    const shown = (await customer.get(`/imports/${id}/preview`)).body;
    expect(shown).toMatchObject({ encoding: 'windows-1252', separator: ',', sheets: null });
    expect(shown.records).toEqual([{ first_name: '£±' }]);
    expect((await customer.patch(`/imports/${id}`, { encoding: 'Latin2' })).body.encoding).toBe('iso-8859-2');
    expect((await customer.get(`/imports/${id}/preview`)).body.records).toEqual([{ first_name: 'Łą' }]);
    expect((await customer.patch(`/imports/${id}`, { encoding: 'auto' })).body.encoding).toBe('windows-1252');
    const { status, body } = await customer.patch(`/imports/${id}`, { encoding: 'utf-88' });
    expect(status).toBe(400);
    expect(JSON.stringify(body)).toContain('/encoding');
  });

  test.each([
    [
      'UTF-8',
      { encoding: 'utf-8' },
      Buffer.from('first_name\nA\nB\xe9\n', 'latin1'),
      'not valid UTF-8 (line 3): save it',
    ],
    ['another mark', { encoding: 'windows-1252' }, utf16le, 'begins with the byte order mark of UTF-16LE'],
    [
      'a mark, later other bytes',
      {},
      Buffer.from(`\xef\xbb\xbffirst_name\n${'A\n'.repeat(1_500)}B\xe9\n`, 'latin1'),
      'UTF-8 (line 1502): save it',
    ],
    [
      'NDJSON with a byte that is not UTF-8',
      {},
      Buffer.from('{"first_name":"Jo"}\n{"first_name":"J\xf6"}\n', 'latin1'),
      'UTF-8 (line 2): NDJSON is UTF-8: save it in this encoding',
    ],
    ['a letter that is cut', { encoding: 'utf-16le' }, utf16le.subarray(0, -1), 'not valid UTF-16LE (line 4)'],
    ['a picture', {}, Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\n', 'latin1'), 'is not CSV: it is a picture'],
    ['a ZIP file as CSV', { format: 'csv' }, Buffer.from('PK\x03\x04x'), 'is not CSV: it is a ZIP file'],
  ])(
    'that does not fit (%s) makes the import FAILED, with the place and what to do, before it writes anything',
    async (_what, given, bytes, error) => {
      const found = await done({ ...created, ...given }, bytes);
      expect(found).toMatchObject({ status: 'FAILED', error: expect.stringContaining(error), total: null });
      expect(await lastNames()).toEqual([]);
    },
  );
});

describe('the format of a file', () => {
  test.each([
    ['NDJSON', '\ufeff \n{"first_name": "Ada"}\n', 'ndjson', 1],
    ['CSV', 'first_name|last_name\nAda|Lovelace\n', 'csv', 1],
    ['a CSV of many blank lines', `${'\n'.repeat(5_000)}{a},first_name\n`, 'csv', 0],
  ])('is found by its first character: %s', async (_what, text, format, records) => {
    const id = await beginImport(customer, waiting);
    const sent = await sendFile(customer, id, text);
    expect(sent.body).toMatchObject({ format, encoding: 'utf-8', status: 'UPLOADED' });
    const { body } = await customer.get(`/imports/${id}/preview`);
    expect(body.records).toHaveLength(records);
    expect(body.separator).toBe(format === 'ndjson' ? null : text.includes('|') ? '|' : ',');
  });

  test('that is empty is COMPLETED with total 0', async () => {
    const id = await beginImport(customer, waiting);
    expect((await sendFile(customer, id, '')).body).toMatchObject({ format: 'auto', status: 'UPLOADED' });
    const preview = (await customer.get(`/imports/${id}/preview`)).body;
    expect(preview).toMatchObject({ headers: null, mapping: null, records: [], errors: [] });
    await customer.post(`/imports/${id}/start`);
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'COMPLETED', total: 0 });
    expect((await errorsOf(id)).bytes.toString()).toBe('_record,_line,_error,_warning\r\n');
  });

  test('that is NDJSON leaves a mapping out, with a warning', async () => {
    const mapping = { Mail: 'work_email' };
    const id = await beginImport(customer, { ...waiting, mapping });
    await sendFile(customer, id, '{"first_name": "Ada"}\n');
    const { body } = await customer.get(`/imports/${id}/preview`);
    expect(body).toMatchObject({ mapping: null, warnings: [{ path: '/mapping' }] });
    expect((await customer.patch(`/imports/${id}`, { mapping })).status).toBe(400);
  });
});

describe('an XLSX file', () => {
  const workbook = (): Promise<Uint8Array> =>
    writeXlsx({
      sheets: [
        {
          name: 'People',
          rows: [
            ['Our contacts'],
            [],
            [
              'first_name',
              'last_name',
              'work_email',
              'custom_fields.since',
              'custom_fields.code',
              'custom_fields.paid',
            ],
            ['Jörg', 'Müller', 'joerg@example.com', new Date('2024-03-15T00:00:00Z'), '007', 1.5],
            [],
            ['Änne', 'Groß', 'no address', null, '42', 2],
          ],
        },
        { name: 'Others', rows: [['first_name', 'work_email']] },
        { name: 'Empty', rows: [] },
      ],
    });

  test('is found, and read with types; the rows of its errors file are those of the sheet', async () => {
    const found = await done(created, Buffer.from(await workbook()));
    expect(found).toMatchObject({ status: 'COMPLETED', format: 'xlsx', encoding: null, total: 2, failed: 1 });
    const { body } = await customer.post('/contacts/list', { filters: { work_email: 'joerg@example.com' } });
    expect(JSON.stringify(body)).toContain('"custom_fields":{"code":"007","paid":1.5,"since":"2024-03-15"}');
    const { type, bytes } = await errorsOf(found.id);
    expect(type).toBe('text/csv; charset=utf-8');
    expect(bytes.toString()).toMatch(
      /^first_name,last_name,work_email,custom_fields\.since,custom_fields\.code,custom_fields\.paid,_line,_error,_warning\r\nÄnne,Groß,no address,,"42",2,6,/,
    );
  });

  test('has a preview, and another sheet can be chosen before the start', async () => {
    const id = await sendBytes(customer, waiting, Buffer.from(await workbook()));
    const shown = (await customer.get(`/imports/${id}/preview`)).body;
    expect(shown).toMatchObject({ encoding: null, separator: null, sheets: ['People', 'Others', 'Empty'] });
    expect(shown.records[0]).toMatchObject({ first_name: 'Jörg', custom_fields: { code: '007' } });
    await customer.patch(`/imports/${id}`, { sheet: 'None' });
    const none = (await customer.get(`/imports/${id}/preview`)).body;
    expect(none.errors[0].message).toContain('has no sheet "None": it has "People", "Others", "Empty"');
    await customer.patch(`/imports/${id}`, { sheet: 'Others' });
    expect((await customer.get(`/imports/${id}/preview`)).body).toMatchObject({ records: [], errors: [] });
    await customer.patch(`/imports/${id}`, { sheet: 'Empty' });
    await customer.post(`/imports/${id}/start`);
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'COMPLETED', total: 0 });
  });

  test('is read anew by the next worker if one is stopped, and each row is kept once', async () => {
    const rows = Array.from({ length: 4_000 }, (_, i) => [
      'Ada',
      `No ${i} ${crypto.randomUUID()}`,
      `a${i}@example.com`,
    ]);
    const bytes = Buffer.from(
      await writeXlsx({ sheets: [{ name: 'S', rows: [['first_name', 'last_name', 'work_email'], ...rows] }] }),
    );
    const id = await sendBytes(customer, { ...created, dry_run: true }, bytes);
    const stop = new AbortController();
    const context = contextOf(app);
    const stopping = {
      ...context,
      stopping: stop.signal,
      db: {
        ...context.db,
        transaction: async (work: Parameters<typeof context.db.transaction>[0]) => {
          const result = await context.db.transaction(work);
          const { count } = await app.owner`select from import_rows where import_id = ${id}`;
          if (count > 1_000) stop.abort();
          return result;
        },
      } as typeof context.db,
    };
    await importRecords(60)(stopping, { customerId: customer.id });
    expect(stop.signal.aborted).toBe(true);
    expect((await customer.get(`/imports/${id}`)).body.total).toBe(null);
    await importRecords(0)(context, { customerId: customer.id });
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'PROCESSING', total: 4_000 });
    expect((await app.owner`select from import_rows where import_id = ${id}`).count).toBe(4_000);
    // The columns of a checked file can be changed.
    expect((await app.owner`select from import_chunks where import_id = ${id}`).count).toBe(1);
  });

  test('of more than 50 MiB is 413, and nothing is kept', async () => {
    const id = await beginImport(customer, { ...created, format: 'xlsx' });
    const { status, body } = await sendFile(customer, id, Buffer.alloc(50 * 2 ** 20 + 1));
    expect([status, body.message]).toEqual([413, expect.stringContaining('The XLSX file is larger than 50 MiB')]);
    expect((await app.owner`select from import_chunks where import_id = ${id}`).count).toBe(0);
  });
});

describe('a file whose upload ends in an error', () => {
  test('is not started by a transaction that commits after the clean-up', async () => {
    const id = await beginImport(customer, newContacts);
    const cleaned = Promise.withResolvers<void>();
    let [begun, late] = [0, Promise.resolve() as Promise<unknown>];
    // The caller hangs up while this transaction runs: its call rejects, and the transaction continues.
    const hangingUp = {
      ...app.db,
      transaction: async (work: Parameters<Database['transaction']>[0]) => {
        begun += 1;
        if (begun !== 3) return app.db.transaction(work);
        late = cleaned.promise.then(() => app.db.transaction(work)).catch((error: unknown) => error);
        throw new CallerHungUp();
      },
    } as unknown as Database;
    await expect(receive(hangingUp, customer.id, id)).rejects.toThrow('hung up');
    cleaned.resolve();
    await late;
    expect((await app.owner`select from import_chunks where customer_id = ${customer.id}`).count).toBe(0);
    expect((await customer.get(`/imports/${id}`)).body.status).toBe('UPLOADING');
    expect((await sendFile(customer, id, contactsCsv(...contactLines(2)))).status).toBe(200);
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'COMPLETED', created: 2 });
  });

  async function receive(db: Database, customerId: string, id: string): Promise<void> {
    async function* pieces(): AsyncGenerator<Buffer> {
      yield Buffer.from(contactsCsv(...contactLines(3)));
    }
    await receiveFile({ db, cleaner: app.db }, customerId, { id, visible: allImports }, pieces());
  }
});
