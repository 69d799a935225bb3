import { describe, expect, test } from 'vitest';
import type { ImportFile } from '../../src/files/import-file.ts';
import { readLayout } from '../../src/files/layout/layout.ts';
import { readRecords, type FileRecord } from '../../src/files/read-records.ts';
import { costOf, mostHeldMs } from './cost.ts';
import { chunksOf, contacts, lines } from './reading.ts';

describe('256 MiB without a record, or of one, take little memory and never hold the event loop', () => {
  const aRecord = { records: [expect.any(Object)] };

  test.each<[string, ImportFile, string, string, object]>([
    ['one cell', contacts, 'x', 'x', aRecord],
    ['many cells', contacts, ',', ',', aRecord],
    [
      'a quote left open',
      contacts,
      '"',
      '\n',
      { records: [], refused: 'the file has a quote that is not closed (line 2)' },
    ],
    ['white space', contacts, ' ', ' ', { records: [] }],
    ['blank lines', contacts, '\r', '\n', { records: [] }],
    ['blank lines of NDJSON', lines, '\n', '\n', { records: [] }],
    ['NDJSON', lines, '[', '[', aRecord],
  ])('%s', async (_what, file, start, repeated, outcome) => {
    const layout = await readLayout(file, chunksOf(Buffer.from('first_name\n'), [100]));
    const chunk = Buffer.alloc(1024 * 1024, repeated);
    async function* chunks(): AsyncGenerator<Buffer> {
      yield Buffer.from(start);
      for (let i = 0; i < 256; i += 1) yield chunk;
    }
    const found: { records: FileRecord[]; refused?: string } = { records: [] };
    const { heldMs, memory } = await costOf(async () => {
      try {
        for await (const batch of readRecords(file, layout, chunks(), layout?.start ?? { bytes: 0, line: 1 }))
          found.records.push(...batch);
      } catch (error) {
        found.refused = (error as Error).message;
      }
    });
    expect(found).toEqual(outcome);
    expect(memory).toBeLessThan(128 * 1024 * 1024);
    expect(heldMs).toBeLessThan(mostHeldMs);
  });
});
