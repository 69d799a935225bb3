import type { Database } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import type { RawRecord } from '../../files/raw-records.ts';
import { csvFormat, lineFormat } from '../../files/record-formats.ts';
import { scanRecords } from '../../files/record-scanner.ts';
import { textBlocks } from '../../files/text-blocks.ts';
import {
  beginImport,
  endImport,
  saveImportEnd,
  saveImport,
  unsavedImport,
  type ImportState,
} from '../../queries/catalog/catalog-imports.ts';
import type { Catalog } from '../catalog.ts';
import type { CatalogDocument } from '../document.ts';
import { SuppressedPeople } from '../rights/suppressed-people.ts';
import { BatchWriter } from './batch-writer.ts';
import { withImportLock, type StillHeld } from './import-lock.ts';
import { readerOf, type Format, type RecordReader } from './parse-records.ts';
import { findKeptIds, PersonIds, withKeptId, type ImportedPerson } from './person-ids.ts';

export interface ImportRequest {
  /** Uncompressed, from the start also if the import resumes. */
  chunks: AsyncIterable<Buffer>;
  format: Format;
  /**
   * Identifies the input. An interrupted import with the same id is resumed. Without an id, the import starts at the
   * beginning.
   */
  source?: string | undefined;
  /** Called and awaited for each invalid record, with its first line. A resumed import may report some again. */
  onBad: (line: number, fault: string) => unknown;
  /** Called each time before the progress is saved, and at the end. */
  onProgress: (reached: ImportProgress) => void;
  /** Called for each repair of the catalog, and if an interrupted import cannot be resumed. */
  onNote?: (text: string) => unknown;
}

/**
 * `loaded` and `bad` count records imported and rejected so far, `suppressed` those that were left out because the
 * person must not be in the catalog.
 */
interface ImportProgress {
  loaded: number;
  bad: number;
  suppressed: number;
  /** Null if the import started at the first line. */
  resumed_at_line: number | null;
}

export interface ImportReport extends ImportProgress {
  /** In the catalog after the import. */
  people: number;
}

/**
 * Adds people or replaces those with the same id. Resumes an interrupted import of the same input, unless the catalog
 * was replaced meanwhile.
 * @throws DomainError `conflict` if another import, removal or reindex is running; `unavailable` if the catalog is for
 * too long, or is replaced during the import; `validation_failed` if the first line of a CSV file is unusable
 */
export const importPeople = (db: Database, catalog: Catalog, load: ImportRequest): Promise<ImportReport> =>
  withImportLock(db, async (stillHeld) => {
    const { source, onNote = () => undefined } = load;
    const incarnation = await catalog.prepare();
    const state = await begin(db, source, incarnation, onNote);
    const report = ({ loaded, bad, suppressed }: Reached): ImportProgress => ({
      loaded,
      bad,
      suppressed,
      resumed_at_line: state.position > 0 ? state.line : null,
    });
    const save = async (reached: Reached): Promise<void> => {
      load.onProgress(report(reached));
      if (source !== undefined) await db.transaction((sql) => saveImport(sql, source, reached));
    };
    const reached = await writeAll({ db, catalog, stillHeld }, load, state, save).catch(async (error: unknown) => {
      // The file's header is unusable: there is nothing to resume.
      if (source !== undefined && isValidationFailure(error)) await db.transaction((sql) => endImport(sql, source));
      throw error;
    });
    await stillHeld();
    const people = await catalog.finish();
    await db.transaction(async (sql) => {
      if (source !== undefined) await endImport(sql, source);
      await saveImportEnd(sql, catalog.name, incarnation);
    });
    return { ...report(reached), people };
  });

const isValidationFailure = (error: unknown): boolean =>
  error instanceof DomainError && error.code === 'validation_failed';

/** A position in the input, with the numbers of records before it. */
type Reached = Omit<ImportState, 'started_at'>;

/**
 * Saves that an import starts or resumes, and returns its progress so far.
 * @param source undefined if the import cannot be resumed, so that nothing is saved
 * @param onNote called if an interrupted import cannot be resumed
 */
async function begin(
  db: Database,
  source: string | undefined,
  incarnation: string,
  onNote: (text: string) => unknown,
): Promise<ImportState> {
  if (source === undefined) return db.lookup(unsavedImport);
  const { dropped_at_line: line, ...state } = await db.transaction((sql) => beginImport(sql, source, incarnation));
  if (line !== null)
    onNote(
      `an import of this file was interrupted at line ${line}, but its catalog is another one or lost: starting over`,
    );
  return state;
}

/** Writes the records after the saved position to the catalog. Returns the final position. */
async function writeAll(
  { db, catalog, stillHeld }: { db: Database; catalog: Catalog; stillHeld: StillHeld },
  load: ImportRequest,
  state: ImportState,
  save: (reached: Reached) => Promise<void>,
): Promise<Reached> {
  const writer = new BatchWriter(catalog, state, save);
  // Who is suppressed from now on is removed again by the command that suppresses, after this import.
  const suppressed = await SuppressedPeople.open(db);
  const reader = readerOf(load.format, { importedAt: state.started_at, ids: await PersonIds.open(db) });
  const format = load.format === 'csv' ? csvFormat(',', Infinity) : lineFormat;
  for await (const records of scanRecords(textBlocks(load.chunks), format)) {
    await stillHeld();
    const read = readNew(reader, records, state.position);
    const people = read.flatMap(({ result }) => (typeof result === 'string' ? [] : [result]));
    const kept = await findKeptIds(db, catalog, people);
    for (const { record, result } of read) {
      if (typeof result === 'string') await load.onBad(record.line, result);
      await writer.take(
        { line: record.line, end: record.next.bytes },
        typeof result === 'string' ? 'bad' : unlessSuppressed(withKeptId(result, kept), suppressed),
      );
    }
  }
  return writer.end();
}

function unlessSuppressed(document: CatalogDocument, suppressed: SuppressedPeople): CatalogDocument | 'suppressed' {
  const { work_email, emails, profnet_url } = document.person;
  return suppressed.has({ _id: document.id, work_email, emails, profnet_url }) ? 'suppressed' : document;
}

interface ReadRecord {
  record: RawRecord;
  result: ImportedPerson | string;
}

function readNew(reader: RecordReader, records: readonly RawRecord[], position: number): ReadRecord[] {
  const read: ReadRecord[] = [];
  for (const record of records) {
    const isDone = record.next.bytes <= position;
    // Records before the saved position are skipped, except the CSV header: the first record.
    if (isDone && !reader.isAtHeader()) continue;
    const result = reader.read(record);
    if (!isDone && result !== undefined) read.push({ record, result });
  }
  return read;
}
