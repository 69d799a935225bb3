import { DomainError } from '../../src/errors.ts';
import { FileRefused } from '../../src/files/file-refused.ts';
import type { ImportFile } from '../../src/files/import-file.ts';
import { readLayout, type CsvLayout } from '../../src/files/layout/layout.ts';
import type { FilePosition } from '../../src/files/raw-records.ts';
import { settleLayout } from '../../src/files/layout/settle-layout.ts';
import { readRecords, surveyRecords, type FileRecord } from '../../src/files/read-records.ts';

/** A value that cannot be read makes its record fail, so that tests see it. */
export const contacts: ImportFile = {
  object: 'contacts',
  mode: 'create',
  format: 'csv',
  ignoreUnknown: false,
  invalidValues: 'fail',
};
export const lenient: ImportFile = { ...contacts, ignoreUnknown: true };
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
  records: FileRecord[];
  refused?: string;
}

export async function read(
  file: ImportFile,
  content: string | Buffer,
  sizes: readonly number[] = [1_000],
): Promise<Outcome> {
  const bytes = Buffer.from(content);
  const begun = await readLayout(file, chunksOf(bytes, sizes));
  const layout = begun && (await settled(file, begun, bytes));
  return { layout, ...(await readFrom(file, layout, bytes, layout?.start ?? { bytes: 0, line: 1 }, sizes)) };
}

/** The layout after the first reading, as far as that comes. */
async function settled(file: ImportFile, layout: CsvLayout, bytes: Buffer): Promise<CsvLayout> {
  try {
    const chunks = chunksOf(bytes.subarray(layout.start.bytes), [256 * 1024]);
    for await (const _ of surveyRecords(file, layout, chunks, layout.start));
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
  }
  return settleLayout(file, layout);
}

export async function readFrom(
  file: ImportFile,
  layout: CsvLayout | null,
  bytes: Buffer,
  from: FilePosition,
  sizes: readonly number[],
): Promise<{ records: FileRecord[]; refused?: string }> {
  const records: FileRecord[] = [];
  try {
    for await (const batch of readRecords(file, layout, chunksOf(bytes.subarray(from.bytes), sizes), from))
      records.push(...batch);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    return { records, refused: error.message };
  }
  return { records };
}

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
