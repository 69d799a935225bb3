import type { Database } from '../db.ts';
import {
  beginImport,
  endImport,
  noteImported,
  saveImport,
  unkeptImport,
  type ImportState,
} from '../queries/catalog-imports.ts';
import type { Catalog } from './catalog.ts';
import { endOfCsvRecord } from './csv.ts';
import { withLoadLock, type StillHeld } from './load-lock.ts';
import { readerOf, type Format } from './read-records.ts';
import { endOfLine, splitRecords } from './records.ts';
import { Writer } from './writer.ts';

/** What is loaded, and who wants to know how it goes. */
export interface Load {
  /** The unpacked bytes. */
  chunks: AsyncIterable<Buffer>;
  format: Format;
  /** What makes the same input recognised after an interruption; without it every load starts at the beginning. */
  source?: string | undefined;
  /** Reading waits until it is done. */
  onBad: (line: number, fault: string) => unknown;
  /** After each batch that is in the catalog. */
  onProgress: (reached: LoadProgress) => void;
  /** Is given what the load found otherwise than it should be, and did about it. */
  onNote?: (text: string) => unknown;
}

/** What became of the lines so far. */
export interface LoadProgress {
  loaded: number;
  bad: number;
  /** The line an interrupted import was resumed at. */
  resumed_at_line: number | null;
}

/** What became of all lines. */
export interface LoadReport extends LoadProgress {
  /** How many people the catalog holds now: counted in it after the last line. */
  people: number;
}

/**
 * Loads people into the catalog, a bounded number at a time. Everything is written by id, so loading again replaces; how
 * far it has come for certain is kept, so that an interrupted load into the same incarnation of the catalog goes on there.
 * @throws DomainError `conflict` when another load is under way, `unavailable` when the catalog stays away too long or was
 *   replaced on the way
 */
export const loadPeople = (db: Database, catalog: Catalog, load: Load): Promise<LoadReport> =>
  withLoadLock(db, async (stillHeld) => {
    const { source, onNote = () => undefined } = load;
    const incarnation = await catalog.prepare(onNote);
    const state = await begin(db, source, incarnation, onNote);
    const report = ({ loaded, bad }: Reached): LoadProgress => ({
      loaded,
      bad,
      resumed_at_line: state.position > 0 ? state.line : null,
    });
    const save = async (reached: Reached): Promise<void> => {
      load.onProgress(report(reached));
      if (source !== undefined) await db.transaction((sql) => saveImport(sql, source, reached));
    };
    const reached = await writeAll(catalog, load, state, save, stillHeld);
    await stillHeld();
    const people = await catalog.finish();
    await db.transaction(async (sql) => {
      if (source !== undefined) await endImport(sql, source);
      await noteImported(sql, catalog.name, incarnation);
    });
    return { ...report(reached), people };
  });

type Reached = Omit<ImportState, 'started_at'>;

async function begin(
  db: Database,
  source: string | undefined,
  incarnation: string,
  onNote: (text: string) => unknown,
): Promise<ImportState> {
  if (source === undefined) return db.lookup(unkeptImport);
  const { dropped_at_line: line, ...state } = await db.transaction((sql) => beginImport(sql, source, incarnation));
  if (line !== null)
    onNote(
      `an import of this file was interrupted at line ${line}, into another catalog or one now lost: starting over`,
    );
  return state;
}

async function writeAll(
  catalog: Catalog,
  load: Load,
  state: ImportState,
  save: (reached: Reached) => Promise<void>,
  stillHeld: StillHeld,
): Promise<Reached> {
  const writer = new Writer(catalog, state, save);
  const reader = readerOf(load.format, state.started_at);
  for await (const records of splitRecords(load.chunks, load.format === 'csv' ? endOfCsvRecord : endOfLine)) {
    await stillHeld();
    for (const record of records) {
      const isDone = record.end <= state.position;
      // The columns are named by the first record that says anything.
      if (isDone && !reader.isAtHeader()) continue;
      const result = reader.read(record);
      if (isDone || result === undefined) continue;
      if (typeof result === 'string') await load.onBad(record.line, result);
      await writer.take(record, typeof result === 'string' ? undefined : result);
    }
  }
  return writer.end();
}
