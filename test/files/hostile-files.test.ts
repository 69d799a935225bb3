import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, describe, expect, test } from 'vitest';
import { textsOf, FileProbe, FileRefused, type ImportFile } from '../../src/files/encodings.ts';
import { countryCodes } from '../../src/files/phones.ts';
import { openXlsx } from '../../src/files/xlsx.ts';
import { contacts, lenient, lines, readContent } from './reading.ts';
import { partsFrom, partsOf, zipped } from './xlsx/workbooks.ts';

/** What a piece of work has cost this process. */
interface Cost<T> {
  result: T;
  /**
   * The longest time for which it has computed without handling other events (ms). Of processor time: what other
   * processes take does not count.
   */
  heldMs: number;
  /** The most memory that was in use more than before, without garbage where it is more than `maxMemory` (bytes). */
  memory: number;
}

/** What held the event loop before it was mended held it for seconds; a slow machine takes 250 ms for what takes 50. */
const maxHeldMs = 1_000;

/** Whoever kept a file of 256 MiB would need more. */
const maxMemory = 128 * 1024 * 1024;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function memoryInUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function costOf<T>(work: () => Promise<T>): Promise<Cost<T>> {
  collectGarbage();
  const before = memoryInUse();
  let last = process.threadCpuUsage();
  const cost = { heldMs: 0, memory: 0 };
  const look = (): void => {
    const { user, system } = process.threadCpuUsage(last);
    cost.heldMs = Math.max(cost.heldMs, (user + system) / 1_000);
    if (memoryInUse() - before > maxMemory) collectGarbage();
    cost.memory = Math.max(cost.memory, memoryInUse() - before);
    last = process.threadCpuUsage();
  };
  const timer = setInterval(look, 1);
  try {
    const result = await work();
    look();
    return { result, ...cost };
  } finally {
    clearInterval(timer);
  }
}

const partBytes = 256 * 1024;

/** Reads a file as an import does: finds what it is, its columns and their types, and its records. */
async function readAll(bytes: Buffer): Promise<string> {
  const probe = new FileProbe('auto');
  for await (const part of partsFrom(bytes, partBytes)(0)) probe.add(part);
  const { format, encoding } = probe.found;
  const file: ImportFile = { ...lenient, guess: true, format: format ?? 'auto', invalid_values: 'skip' };
  try {
    const xlsx = format === 'xlsx' ? await openXlsx(partsFrom(bytes, partBytes), bytes.length) : undefined;
    const content = xlsx
      ? { rows: xlsx.rows(null, true) }
      : { texts: textsOf(partsFrom(bytes, partBytes)(0), encoding!) };
    const { records, refused } = await readContent(file, content);
    if (refused !== undefined) return refused;
    const first = records.map(({ item, shown }) => (item instanceof Error ? item.faults[0]!.message : shown));
    return JSON.stringify(first[0]);
  } catch (error) {
    if (error instanceof FileRefused) return error.message;
    throw error;
  }
}

const cell = (place: string, text: string): string =>
  `<c ${place && `r="${place}"`} t="inlineStr"><is><t>${text}</t></is></c>`;
const header = `<row r="1">${cell('A1', 'first_name')}${cell('B1', 'last_name')}</row>`;
const names = (count: number): string => Array.from({ length: count }, (_, i) => `column${i}`).join();

/** What the import says of a file: why it is refused, or its first record. */
const outcomes: [string, () => Buffer | string | Promise<Buffer>, string][] = [
  [
    'a column name of 1 MB',
    () => `${'x'.repeat(1e6)},first_name,last_name\n1,Ada,L\n`,
    '{"first_name":"Ada","last_name":"L"}',
  ],
  ['16,000 columns', () => `${names(16_000)}\n`, 'the file has more than 10000 columns (line 1)'],
  [
    'macros and formulas, which are not run',
    () =>
      zipped({
        ...partsOf(
          `${header}<row><c t="str"><f>HYPERLINK("http://x","Ada")</f><v>Ada</v></c>${cell('B2', '=1+1')}</row>`,
        ),
        'xl/vbaProject.bin': randomBytes(1_000),
      }),
    '{"first_name":"Ada","last_name":"=1+1"}',
  ],
  [
    'a bomb: a few bytes that unpack to 6 MB of nothing',
    () => zipped({ ...partsOf(''), 'xl/worksheets/sheet1.xml': `<worksheet>${'<a/>'.repeat(1.5e6)}</worksheet>` }),
    'the file has no header line',
  ],
];

// Loading the names of all countries takes long, once.
beforeAll(async () => void (await countryCodes()));

describe('a hostile file is refused in plain words, or read; it costs little memory and never holds the event loop', () => {
  test.each(outcomes)('%s', async (_what, bytesOf, outcome) => {
    const bytes = Buffer.from(await bytesOf());
    const { result, heldMs, memory } = await costOf(() => readAll(bytes));
    expect(result).toContain(outcome);
    expect(heldMs).toBeLessThan(maxHeldMs);
    expect(memory).toBeLessThanOrEqual(maxMemory);
  });
});

describe('256 MiB without a record, or of one, take little memory and never hold the event loop', () => {
  const aRecord = { records: [expect.any(Object)] };

  test.each<[string, ImportFile, string, string, object]>([
    ['one cell', contacts, 'x', 'x', aRecord],
    [
      'a quote left open',
      contacts,
      '"',
      '\n',
      { records: [], refused: 'the file has a quote that is not closed (line 2)' },
    ],
    ['blank lines', contacts, '\r', '\n', { records: [] }],
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
    expect(memory).toBeLessThanOrEqual(maxMemory);
    expect(heldMs).toBeLessThan(maxHeldMs);
  });
});
