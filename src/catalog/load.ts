import { isUtf8 } from 'node:buffer';
import type { Database } from '../db.ts';
import { beginImport, endImport, noteImported, saveImport, type ImportState } from '../queries/catalog-imports.ts';
import type { Catalog } from './catalog.ts';
import { endOfCsvRecord, parseCsvRecord } from './csv.ts';
import { toDocument, type CatalogDocument } from './document.ts';
import { withLoadLock } from './load-lock.ts';
import { BadRecord, readPerson, type GivenPerson } from './person.ts';
import { validationFailed } from '../errors.ts';
import { Prospect } from '../schemas/prospects.ts';
import { endOfLine, splitRecords, type RawRecord } from './records.ts';
import { Writer } from './writer.ts';

/** What is loaded, and who wants to know how it goes. */
export interface Load {
  /** The unpacked bytes. */
  chunks: AsyncIterable<Buffer>;
  format: 'ndjson' | 'csv';
  /** What makes the same input recognised after an interruption; without it every load starts at the beginning. */
  source?: string | undefined;
  onBad: (line: number, fault: string) => void;
  /** After each batch that is in the catalog. */
  onProgress: (report: LoadReport) => void;
}

/** What became of the lines. */
export interface LoadReport {
  loaded: number;
  bad: number;
  /** The line an interrupted import was resumed at. */
  resumed_at_line: number | null;
}

/**
 * Loads people into the catalog, a bounded number at a time. Everything is written by id, so loading again replaces; how
 * far it has come for certain is kept, so that an interrupted load goes on from there.
 * @throws DomainError `conflict` when another load is under way, `unavailable` when the catalog stays away too long
 */
export const loadPeople = (db: Database, catalog: Catalog, load: Load): Promise<LoadReport> =>
  withLoadLock(db, async (signal) => {
    const { source } = load;
    await catalog.prepare();
    const state = source === undefined ? fresh() : await db.transaction((sql) => beginImport(sql, source));
    const save = async (reached: Omit<ImportState, 'started_at'>): Promise<void> => {
      load.onProgress(toReport(reached));
      if (source !== undefined) await db.transaction((sql) => saveImport(sql, source, reached));
    };
    const toReport = ({ loaded, bad }: { loaded: number; bad: number }): LoadReport => ({
      loaded,
      bad,
      resumed_at_line: state.position > 0 ? state.line : null,
    });
    const reached = await writeAll(catalog, load, state, save, signal);
    await catalog.finish();
    await db.transaction(async (sql) => {
      if (source !== undefined) await endImport(sql, source);
      await noteImported(sql);
    });
    return toReport(reached);
  });

const fresh = (): ImportState => ({ position: 0, line: 1, loaded: 0, bad: 0, started_at: new Date().toISOString() });

async function writeAll(
  catalog: Catalog,
  load: Load,
  state: ImportState,
  save: (reached: Omit<ImportState, 'started_at'>) => Promise<void>,
  signal: AbortSignal,
): Promise<{ loaded: number; bad: number }> {
  const writer = new Writer(catalog, state, save);
  const read = readerOf(load.format, state.started_at);
  for await (const records of splitRecords(load.chunks, load.format === 'csv' ? endOfCsvRecord : endOfLine)) {
    signal.throwIfAborted();
    for (const record of records) {
      const isDone = record.end <= state.position;
      // The first line is read in any case: it may name the columns.
      if (isDone && record.line > 1) continue;
      const result = read(record);
      if (isDone || result === undefined) continue;
      if (typeof result === 'string') load.onBad(record.line, result);
      await writer.take(record, typeof result === 'string' ? undefined : result);
    }
  }
  return writer.end();
}

/** Makes a document of a record; a text says why it is none; undefined is a record that says nothing. */
type Read = (record: RawRecord) => CatalogDocument | string | undefined;

function readerOf(format: 'ndjson' | 'csv', importedAt: string): Read {
  const toGiven = format === 'csv' ? csvReader() : readJson;
  return ({ bytes, fault, line }) => {
    if (!bytes) return fault ?? 'cannot be read';
    if (!isUtf8(bytes)) return 'is not valid UTF-8';
    const text = line === 1 ? bytes.toString().replace(/^\ufeff/, '') : bytes.toString();
    if (text.trim() === '') return undefined;
    try {
      const given = toGiven(text);
      return given && toDocument(readPerson(given, importedAt));
    } catch (error) {
      if (error instanceof BadRecord) return error.message;
      throw error;
    }
  };
}

function readJson(text: string): GivenPerson {
  const given = parseJson(text);
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new BadRecord('is not a JSON object');
  return given as GivenPerson;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BadRecord('is not valid JSON');
  }
}

/** The first record names the columns. */
function csvReader(): (text: string) => GivenPerson | undefined {
  let columns: string[] | undefined;
  return (text) => {
    const fields = parseCsvRecord(text);
    if (!columns) {
      columns = fields.map((field) => field.trim());
      if (!columns.some((column) => Object.hasOwn(Prospect.properties, column)))
        throw validationFailed([{ path: '', message: 'the first line of the CSV file names no member of a prospect' }]);
      return undefined;
    }
    const names = columns;
    if (fields.length !== names.length)
      throw new BadRecord(`has ${fields.length} fields where the first line names ${names.length}`);
    return Object.fromEntries(fields.map((field, i) => [names[i]!, field]));
  };
}
