import { setImmediate as nextTurn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { columnLetters, columnsOf } from '../../src/files/columns.ts';
import { longestCell, xlsxBytes } from '../../src/files/write-records.ts';
import { contactFileFields } from '../../src/schemas/files.ts';
import { readSheet } from '../setup/xlsx.ts';

const custom = (keys: string[]) =>
  columnsOf(
    contactFileFields,
    keys.map((key) => `custom_fields.${key}`),
    'xlsx',
  );

async function* pagesOf(...pages: object[][]): AsyncGenerator<object[]> {
  yield* pages;
}

async function fileWith(columns: ReturnType<typeof custom>, pages: AsyncIterable<object[]>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const bytes of xlsxBytes(columns, 'Contacts', pages)) pieces.push(bytes);
  return Buffer.concat(pieces);
}

/** Writes values into one column, and reads them again. */
async function written(values: unknown[]): Promise<unknown[]> {
  const file = await fileWith(custom(['a', 'b']), pagesOf(values.map((a) => ({ custom_fields: { a, b: 'x' } }))));
  return (await readSheet(file)).records.map((record) => record['custom_fields.a']);
}

describe('a cell', () => {
  test('holds any text as text, whatever it begins with and whatever characters it has', async () => {
    const texts = [
      '=1+1',
      '+49',
      '-1',
      '@x',
      '007',
      '1e5',
      'true',
      '\\N',
      ' a ',
      'a\r\nb\tc\rd',
      '<&>"\'',
      '😀',
      '_x0041_',
    ];
    expect(await written(texts)).toEqual(texts);
    // Without surrogates that stand alone, which the service does not store.
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ unit: 'binary', minLength: 1 }), { minLength: 1 }), async (texts) => {
        expect(await written(texts)).toEqual(texts);
      }),
      { numRuns: 50 },
    );
  });

  test('holds numbers and booleans as such', async () => {
    const values = [0, -1.5, 1e21, 123456789012345, 5e-7, true, false];
    expect(await written(values)).toEqual(values);
  });

  test('ends with … where Excel cannot hold the whole text', async () => {
    const [most, more] = await written(['x'.repeat(longestCell), 'y'.repeat(longestCell + 1)]);
    expect(most).toBe('x'.repeat(longestCell));
    expect(more).toBe(`${'y'.repeat(longestCell - 1)}…`);
  });

  test('has the letters of its column', () => {
    expect([0, 25, 26, 701, 702, 16_383].map(columnLetters)).toEqual(['A', 'Z', 'AA', 'ZZ', 'AAA', 'XFD']);
  });
});

describe('the file is written while it is read', () => {
  const record = { custom_fields: Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, `value ${i}`])) };
  const columns = custom(Object.keys(record.custom_fields));

  test('no further than its reader reads', async () => {
    let pages = 0;
    async function* endless(): AsyncGenerator<object[]> {
      for (; pages < 100_000; pages += 1) {
        // Random texts, so that they cannot be compressed to nothing.
        yield Array.from({ length: 500 }, () => ({
          custom_fields: { ...record.custom_fields, k0: crypto.randomUUID() },
        }));
      }
    }
    const file = xlsxBytes(columns, 'Contacts', endless());
    for (let bytes = 0; bytes < 100_000;) bytes += (await file.next()).value!.length;
    let before: number;
    do {
      before = pages;
      for (let i = 0; i < 100; i += 1) await nextTurn();
    } while (pages > before);
    expect(pages).toBeLessThan(50);
    await file.return(undefined);
  });

  test('and ends the reading of records when its reader goes away', async () => {
    const read = { pages: 0, isEnded: false };
    async function* endless(): AsyncGenerator<object[]> {
      try {
        for (; ; read.pages += 1) yield [record];
      } finally {
        read.isEnded = true;
      }
    }
    const file = xlsxBytes(columns, 'Contacts', endless());
    do await file.next();
    while (read.pages === 0);
    await file.return(undefined);
    await expect.poll(() => read.isEnded).toBe(true);
  });

  test('and fails when the records fail, so that it is never taken for a whole file', async () => {
    async function* failing(): AsyncGenerator<object[]> {
      yield Array.from({ length: 500 }, () => record);
      throw new Error('the database has failed');
    }
    await expect(fileWith(columns, failing())).rejects.toThrow('the database has failed');
  });
});
