import { beginImport, endImport, saveImportEnd, saveImport, unsavedImport } from '../queries/jobs/catalog-imports.ts';
import type { ImportState } from '../queries/jobs/catalog-imports.ts';
import type { Catalog, EncodedPerson } from './catalog.ts';
import type { CatalogDocument } from './document.ts';
import type { Database } from '../database/db.ts';
import { DomainError } from '../errors.ts';
import { type RawRecord, csvFormat, lineFormat } from '../files/record-formats.ts';
import { scanRecords } from '../files/record-scanner.ts';
import { textBlocks } from '../files/encodings.ts';
import { readSuppressedPeople, type SuppressedPeople } from './suppressed-people.ts';
import { withImportLock, type StillHeld } from './import-lock.ts';
import { readerOf, findKeptIds, PersonIds, withKeptId } from './parse-records.ts';
import type { Format, RecordReader, ImportedPerson } from './parse-records.ts';

type Reached = Omit<ImportState, 'started_at'>;

const batchSize = 1_000;
const maxWritesInFlight = 6;
const saveEveryMs = 500;

type LeftOut = 'bad' | 'suppressed';

interface RunningWrite {
  ids: ReadonlySet<string>;
  reached: Reached;
  written: Promise<void>;
}

/**
 * Writes people in concurrent batches, and saves the progress. Batches with a common id are written one after the
 * other, so the later person wins.
 */
export class BatchWriter {
  readonly #catalog: Pick<Catalog, 'encode' | 'write'>;
  readonly #save: (reached: Reached) => Promise<void>;
  #reached: Reached;
  #people = new Map<string, EncodedPerson>();
  /** Batches that are being written, in the order of the input. An import never resumes after the first of them. */
  readonly #running: RunningWrite[] = [];
  #written: Reached;
  #savedAt = 0;

  constructor(catalog: Pick<Catalog, 'encode' | 'write'>, start: Reached, save: (reached: Reached) => Promise<void>) {
    this.#catalog = catalog;
    this.#save = save;
    this.#reached = this.#written = start;
  }

  /**
   * Adds one record of the input. An invalid record or a suppressed person is only counted. Waits while too many
   * batches are being written.
   * @throws the error of an earlier failed write, when all batches before it are written
   */
  async take(line: number, given: CatalogDocument | LeftOut): Promise<void> {
    const { loaded, bad, suppressed } = this.#reached;
    this.#reached = {
      line: line + 1,
      loaded: loaded + (typeof given === 'string' ? 0 : 1),
      bad: bad + (given === 'bad' ? 1 : 0),
      suppressed: suppressed + (given === 'suppressed' ? 1 : 0),
    };
    if (typeof given === 'string') return;
    const { id } = given;
    this.#people.set(id, { id, bytes: Buffer.from(this.#catalog.encode(given)) });
    if (this.#people.size === batchSize) await this.#send();
  }

  async end(): Promise<Reached> {
    if (this.#people.size > 0) await this.#send();
    while (this.#running.length > 0) await this.#endFirst();
    await this.#save(this.#reached);
    return this.#reached;
  }

  async #send(): Promise<void> {
    const people = this.#people;
    this.#people = new Map();
    const ids = new Set(people.keys());
    while (this.#running.length >= maxWritesInFlight || this.#running.some((batch) => !batch.ids.isDisjointFrom(ids)))
      await this.#endFirst();
    const written = this.#catalog.write([...people.values()]);
    written.catch(() => undefined); // it is awaited in `#endFirst`
    this.#running.push({ ids, reached: this.#reached, written });
  }

  async #endFirst(): Promise<void> {
    const { reached, written } = this.#running[0]!;
    try {
      await written;
    } catch (error) {
      await Promise.allSettled(this.#running.map((batch) => batch.written));
      await this.#save(this.#written);
      throw error;
    }
    this.#running.shift();
    this.#written = reached;
    if (performance.now() - this.#savedAt < saveEveryMs) return;
    this.#savedAt = performance.now();
    await this.#save(reached);
  }
}

export interface ImportRequest {
  chunks: AsyncIterable<Buffer>;
  format: Format;
  /**
   * Id of the input. An interrupted import with the same id is resumed. Undefined: the import starts at the beginning.
   */
  source?: string | undefined;
  /**
   * Called and awaited for each invalid record, with the number of its first line. A resumed import may report a record
   * again.
   */
  onBad: (line: number, fault: string) => unknown;
  onProgress: (reached: ImportProgress) => void;
  /** Called with a message if the catalog was repaired, or if an interrupted import cannot be resumed. */
  onNote?: (text: string) => unknown;
}

interface ImportProgress extends Pick<ImportState, 'loaded' | 'bad' | 'suppressed'> {
  resumed_at_line: number | null;
}

export interface ImportReport extends ImportProgress {
  people: number;
}

/**
 * Adds people, or replaces those with the same id. Resumes an interrupted import of the same input, unless the catalog
 * was replaced.
 * @throws DomainError `conflict` if another import, removal or reindex is running; `unavailable` if the catalog is
 * unavailable for too long, or is replaced during the import; `validation_failed` if the first line of a CSV file is
 * unusable
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
      resumed_at_line: state.line > 1 ? state.line : null,
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
    stillHeld();
    const people = await catalog.finish();
    await db.transaction(async (sql) => {
      if (source !== undefined) await endImport(sql, source);
      await saveImportEnd(sql, catalog.name, incarnation);
    });
    return { ...report(reached), people };
  });

const isValidationFailure = (error: unknown): boolean =>
  error instanceof DomainError && error.code === 'validation_failed';

async function begin(db: Database, source: string | undefined, incarnation: string, onNote: (text: string) => unknown) {
  if (source === undefined) return db.lookup(unsavedImport);
  const { dropped_at_line: line, ...state } = await db.transaction((sql) => beginImport(sql, source, incarnation));
  if (line !== null)
    onNote(
      `an import of this file was interrupted at line ${line}, but its catalog is another one or lost: starting over`,
    );
  return state;
}

async function writeAll(
  { db, catalog, stillHeld }: { db: Database; catalog: Catalog; stillHeld: StillHeld },
  load: ImportRequest,
  state: ImportState,
  save: (reached: Reached) => Promise<void>,
): Promise<Reached> {
  const writer = new BatchWriter(catalog, state, save);
  // Who is suppressed from now on is removed again by the command that suppresses, after this import.
  const suppressed = await readSuppressedPeople(db);
  const reader = readerOf(load.format, { importedAt: state.started_at, ids: await PersonIds.open(db) });
  const format = load.format === 'csv' ? csvFormat(',', Infinity) : lineFormat;
  for await (const records of scanRecords(textBlocks(load.chunks), format, 1, { endsLongRecords: true })) {
    stillHeld();
    const read = readNew(reader, records, state.line);
    const people = read.flatMap(({ result }) => (typeof result === 'string' ? [] : [result]));
    const kept = await findKeptIds(db, catalog, people);
    for (const { record, result } of read) {
      if (typeof result === 'string') await load.onBad(record.line, result);
      await writer.take(
        record.line,
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

function readNew(reader: RecordReader, records: readonly RawRecord[], from: number): ReadRecord[] {
  const read: ReadRecord[] = [];
  for (const record of records) {
    const isDone = record.line < from;
    // Records before the saved line are skipped, except the CSV header: the first record.
    if (isDone && !reader.isAtHeader()) continue;
    const result = reader.read(record);
    if (!isDone && result !== undefined) read.push({ record, result });
  }
  return read;
}
