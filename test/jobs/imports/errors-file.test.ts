import { describe, expect, test } from 'vitest';
import { visitorOf } from '../../pages/visitor.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { beginImport, contactLines, contactsCsv, newContacts, openErrors, sendFile, workAtAll } from '../importing.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const columns = 'first_name,last_name,work_email,phone_numbers,_line,_error,_warning\r\n';

async function uploaded(...lines: string[]): Promise<string> {
  const id = await beginImport(customer, newContacts);
  await sendFile(customer, id, contactsCsv(...lines));
  return id;
}

describe('the errors file has the columns of the import', () => {
  test('while a worker reads its file for the first time', async () => {
    const id = await uploaded(...contactLines(3));
    await app.owner`
      update imports set status = 'PROCESSING', attempt = 1, turn = gen_random_uuid()
      where id = ${id}`;
    expect((await customer.get(`/imports/${id}/errors`)).body).toBe(columns);
  });

  test('when the import ends before its file is read', async () => {
    const id = await uploaded('Ada,Lovelace,no address,');
    const { readAll } = await openErrors(app, customer, id);
    await workAtAll(app, customer);
    const pieces = (await readAll()).map(String);
    expect(pieces).toEqual([columns, expect.stringMatching(/^Ada,Lovelace,no address,,2,/)]);
  });
});

test('a large errors file is read in small parts, which are the whole file', async () => {
  const id = await uploaded(...contactLines(3));
  await workAtAll(app, customer);
  const texts = Array.from({ length: 40 }, (_, i) => 'é😀'.repeat(2_000 + i));
  await app.owner`
    insert into import_rows (customer_id, import_id, line, cells, error)
    select ${customer.id}, ${id}, n + 1, json_build_array(text), 'is wrong'
    from unnest(${texts}::text[]) with ordinality given (text, n)`;
  const lines = texts.map((text, i) => `${text},,,,${i + 2},is wrong,\r\n`);
  const { readAll } = await openErrors(app, customer, id);
  const pieces = (await readAll()).map(String);
  expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThanOrEqual(256 * 1024);
  expect(pieces.join('') === columns + lines.join('')).toBe(true);
});

test('HEAD of an errors file reads nothing of it', async () => {
  const id = await uploaded(...contactLines(3));
  const visitor = await visitorOf(app.fastify, customer.id);
  await app.owner.begin(async (sql) => {
    await sql`lock table import_chunks, import_rows in access exclusive mode`;
    const answers = [
      await customer.call('HEAD', `/imports/${id}/errors`),
      await visitor.send('HEAD', `/app/imports/${id}/errors.csv`),
    ];
    for (const { status, headers } of answers) {
      expect([status, headers['content-type']]).toEqual([200, 'text/csv; charset=utf-8']);
      expect(headers).not.toHaveProperty('content-length');
    }
    expect((await sql`select from pg_locks where not granted and relation = 'import_rows'::regclass`).count).toBe(0);
  });
  const waiting = await beginImport(customer);
  expect((await customer.call('HEAD', `/imports/${waiting}/errors`)).status).toBe(409);
});
