import { setImmediate as nextTurn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { columnsOf } from '../../src/files/columns.ts';
import { longestCell, xlsxBytes } from '../../src/files/write-records.ts';
import { contactFileFields } from '../../src/schemas/files.ts';
import { readSheet } from '../setup/xlsx.ts';

const columns = columnsOf(contactFileFields, ['custom_fields.a', 'custom_fields.b'], 'xlsx');

/** Writes texts into one column, and reads them again. */
async function written(texts: string[]): Promise<unknown[]> {
  const pages = async function* () {
    yield texts.map((a) => ({ custom_fields: { a, b: 'x' } }));
  };
  const pieces: Buffer[] = [];
  for await (const bytes of xlsxBytes(columns, 'Contacts', pages())) pieces.push(bytes);
  return (await readSheet(Buffer.concat(pieces))).records.map((record) => record['custom_fields.a']);
}

test('a cell of XLSX holds any text as text, whatever it begins with and whatever characters it has', async () => {
  const texts = ['=1+1', '+49', '@x', '007', '1e5', 'true', '\\N', ' a ', 'a\r\nb\tc\rd', '<&>"\'', '😀', '_x0041_'];
  expect(await written(texts)).toEqual(texts);
  // Without surrogates that stand alone, which the service does not store.
  const some = fc.array(fc.string({ unit: 'binary', minLength: 1 }), { minLength: 1 });
  await fc.assert(
    fc.asyncProperty(some, async (given) => {
      expect(await written(given)).toEqual(given);
    }),
    { numRuns: 50 },
  );
});

test('a cell of XLSX ends with … where Excel cannot hold the whole text', async () => {
  const [most, more] = await written(['x'.repeat(longestCell), 'y'.repeat(longestCell + 1)]);
  expect(most).toBe('x'.repeat(longestCell));
  expect(more).toBe(`${'y'.repeat(longestCell - 1)}…`);
});

test('a file of XLSX is written no further than its reader reads, and reads no more records when that goes away', async () => {
  const read = { pages: 0, isEnded: false };
  async function* endless(): AsyncGenerator<object[]> {
    try {
      // Random texts, which cannot be compressed to nothing.
      for (; read.pages < 100_000; read.pages += 1)
        yield Array.from({ length: 500 }, () => ({ custom_fields: { a: crypto.randomUUID() } }));
    } finally {
      read.isEnded = true;
    }
  }
  const file = xlsxBytes(columns, 'Contacts', endless());
  for (let bytes = 0; bytes < 100_000;) bytes += (await file.next()).value!.length;
  let before: number;
  do {
    before = read.pages;
    for (let i = 0; i < 100; i += 1) await nextTurn();
  } while (read.pages > before);
  expect(read.pages).toBeLessThan(100);
  await file.return(undefined);
  await expect.poll(() => read.isEnded).toBe(true);
});
