import { isStatementTimeout } from '../../database/lanes.ts';
import { FileRefused } from '../../files/file-refused.ts';
import { readLayout, type CsvLayout } from '../../files/layout/layout.ts';
import { settleLayout, usedMapping } from '../../files/layout/settle-layout.ts';
import { readRecords, surveyRecords, type FileRecord } from '../../files/read-records.ts';
import { endReading, saveReading, type ImportPosition, type ImportRow } from '../../queries/imports/import-progress.ts';
import { endImport } from '../../queries/imports/imports.ts';
import { findRememberedMapping, rememberMapping } from '../../queries/imports/remembered-mappings.ts';
import type { LeasedImport } from '../../queries/jobs/leases.ts';
import { contactsAtOnce } from '../../queries/memberships/list-members.ts';
import { analyzeTable, findChangedTables, vacuumTable } from '../../queries/records/statistics.ts';
import { maxFileRecords } from '../../schemas/imports.ts';
import type { Handler } from '../handler.ts';
import { convertFile } from './convert-file.ts';
import { importFileOf, partsOf, storedFileOf } from './import-source.ts';
import { underLease } from '../settle.ts';
import { runOneBatch, takeTurn, type RunBatch, type RunContext } from '../turns.ts';
import { planRecords, searchedAtOnce, TooManyRecords, type PlannedRecord, writeRecords } from './write-records.ts';

/** Maximum time of a turn. */
const turnSeconds = 2;

/**
 * Runs a customer's imports in two passes: the first counts the records of the file, the second writes up to 1,000 per
 * transaction. Progress is stored, so a retry resumes after the last transaction.
 * @param seconds time limit of one call; unfinished work is enqueued again
 */
export const importRecords = (seconds = turnSeconds): Handler<'import'> =>
  takeTurn('import', { import: batchOf(seconds) }, 0);

/**
 * Runs the import that has waited longest until the time limit is reached.
 * @param only id of the only import to run
 * @returns false if none is waiting
 */
export const workAtImport = (
  context: RunContext,
  customerId: string,
  { seconds, only }: { seconds: number; only?: string },
): Promise<boolean> => runOneBatch(context, { queue: 'import', customerId, only }, batchOf(seconds));

/** Counts the records of the file if they are not counted yet, then writes them, until the time limit is reached. */
const batchOf =
  (seconds: number): RunBatch<'import', RunContext> =>
  async (context, leased, signal) => {
    const end = performance.now() + seconds * 1000;
    const isOver = (): boolean => signal.aborted || performance.now() >= end;
    const read = leased.total === null ? await readWhole(context, leased, isOver, signal) : leased;
    if (read) await writeAll(context, read, isOver);
  };

/**
 * Counts the records of a file and checks that it is readable. Else sets the import to FAILED.
 * @returns the import with its number of records; undefined if it failed or the time limit is reached
 */
async function readWhole(
  context: RunContext,
  leased: LeasedImport,
  isOver: () => boolean,
  signal: AbortSignal,
): Promise<LeasedImport | undefined> {
  const { customer_id: customerId } = leased;
  const progress = { ...leased };
  let isEnd = false;
  let settled: CsvLayout | null | undefined;
  try {
    const converted = await convertFile(context, leased, signal);
    if (!converted) return undefined;
    Object.assign(progress, converted);
    isEnd = await readOn(context, progress, isOver);
    settled = isEnd ? settledOf(progress) : undefined;
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    await underLease(context.db, leased, (sql, { id }) =>
      endImport(sql, customerId, id, { status: 'FAILED', error: error.message }),
    );
    context.log.info('the file of an import is refused');
    return undefined;
  }
  if (settled === undefined) {
    await underLease(context.db, leased, (sql, { id }) => saveReading(sql, customerId, { ...progress, id }));
    return undefined;
  }
  const { object, layout: read } = progress;
  const counted = progress.counted - (settled?.footer?.length ?? 0);
  await underLease(context.db, leased, async (sql, { id }) => {
    await endReading(sql, customerId, { id, layout: settled, counted });
    if (!settled) return;
    const { headers } = settled;
    await rememberMapping(sql, customerId, object, { headers, mapping: usedMapping(read as CsvLayout) });
  });
  return { ...progress, layout: settled, position: null, total: counted };
}

/** Returns how the columns are read after the whole file was read once. Null without columns. */
const settledOf = (row: ImportRow): CsvLayout | null =>
  row.layout === null ? null : settleLayout(importFileOf(row), row.layout as CsvLayout);

