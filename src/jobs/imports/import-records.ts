import { isStatementTimeout } from '../../database/lanes.ts';
import type { CsvLayout } from '../../files/layout/layout.ts';
import { readRecords } from '../../files/read-records.ts';
import { fromStored } from '../../files/stored-rows.ts';
import { bulkWriters } from '../../queries/records/bulk-lock.ts';
import { listDeclared } from '../../queries/records/custom-fields.ts';
import { readRows } from '../../queries/imports/import-rows.ts';
import { contactsAtOnce } from '../../queries/memberships/list-members.ts';
import { analyzeTable, findChangedTables, vacuumTable } from '../../queries/records/statistics.ts';
import type { WorkingImport } from '../attempts.ts';
import type { Handler } from '../handler.ts';
import { runWithoutTurn, takeTurn, type RunBatch, type RunContext } from '../turns.ts';
import { importFileOf } from './import-source.ts';
import { readFile } from './read-file.ts';
import { fewRecords, planRecords, writeRecords, type PlannedRecord } from './write-records.ts';

/** Maximum time of a turn. */
const turnSeconds = 2;

/**
 * Runs a customer's imports: stores the records of a file as rows, then writes up to 1,000 of them per transaction.
 * Progress is stored, so a retry resumes after the last transaction.
 * @param seconds time limit of one call; unfinished work is enqueued again
 */
export const importRecords = (seconds = turnSeconds): Handler<'import'> =>
  takeTurn('import', { import: batchOf(seconds) }, 0);

/**
 * Runs the import that has waited longest in this process, until the time limit is reached. A worker may take it over.
 * @param options `only`: id of the only import to run; `takesOver`: also one that another process has not released
 * @returns false if none waits: another process has it, or it rests
 */
export const workAtImport = (
  context: RunContext,
  customerId: string,
  { seconds, ...options }: { seconds: number; only?: string; takesOver?: boolean },
): Promise<boolean> => runWithoutTurn(context, { customerId, ...options }, batchOf(seconds));

/** Stores the records of the file if they are not stored yet, then writes them, until the time limit is reached. */
const batchOf =
  (seconds: number): RunBatch<'import', RunContext> =>
  async (context, given, signal) => {
    const declared = await context.db.lookup((sql) => listDeclared(sql, given.customer_id, given.object));
    const taken = { ...given, declared };
    const end = performance.now() + seconds * 1000;
    const isOver = (): boolean => signal.aborted || performance.now() >= end;
    const read = taken.total === null ? await readFile(context, taken, signal) : taken;
    if (read) await writeAll(context, read, isOver);
  };

/** Maximum number of records that one transaction writes. */
const batchSize = 1_000;

/** Until the import has ended or the time limit is reached. */
async function writeAll(context: RunContext, taken: WorkingImport, isOver: () => boolean): Promise<void> {
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

/** Logs the end, and analyses and vacuums tables of which the import changed much: queries follow at once. */
async function endedWell({ db, log }: RunContext, { customer_id: customerId, id }: WorkingImport): Promise<void> {
  log.info('an import is completed');
  try {
    const tables = await db.search((sql) => findChangedTables(sql, customerId, id));
    // The vacuum of a large table can take too long for one statement, so it comes last.
    for (const tidy of [analyzeTable, vacuumTable])
      for (const table of tables) await db.search((sql) => tidy(sql, table));
  } catch (error) {
    log.warn({ err: error }, 'the tables could not be analysed or vacuumed after an import');
  }
}

/** Yields validated records, one array for each transaction. */
async function* plansOf({ db }: RunContext, taken: WorkingImport): AsyncGenerator<readonly PlannedRecord[]> {
  const { customer_id: customerId, id, layout } = taken;
  for (let after = taken.done_line; ;) {
    const part = { after, limit: sizeOf(taken) };
    const rows = await db.search((sql) => readRows(sql, customerId, id, part));
    if (rows.length === 0) return;
    const stored = rows.map(({ line, cells }) => fromStored(line, cells));
    const planned = await planRecords(
      taken,
      await readRecords(importFileOf(taken), layout as CsvLayout | null, stored),
    );
    yield planned;
    after = planned.at(-1)!.record.line;
  }
}

/** Requests the next value while the caller processes the current one. */
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

/** Returns how many records one transaction writes. */
const sizeOf = ({ object, dry_run, list_ids }: WorkingImport): number =>
  object !== 'contacts' || dry_run ? batchSize : contactsAtOnce(batchSize, list_ids.length);
