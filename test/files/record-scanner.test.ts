import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type RawRecord, csvFormat, lineFormat, type RecordFormat } from '../../src/files/record-formats.ts';
import { scanRecords } from '../../src/files/record-scanner.ts';
import { textBlocks } from '../../src/files/encodings.ts';
import { chunksOf } from './reading.ts';

const csv = csvFormat(',', 10);

async function scan(content: string | Buffer, sizes: readonly number[], format: RecordFormat = csv) {
  const batches: RawRecord[][] = [];
  const texts = textBlocks(chunksOf(Buffer.from(content), sizes));
  for await (const batch of scanRecords(texts, format, 1, { endsLongRecords: true })) batches.push(batch);
  return batches.flat();
}

const outcomes = (records: readonly RawRecord[]) =>
  records.map(({ line, fault, cells }) => [line, fault ?? cells.map(({ text }) => text)]);

describe('a reader that continues after a fault', () => {
  test('reads the line after a quote that is left open, wherever that is noticed', async () => {
    const content = 'a,b\n"never closed,\nc,d\n"e\nf",g\n"later, too\nh,"i"\nj,k\n"at the end\nl,m';
    const expected = [
      [1, ['a', 'b']],
      [2, 'open quote'],
      [3, ['c', 'd']],
      [4, ['e\nf', 'g']],
      [6, 'open quote'],
      [7, ['h', 'i']],
      [8, ['j', 'k']],
      [9, 'open quote'],
      [10, ['l', 'm']],
    ];
    expect(outcomes(await scan(content, [1]))).toEqual(expected);
    expect(outcomes(await scan(content, [1_000]))).toEqual(expected);
  });

  test('takes a quote for open if it is not closed within 1 MiB, and reads all lines after it', async () => {
    const content = `"open\n${'a,b\n'.repeat(400_000)}"c\nd"\n`;
    for (const size of [5_000, 1_000_000]) {
      const records = await scan(content, [size]);
      expect(records).toHaveLength(400_002);
      expect(outcomes(records.slice(0, 2))).toEqual([
        [1, 'open quote'],
        [2, ['a', 'b']],
      ]);
      expect(records.at(-1)).toMatchObject({ line: 400_002, fault: undefined });
    }
  });

  test('gives the same records in whatever chunks the file arrives', async () => {
    const part = fc.oneof(
      fc
        .constantFrom('a', '"', '"', ',', '\n', '\r', '\r\n', ' ', 'é', '😀', '\ufeff')
        .map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 2 }).map((bytes) => Buffer.from(bytes)),
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 50 }), sizes, fc.boolean(), async (parts, some, isCsv) => {
        const format = isCsv ? csv : lineFormat;
        const bytes = Buffer.concat([Buffer.from('x'), ...parts]);
        expect(await scan(bytes, some, format)).toEqual(await scan(bytes, [bytes.length], format));
      }),
      { numRuns: 200 },
    );
  });
});
