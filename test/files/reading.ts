import { DomainError } from '../../src/errors.ts';
import type { Cell } from '../../src/files/columns.ts';
import { textsOf, FileRefused, type ImportFile } from '../../src/files/encodings.ts';
import type { Mapping } from '../../src/schemas/imports.ts';
import { readLines, type Content } from '../../src/files/header.ts';
import { readHeaderOf, readLayout, type CsvLayout } from '../../src/files/layout.ts';
import { settleLayout } from '../../src/files/settle-layout.ts';
import type { RawRecord } from '../../src/files/record-formats.ts';
import { readRecords, survey, type FileRecord } from '../../src/files/read-records.ts';
import { fromStored, toStored, type StoredRow } from '../../src/files/stored-rows.ts';

/** A value that cannot be read makes its record fail, so that tests see it. */
export const contacts: ImportFile = {
  object: 'contacts',
  mode: 'create',
  match: null,
  format: 'csv',
  encoding: 'auto',
  found_encoding: null,
  mapping: null,
  guess: false,
  has_header: true,
  ignore_unknown: false,
  invalid_values: 'fail',
};
export const lenient: ImportFile = { ...contacts, ignore_unknown: true };
export const lines: ImportFile = { ...contacts, format: 'ndjson' };

/** Yields the bytes in chunks of these sizes, again and again. Overwrites each chunk, as a reused buffer would be. */
export async function* chunksOf(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let [at, i] = [0, 0]; at < bytes.length; i += 1) {
    const chunk = Buffer.from(bytes.subarray(at, at + sizes[i % sizes.length]!));
    at += chunk.length;
    yield chunk;
    chunk.fill(0xff);
  }
}

/** Everything that was read from a file: its records, and why it was refused. */
interface Outcome {
  layout: CsvLayout | null;
  /** As they are stored. */
  rows: StoredRow[];
  records: FileRecord[];
  refused?: string;
}

export const read = (
  file: ImportFile,
  content: string | Buffer,
  sizes: readonly number[] = [1_000],
): Promise<Outcome> => readContent(file, { texts: textsOf(chunksOf(Buffer.from(content), sizes), 'utf-8') });

/** Reads a file as an import does: its columns and their types, and its records, which are stored and read again. */
export async function readContent(file: ImportFile, content: Content): Promise<Outcome> {
  const { layout, all } = await columnsOf(file, content);
  const rows: StoredRow[] = [];
  let refused: string | undefined;
  try {
    for await (const records of all)
      for (const raw of records) {
        survey(file, layout, raw);
        rows.push(fromStored(raw.line, toStored(raw)));
      }
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    refused = error.message;
  }
  const settled = layout && settleLayout(file, layout);
  const end = settled?.footer?.[0]?.line ?? Infinity;
  const wanted = rows.filter(({ line }) => line < end);
  const records = await readRecords(file, settled, wanted);
  return { layout: settled, rows: wanted, records, ...(refused === undefined ? {} : { refused }) };
}

/** The rows of a sheet, as they are read. */
export async function* sheetRows(...rows: readonly Cell[][]): AsyncGenerator<RawRecord[]> {
  yield rows.map((cells, i) => ({
    cells,
    cellCount: cells.length,
    line: i + 1,
    nextLine: i + 2,
    endsWithCr: false,
    fault: undefined,
    faultLine: i + 1,
  }));
}

async function columnsOf(
  file: ImportFile,
  content: Content,
): Promise<{ layout: CsvLayout | null; all: AsyncGenerator<RawRecord[]> }> {
  if ('texts' in content && file.format === 'ndjson') return { layout: null, all: readLines(content.texts) };
  const beginning = await readHeaderOf(file, content);
  return { layout: await readLayout(file, beginning, () => Promise.resolve(undefined)), all: beginning.readOn() };
}

/** Decides how the columns of a CSV file are read. */
export const layoutFor = async (file: ImportFile, content: string, remembered?: Mapping): Promise<CsvLayout> => {
  const texts = textsOf(chunksOf(Buffer.from(content), [50]), 'utf-8');
  return readLayout(file, await readHeaderOf(file, { texts }), () => Promise.resolve(remembered));
};

/** The items of a file that can be read; of a failed record, the message of its first fault. */
export const itemsOf = ({ records }: { records: FileRecord[] }): unknown[] =>
  records.map(({ item }) => faultIn(item) ?? item);

const faultIn = (item: object): string | undefined =>
  item instanceof DomainError ? `${item.faults[0]!.path} ${item.faults[0]!.message}`.trim() : undefined;

/** Why a file is refused, before or while its records are read. */
export const refusal = async (file: ImportFile, content: string | Buffer): Promise<string> => {
  const outcome = await read(file, content).catch((error: unknown) => {
    if (error instanceof FileRefused) return { refused: error.message };
    throw error;
  });
  return outcome.refused ?? 'not refused';
};