/**
 * Counts from the last stored position on, and updates `progress`.
 * @returns true at the end of the file, false if the time limit is reached first
 */
async function readOn(context: RunContext, progress: ImportRow, isOver: () => boolean): Promise<boolean> {
  // The file or its sheet is empty.
  if (progress.format === 'auto' || (progress.format === 'xlsx' && progress.file_bytes === 0)) return true;
  progress.layout ??= await readLayout(importFileOf(progress), partsFrom(context, progress, 0), (headers) =>
    context.db.lookup((sql) => findRememberedMapping(sql, progress.customer_id, progress, headers)),
  );
  for await (const records of recordsOf(context, progress, surveyRecords)) {
    progress.counted += records.length;
    if (progress.counted > maxFileRecords)
      throw new FileRefused(`has more than ${maxFileRecords.toLocaleString('en')} records`);
    progress.position = records.at(-1)?.next ?? progress.position;
    if (isOver()) return false;
  }
  return true;
}

const partsFrom = ({ db }: RunContext, row: ImportRow, from: number): AsyncIterable<Buffer> =>
  partsOf(db, row.customer_id, storedFileOf(row), from);

const positionOf = ({ position, layout }: ImportRow): ImportPosition =>
  position ?? (layout as CsvLayout | null)?.start ?? { bytes: 0, line: 1 };

/** @param read yields the records from a position on */
function recordsOf<T>(
  context: RunContext,
  row: ImportRow,
  read: (...given: Parameters<typeof readRecords>) => AsyncGenerator<T[]>,
): AsyncIterable<T[]> {
  const from = positionOf(row);
  return read(importFileOf(row), row.layout as CsvLayout | null, partsFrom(context, row, from.bytes), from);
}

/** Maximum number of records that one transaction writes. */
const batchSize = 1_000;
/** Size of what one transaction writes (bytes); a single record can be larger. */
const batchBytes = 4 * 1024 * 1024;

/** Until the import has ended or the time limit is reached. */
async function writeAll(context: RunContext, leased: LeasedImport, isOver: () => boolean): Promise<void> {
  let from = positionOf(leased);
  const write = async (planned: readonly PlannedRecord[]): Promise<boolean> => {
    const isEnd = await context.db.transaction((sql) => writeRecords(sql, leased, from, planned, context.log));
    if (isEnd) await endedWell(context, leased);
    from = planned.at(-1)?.record.next ?? from;
    return isEnd;
  };
  const writeInParts = async (planned: readonly PlannedRecord[]): Promise<boolean> => {
    for (let at = 0; at < planned.length; at += searchedAtOnce)
      if ((await write(planned.slice(at, at + searchedAtOnce))) || isOver()) return true;
    return false;
  };
  if (leased.total === 0) return void (await write([]));
  for await (const planned of readAhead(plansOf(context, leased))) {
    const isEnd = await write(planned).catch((error: unknown) => {
      if (error instanceof TooManyRecords || isStatementTimeout(error)) return writeInParts(planned);
      throw error;
    });
    if (isEnd || isOver()) return;
  }
  throw new Error('The file of an import has fewer records than were counted');
}

/** Logs the end, and analyses and vacuums tables of which the import changed much: queries follow at once. */
async function endedWell({ db, log }: RunContext, { customer_id: customerId, id }: LeasedImport): Promise<void> {
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
async function* plansOf(context: RunContext, leased: LeasedImport): AsyncGenerator<readonly PlannedRecord[]> {
  let from = positionOf(leased);
  const size = sizeOf(leased);
  for await (const some of recordsOf(context, leased, readRecords))
    for (let rest = some; rest.length > 0;) {
      const planned = await planRecords(leased, firstOf(rest, size, from));
      yield planned;
      from = planned.at(-1)!.record.next;
      rest = rest.slice(planned.length);
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
const sizeOf = ({ object, dry_run, list_ids }: ImportRow): number =>
  object === 'companies' || dry_run ? batchSize : contactsAtOnce(batchSize, list_ids.length);

/** Returns the records of one transaction: at most `size`, and as many as `batchBytes` allows. */
function firstOf(records: readonly FileRecord[], size: number, from: ImportPosition): readonly FileRecord[] {
  const end = records.findIndex(({ next }, i) => i === size || next.bytes - from.bytes > batchBytes);
  return end === -1 ? records : records.slice(0, Math.max(1, end));
}
