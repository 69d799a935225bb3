import { listDeclared } from '../queries/records/custom-fields.ts';
import type { LockedId, Transaction } from '../database/db.ts';
import { FileRefused, NothingToRead } from '../files/encodings.ts';
import { readLines } from '../files/header.ts';
import { readHeaderOf, readLayout, type CsvLayout } from '../files/layout.ts';
import { settleLayout, usedMapping } from '../files/settle-layout.ts';
import { survey, readRecords } from '../files/read-records.ts';
import { toStored, fromStored } from '../files/stored-rows.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { endReading, endImport } from '../queries/jobs/imports.ts';
import {
  deleteRows,
  insertRows,
  maxDeleted,
  type ImportRecord,
  findRememberedMapping,
  rememberMapping,
  readRows,
} from '../queries/jobs/import-rows.ts';
import { maxFileRecords } from '../schemas/imports.ts';
import { inAttempt, takeTurn } from './turns.ts';
import type { WorkingImport, JobContext, Handler, RunBatch } from './turns.ts';
import { withSource, type ImportSource } from './start-import.ts';
import { isStatementTimeout } from '../database/pools.ts';
import { bulkWriters } from '../queries/records/deferred-writes.ts';
import { contactsAtOnce } from '../queries/crm/list-members.ts';
import { countAgain } from '../queries/crm/duplicates.ts';
import { analyzeTable, findChangedTables, vacuumTable } from '../queries/records/turns.ts';
import { fewRecords, planRecords, writeRecords, type PlannedRecord } from './write-records.ts';

/**
 * Reads the file of an import and stores its records as rows. Starts over if an earlier worker stopped midway. Sets the
 * import to FAILED if the file is not readable.
 * @returns the import with its number of records; undefined if it failed or the worker must stop
 */
async function readFile(context: JobContext, taken: WorkingImport, signal: AbortSignal) {
  const { db, log } = context;
  const { customer_id: customerId } = taken;
  try {
    const reading = { read: 0, layout: null as CsvLayout | null };
    if (!isEmpty(taken)) {
      const forget = (sql: Transaction, { id }: { id: LockedId }) =>
        deleteRows(sql, customerId, id, { after: taken.done_line });
      while ((await inAttempt(db, taken, forget)) === maxDeleted);
      const isRead = await withSource(db, customerId, taken, (source) =>
        storeRecords(context, taken, { source, reading, signal }),
      );
      if (!isRead) return undefined;
    }
    return await endOf(context, taken, reading);
  } catch (error) {
    if (error instanceof NothingToRead) return endOf(context, taken, { read: 0, layout: null });
    if (!(error instanceof FileRefused)) throw error;
    await inAttempt(db, taken, (sql, { id }) =>
      endImport(sql, customerId, id, { status: 'FAILED', error: error.message }),
    );
    log.info('the file of an import is refused');
    return undefined;
  }
}

// An XLSX file with an empty sheet is detected later.
const isEmpty = ({ format, file_bytes: bytes }: WorkingImport): boolean =>
  format === 'auto' || (format === 'xlsx' && bytes === 0);

interface Reading {
  read: number;
  layout: CsvLayout | null;
}

/** Maximum length of the records that one statement stores (characters). A single record can be longer. */
const batchLength = 1024 * 1024;
const batchRecords = 1_000;

/** Stores the records of a file as rows. Returns false if the worker must stop. */
async function storeRecords(
  { db }: JobContext,
  taken: WorkingImport,
  { source, reading, signal }: { source: ImportSource; reading: Reading; signal: AbortSignal },
): Promise<boolean> {
  const { customer_id: customerId } = taken;
  let batch: Pick<ImportRecord, 'line' | 'cells'>[] = [];
  let length = 0;
  let storing = Promise.resolve();
  const store = async (): Promise<void> => {
    const records = batch;
    batch = [];
    length = 0;
    await storing; // one batch is stored while the next one is read
    storing = inAttempt(db, taken, (sql, { id }) => insertRows(sql, customerId, id, records));
    storing.catch(() => undefined); // it is awaited later
  };
  const slice = new TimeSlice();
  try {
    for await (const records of await recordsOf(db, taken, source, reading)) {
      for (const raw of records) {
        survey(taken, reading.layout, raw);
        reading.read += 1;
        if (reading.read > maxFileRecords)
          throw new FileRefused(`has more than ${maxFileRecords.toLocaleString('en')} records`);
        const cells = toStored(raw);
        batch.push({ line: raw.line, cells });
        length += cells.length;
        if (batch.length === batchRecords || length >= batchLength) await store();
        if (slice.isOver) await slice.pause();
      }
      if (signal.aborted) return false;
    }
    await store();
    await storing;
    return true;
  } finally {
    // The next turn must not find the import locked.
    await storing.catch(() => undefined);
  }
}

async function recordsOf(db: JobContext['db'], taken: WorkingImport, { content }: ImportSource, reading: Reading) {
  if ('texts' in content && taken.format === 'ndjson') return readLines(content.texts);
  const beginning = await readHeaderOf(taken, content);
  reading.layout = await readLayout(taken, beginning, (headers) =>
    db.lookup((sql) => findRememberedMapping(sql, taken.customer_id, taken, headers)),
  );
  return beginning.readOn();
}

