import { expect, test } from 'vitest';
import postgres from 'postgres';
import { migrate } from '../../src/database/migrate.ts';
import { fromStored } from '../../src/files/stored-rows.ts';
import { atEnd } from '../setup/at-end.ts';
import { createDatabase } from '../setup/database.ts';
import { migrationsBefore } from '../setup/earlier-migrations.ts';

test('failed records of an earlier release keep their cells, and imports under way go on behind their last record', async () => {
  const database = await createDatabase('nothing');
  atEnd(() => database.drop());
  const owner = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
  atEnd(() => owner.end());
  await migrate(database.ownerUrl, await migrationsBefore('0055'));
  const [{ id: customer }] = await owner<[{ id: string }]>`
    insert into customers (business_name) values ('Importer') returning id`;
  const begin = async (format: string, layout: object | null, lines: string, more: object = {}): Promise<string> => {
    const row = {
      customer_id: customer,
      name: '',
      object: 'contacts',
      mode: 'create',
      format,
      ignore_unknown: false,
      list_ids: [],
      dry_run: false,
      is_automatic: true,
      status: 'PROCESSING',
      file_bytes: 1,
      layout: layout && owner.json(layout as never),
      total: 10,
      failed: 3,
      ...more,
    };
    const [{ id }] = await owner<[{ id: string }]>`insert into imports ${owner(row as never)} returning id`;
    await owner`
      insert into import_errors (customer_id, import_id, position, lines)
      values (${customer}, ${id}, 7, ${lines})`;
    return id;
  };
  const csv = await begin(
    'csv',
    { separator: ';', headers: ['first_name', '_error', 'a "b"'], columns: [], omitted: [1] },
    '"x;\n""y""";;2;is wrong;\r\nAda;"1";5;;"left; out"\r\n;;6;"has more";;further;"2"\r\n',
    { position: owner.json({ bytes: 99, line: 8 }) },
  );
  const ndjson = await begin('ndjson', null, '"{""a"":1}",1,is wrong,\r\n', {
    status: 'COMPLETED',
    finished_at: '2026-03-01',
    created: 7,
  });
  const converted = await begin('xlsx', { separator: ',', headers: ['a'], columns: [] }, 'x,3,is wrong,\r\n', {
    is_converted: true,
  });
  await migrate(database.ownerUrl);

  const rows = await owner<{ import_id: string; line: number; cells: string; error: string; warning: string }[]>`
    select import_id, line, cells::text as cells, error, warning from import_rows order by import_id, line`;
  expect(
    rows.map(({ import_id: id, line, cells, error, warning }) => [
      id,
      line,
      fromStored(line, cells).cells.map(({ text }) => text),
      error,
      warning,
    ]),
  ).toEqual([
    [csv, 2, ['x;\n"y"', '', ''], 'is wrong', null],
    [csv, 5, ['Ada', '', '1'], null, 'left; out'],
    [csv, 6, ['', '', '', 'further', '2'], 'has more', null],
    [ndjson, 1, ['{"a":1}'], 'is wrong', null],
    [converted, 3, ['x'], 'is wrong', null],
  ]);
  const imports = await owner`select id, status, total, done_line, error from imports order by id`;
  expect(imports.map((row) => Object.values(row))).toEqual([
    [csv, 'PROCESSING', null, 7, null],
    [ndjson, 'COMPLETED', 10, 0, null],
    [converted, 'FAILED', null, 0, 'the service was updated during the import: send the file again'],
  ]);
});
