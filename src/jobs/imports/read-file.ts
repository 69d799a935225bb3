import type { LockedId, Transaction } from '../../database/db.ts';
import { FileRefused, NothingToRead } from '../../files/file-refused.ts';
import { readLines } from '../../files/layout/header.ts';
import { readHeaderOf, readLayout, type CsvLayout } from '../../files/layout/layout.ts';
import { settleLayout, usedMapping } from '../../files/layout/settle-layout.ts';
import type { RawRecord } from '../../files/raw-records.ts';
import { survey } from '../../files/read-records.ts';
import { toStored } from '../../files/stored-rows.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import { endReading } from '../../queries/imports/import-progress.ts';
import { deleteRows, insertRows, mostDeleted, type ImportRecord } from '../../queries/imports/import-rows.ts';
import { endImport } from '../../queries/imports/imports.ts';
import { findRememberedMapping, rememberMapping } from '../../queries/imports/remembered-mappings.ts';
import { maxFileRecords } from '../../schemas/imports.ts';
import { inAttempt, type WorkingImport } from '../attempts.ts';
import type { RunContext } from '../turns.ts';
import { importFileOf, withSource, type ImportSource } from './import-source.ts';

/**
 * Reads the file of an import once, and stores its records as rows. A worker that is stopped leaves the file as it is, and
 * the next one begins again. Sets the import to FAILED if the file cannot be read.
 * @returns the import with its number of records; undefined if it failed or the worker must stop
 */
export async function readFile(
  context: RunContext,
  taken: WorkingImport,
  signal: AbortSignal,
): Promise<WorkingImport | undefined> {
  const { db, log } = context;
  const { customer_id: customerId } = taken;
  try {
    const reading = { read: 0, layout: null as CsvLayout | null };
    if (!isEmpty(taken)) {
      const forget = (sql: Transaction, { id }: { id: LockedId }) =>
        deleteRows(sql, customerId, id, { after: taken.done_line });
      while ((await inAttempt(db, taken, forget)) === mostDeleted);
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

/** Whether the sheet of a file is empty, is seen later. */
const isEmpty = ({ format, file_bytes: bytes }: WorkingImport): boolean =>
  format === 'auto' || (format === 'xlsx' && bytes === 0);

interface Reading {
  /** Records so far. */
  read: number;
  layout: CsvLayout | null;
}

/** Size of the records that one statement stores (characters). A single record can be larger. */
const batchLength = 1024 * 1024;
const batchRecords = 1_000;

/** @returns false if the worker must stop */
async function storeRecords(
  { db }: RunContext,
  taken: WorkingImport,
  { source, reading, signal }: { source: ImportSource; reading: Reading; signal: AbortSignal },
): Promise<boolean> {
  const { customer_id: customerId } = taken;
  const file = importFileOf(taken);
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
        survey(file, reading.layout, raw);
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

/** Reads the header line, if the format has one. */
async function recordsOf(
  db: RunContext['db'],
  taken: WorkingImport,
  { content }: ImportSource,
  reading: Reading,
): Promise<AsyncGenerator<RawRecord[]>> {
  if ('texts' in content && taken.format === 'ndjson') return readLines(content.texts);
  const file = importFileOf(taken);
  const beginning = await readHeaderOf(file, content);
  reading.layout = await readLayout(file, beginning, (headers) =>
    db.lookup((sql) => findRememberedMapping(sql, taken.customer_id, taken, headers)),
  );
  return beginning.readOn();
}

/** Settles how the columns are read, and removes the footer, so that the records can be written. */
async function endOf({ db }: RunContext, taken: WorkingImport, { read, layout }: Reading): Promise<WorkingImport> {
  const { customer_id: customerId, object } = taken;
  const settled = layout && settleLayout(importFileOf(taken), layout);
  const footer = settled?.footer ?? [];
  const total = read - footer.length;
  await inAttempt(db, taken, async (sql, { id }) => {
    if (footer.length > 0) await deleteRows(sql, customerId, id, { after: footer[0]!.line - 1 });
    await endReading(sql, customerId, { id, layout: settled, total });
    if (!layout) return;
    const { headers } = layout;
    await rememberMapping(sql, customerId, object, { headers, mapping: usedMapping(layout) });
  });
  return { ...taken, layout: settled, total };
}
