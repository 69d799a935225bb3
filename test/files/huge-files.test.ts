import { describe, expect, test } from 'vitest';
import { textsOf, type ImportFile } from '../../src/files/encodings.ts';
import { costOf, maxHeldMs } from './cost.ts';
import { contacts, lines, readContent } from './reading.ts';

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
  ])('%s', async (_what, file, start, repeated, expected) => {
    const chunk = Buffer.alloc(1024 * 1024, repeated);
    async function* chunks(): AsyncGenerator<Buffer> {
      if (file.format === 'csv') yield Buffer.from('first_name\n');
      yield Buffer.from(start);
      for (let i = 0; i < 256; i += 1) yield chunk;
    }
    let found: Partial<Awaited<ReturnType<typeof readContent>>> = {};
    const { heldMs, memory } = await costOf(async () => {
      found = await readContent(file, { texts: textsOf(chunks(), 'utf-8') });
    });
    const { layout: _, rows: _rows, ...outcome } = found;
    expect(outcome).toEqual(expected);
    expect(memory).toBeLessThan(128 * 1024 * 1024);
    expect(heldMs).toBeLessThan(maxHeldMs);
  });
});