/**
 * Ends the reading of a file: stores its columns and its number of records. Deletes the last rows if they are the
 * footer of a report.
 */
async function endOf({ db }: JobContext, taken: WorkingImport, { read, layout }: Reading): Promise<WorkingImport> {
  const { customer_id: customerId } = taken;
  const settled = layout && settleLayout(taken, layout);
  const footer = settled?.footer ?? [];
  const total = read - footer.length;
  await inAttempt(db, taken, async (sql, { id }) => {
    if (footer.length > 0) await deleteRows(sql, customerId, id, { after: footer[0]!.line - 1 });
    await endReading(sql, customerId, { id, layout: settled, total, dry_run: taken.dry_run });
    if (!layout) return;
    const { headers } = layout;
    await rememberMapping(sql, customerId, taken, { headers, mapping: usedMapping(layout) });
  });
  return { ...taken, layout: settled, total };
}

const turnSeconds = 2;

/**
 * Returns the handler of the import queue. It stores the records of a file as rows, then writes up to 1,000 per
 * transaction. A retry resumes after the last transaction.
 * @param seconds time limit of one call; unfinished work is enqueued again
 */
export const importRecords = (seconds = turnSeconds): Handler<'import'> =>
  takeTurn('import', { import: batchOf(seconds) }, 0);

const batchOf =
  (seconds: number): RunBatch<'import'> =>
  async (context, given, signal) => {
    const declared = await context.db.lookup((sql) => listDeclared(sql, given.customer_id, given.object));
    const taken = { ...given, declared };
    const end = performance.now() + seconds * 1000;
    const isOver = (): boolean => signal.aborted || performance.now() >= end;
    const read = taken.total === null ? await readFile(context, taken, signal) : taken;
    if (read) await writeAll(context, read, isOver);
  };

const batchSize = 1_000;

async function writeAll(context: JobContext, taken: WorkingImport, isOver: () => boolean): Promise<void> {
  let after = taken.done_line;
  const write = async (planned: readonly PlannedRecord[]): Promise<boolean> => {
    const isEnd = await bulkWriters.run({ customerId: taken.customer_id }, () =>
      context.db.transaction((sql) => writeRecords(sql, taken, after, planned, context.log)),
    );
    if (isEnd) await endedWell(context, taken);
    after = planned.at(-1)?.record.line ?? after;
    return isEnd;
  };
  const writeInParts = async (planned: readonly PlannedRecord[]): Promise<boolean> => {
    for (let at = 0; at < planned.length; at += fewRecords)
      if ((await write(planned.slice(at, at + fewRecords))) || isOver()) return true;
    return false;
  };
  if (taken.total === 0) return void (await write([]));
  for await (const planned of readAhead(plansOf(context, taken))) {
    const isEnd = await write(planned).catch((error: unknown) => {
      if (isStatementTimeout(error)) return writeInParts(planned);
      throw error;
    });
    if (isEnd || isOver()) return;
  }
  throw new Error('An import has fewer records than were counted');
}

/**
 * Logs the end of an import. Analyses and vacuums the tables with many changes, so that the next queries are fast, and
 * lets the duplicates be counted again.
 */
async function endedWell({ db, log }: JobContext, { customer_id: customerId, id, dry_run }: WorkingImport) {
  log.info('an import is completed');
  try {
    const tables = await db.search((sql) => findChangedTables(sql, customerId, id));
    // The vacuum of a large table can take too long for one statement, so it comes last.
    for (const tidy of [analyzeTable, vacuumTable])
      for (const table of tables) await db.search((sql) => tidy(sql, table));
  } catch (error) {
    log.warn({ err: error }, 'the tables could not be analysed or vacuumed after an import');
  }
  if (!dry_run)
    await db
      .transaction((sql) => countAgain(sql, customerId))
      .catch((err: unknown) => log.warn({ err }, 'the duplicates could not be counted again after an import'));
}

async function* plansOf({ db }: JobContext, taken: WorkingImport): AsyncGenerator<readonly PlannedRecord[]> {
  const { customer_id: customerId, id, layout } = taken;
  for (let after = taken.done_line; ;) {
    const part = { after, limit: sizeOf(taken) };
    const rows = await db.search((sql) => readRows(sql, customerId, id, part));
    if (rows.length === 0) return;
    const stored = rows.map(({ line, cells }) => fromStored(line, cells));
    const planned = await planRecords(taken, await readRecords(taken, layout as CsvLayout | null, stored));
    yield planned;
    after = planned.at(-1)!.record.line;
  }
}

async function* readAhead<T>(values: AsyncGenerator<T, void>): AsyncGenerator<T> {
  try {
    for (let read = await values.next(); !read.done;) {
      const next = values.next();
      // It may fail while nobody waits for it. It is awaited below, unless the caller stops.
      next.catch(() => undefined);
      yield read.value;
      read = await next;
    }
  } finally {
    await values.return();
  }
}

const sizeOf = ({ object, dry_run, list_ids }: WorkingImport): number =>
  object !== 'contacts' || dry_run ? batchSize : contactsAtOnce(batchSize, list_ids.length);
