import { isDeepStrictEqual } from 'node:util';
import type { FastifyBaseLogger } from 'fastify';
import type { Locked, Transaction } from '../../database/db.ts';
import { DomainError, type Fault } from '../../errors.ts';
import { errorsLine, type Message } from '../../files/errors-file.ts';
import { invalidValuesOf } from '../../files/import-file.ts';
import type { CsvLayout } from '../../files/layout/layout.ts';
import type { FileRecord } from '../../files/read-records.ts';
import { fitToStored, warningsOf } from '../../files/values/values.ts';
import { companyTable, contactTable } from '../../queries/records/batch-matches.ts';
import { RecordsChanged, withRepeats, type Batch, type Outcome } from '../../queries/records/batches.ts';
import { writeCompanyBatch } from '../../queries/crm/company-batches.ts';
import { writeContactBatch } from '../../queries/crm/contact-batches.ts';
import { findByMergedExternalId } from '../../queries/records/merged-records.ts';
import { withLastWrites, withoutLastWrites, type LastWrites } from '../../queries/records/last-writes.ts';
import { keepFile } from '../../queries/imports/dry-runs.ts';
import { insertErrors } from '../../queries/imports/import-errors.ts';
import { lockForBatches, type HeldLocks } from '../../queries/imports/import-locks.ts';
import {
  saveWritten,
  type ImportCounts,
  type ImportPosition,
  type ImportRow,
} from '../../queries/imports/import-progress.ts';
import { endImport } from '../../queries/imports/imports.ts';
import { lockRun, type LeasedImport } from '../../queries/jobs/leases.ts';
import { addToLists } from '../../queries/memberships/list-members.ts';
import { tokensOf } from '../../text/json-pointer.ts';
import { checkRecords } from './check-records.ts';
import { maxRounds, Rounds } from './import-rounds.ts';
import { importFileOf } from './import-source.ts';
import { LeaseLost } from '../settle.ts';

/** `item` is the valid request body, or the validation error. */
export interface PlannedRecord {
  record: FileRecord;
  item: object | DomainError;
}

/** Validates the records of the next transaction: all, or the first of them if too many have the same match value. */
export async function planRecords(settings: ImportRow, records: readonly FileRecord[]): Promise<PlannedRecord[]> {
  const rounds = new Rounds(settings);
  const planned: PlannedRecord[] = [];
  for (const [i, item] of (await checkRecords(settings, records)).entries()) {
    if (roundOf(rounds, item) === maxRounds) return planned;
    planned.push({ record: records[i]!, item });
  }
  return planned;
}

const roundOf = (rounds: Rounds, item: object | DomainError): number =>
  item instanceof DomainError ? 0 : rounds.next(item as Record<string, unknown>);

/** In the order in which the rounds must be written. */
function inRounds(rounds: Rounds, planned: readonly PlannedRecord[]): PlannedRecord[][] {
  return Object.values(Object.groupBy(planned, ({ item }) => roundOf(rounds, item))) as PlannedRecord[][];
}

/**
 * Records of a transaction in which rejected ones are searched for. The search takes several milliseconds for each, and
 * others wait for the transaction's locks meanwhile.
 */
export const searchedAtOnce = 20;

/**
 * PostgreSQL rejected one of more than `searchedAtOnce` records, or they need more than `maxRounds` rounds. The caller
 * rolls back, and writes them in transactions of at most `searchedAtOnce`.
 */
export class TooManyRecords extends Error {}

/**
 * Writes records, the errors of failed ones and the import's progress, and ends it after the last record, in the
 * caller's transaction.
 * @param from position in the file where the first of these records starts
 * @returns true if the import has ended
 * @throws LeaseLost, with nothing written, if the import has ended, another worker has leased it, or these records are
 * written already
 * @throws TooManyRecords if they must be written in transactions of at most `searchedAtOnce`
 */
export async function writeRecords(
  sql: Transaction,
  leased: LeasedImport,
  from: ImportPosition,
  planned: readonly PlannedRecord[],
  log: Log,
): Promise<boolean> {
  const { customer_id: customerId } = leased;
  const row = await lockRun(sql, customerId, leased);
  // Another position: the commit of these records succeeded although its answer was lost.
  if (!row || (row.position && row.position.bytes !== from.bytes)) throw new LeaseLost();
  return withLastWrites(sql, customerId, (last) => writeAll(sql, row, { from, planned, log }, last));
}

async function writeAll(
  sql: Transaction,
  row: Locked<ImportRow>,
  { from, planned, log }: { from: ImportPosition; planned: readonly PlannedRecord[]; log: Log },
  last: LastWrites,
): Promise<boolean> {
  const { customer_id: customerId, id } = row;
  const outcomes = await writeRounds(sql, row, planned, last);
  if (!row.dry_run) await addContactsToLists(sql, row, outcomes);
  logRejections(log, planned, outcomes);
  const messages = planned.map((one, i) => messageOf(one, outcomes[i]!));
  const lines = linesOf(row, planned, messages);
  if (lines !== '') await insertErrors(sql, customerId, id, from.bytes, lines);
  const counts = countsOf(outcomes, messages);
  const processed = await saveWritten(sql, customerId, id, planned.at(-1)?.record.next ?? from, counts);
  if (processed < row.total!) return false;
  await endImport(sql, customerId, id, { status: 'COMPLETED', keepsFile: row.dry_run }, last);
  if (row.dry_run) await keepFile(sql, customerId, id);
  return true;
}

/** Writes the records in rounds. Repeats it if stored records that they name are merged before they are locked. */
async function writeRounds(
  sql: Transaction,
  row: ImportRow,
  planned: readonly PlannedRecord[],
  last: LastWrites,
): Promise<readonly Outcome[]> {
  if (row.match !== 'external_id') return writeInOrder(sql, row, { planned, aliases: new Map() }, last);
  return withRepeats(sql, last, async (attempt, own) => {
    const aliases = await findAliases(attempt, row, planned);
    const outcomes = await writeInOrder(attempt, row, { planned, aliases }, own);
    if (!isDeepStrictEqual(await findAliases(attempt, row, planned), aliases)) throw new RecordsChanged();
    return outcomes;
  });
}

async function writeInOrder(
  sql: Transaction,
  row: ImportRow,
  { planned, aliases }: { planned: readonly PlannedRecord[]; aliases: ReadonlyMap<string, string> },
  last: LastWrites,
): Promise<readonly Outcome[]> {
  const outcomes = new Map<PlannedRecord, Outcome>();
  let rounds = inRounds(new Rounds(row, undefined, aliases), planned);
  const needsLocks = rounds.length > 1 || (row.dry_run && planned.some(({ item }) => 'external_id' in item));
  let held: HeldLocks | undefined;
  if (needsLocks) {
    // Planned again: an external id that a stored record loses may be the one that a later record of the file gets.
    held = await lockItems(sql, row, itemsOf(planned));
    rounds = inRounds(new Rounds(row, held.externalIds, aliases), planned);
    if (rounds.length > maxRounds) throw new TooManyRecords();
  }
  for (const records of rounds) {
    const items = itemsOf(records);
    const how = { held, maySearch: planned.length <= searchedAtOnce };
    const written = await (row.dry_run ? tryBatch(sql, row, items, how) : writeAccepted(sql, row, items, how, last));
    for (const [i, record] of records.entries()) outcomes.set(record, written[i]!);
  }
  return planned.map((record) => outcomes.get(record)!);
}

/**
 * Returns the external ids of merged records that these records name, each with a text that stands for the record that
 * replaces it: its own external id, or its id. So records of the file that change the same record are in different rounds.
 */
async function findAliases(
  sql: Transaction,
  { customer_id: customerId, object }: ImportRow,
  planned: readonly PlannedRecord[],
): Promise<Map<string, string>> {
  const values = itemsOf(planned).flatMap((item) => (item instanceof DomainError ? [] : externalIdOf(item)));
  const table = object === 'contacts' ? contactTable : companyTable;
  const merged = await findByMergedExternalId(sql, customerId, table, values);
  return new Map(Array.from(merged, ([value, { id, external_id }]) => [value, external_id ?? id]));
}

const externalIdOf = (item: object): string[] => {
  const { external_id: value } = item as { external_id?: unknown };
  return typeof value === 'string' ? [value] : [];
};

/**
 * Writes a batch. If PostgreSQL rejects it, e.g. because a value is too large for an index, writes its halves, down to
 * single records, so only these fail.
 * @param how `held`: what is known if the caller holds the locks of all items. `maySearch`: false if the transaction has
 * too many records to write halves
 */
async function writeAccepted(
  sql: Transaction,
  row: ImportRow,
  items: Batch['items'],
  how: How,
  last: LastWrites,
): Promise<Outcome[]> {
  try {
    return await writeBatch(sql, row, { items, companies: how.held?.companies }, last);
  } catch (cause) {
    if (!isRejection(cause)) throw cause;
    if (!how.maySearch) throw new TooManyRecords(undefined, { cause });
    if (items.length === 1)
      return [{ status: 'failed', error: new DomainError('validation_failed', rejectedMessage, { cause }) }];
  }
  // All at once, because the second half must not wait for values while the first half holds records.
  const locked = { ...how, held: how.held ?? (await lockItems(sql, row, items)) };
  const half = Math.ceil(items.length / 2);
  const first = await writeAccepted(sql, row, items.slice(0, half), locked, last);
  return [...first, ...(await writeAccepted(sql, row, items.slice(half), locked, last))];
}

interface How {
  held: HeldLocks | undefined;
  maySearch: boolean;
}

const itemsOf = (planned: readonly PlannedRecord[]) => planned.map(({ item }) => item);

/**
 * Locks all valid items, so that they can be written in several batches.
 * @returns what is known of them while they are locked
 */
const lockItems = (sql: Transaction, row: ImportRow, items: Batch['items']): Promise<HeldLocks> =>
  lockForBatches(
    sql,
    row.customer_id,
    row,
    items.filter((item) => !(item instanceof DomainError)),
  );

type Log = Pick<FastifyBaseLogger, 'warn'>;

/** Logs why PostgreSQL rejected the first of these records. Their owner is told only that it did. */
function logRejections(log: Log, planned: readonly PlannedRecord[], outcomes: readonly Outcome[]): void {
  const rejected = outcomes.flatMap((outcome, i) =>
    outcome.status === 'failed' && isRejection(outcome.error.cause)
      ? [{ err: outcome.error.cause, line: planned[i]!.record.line }]
      : [],
  );
  if (rejected.length > 0)
    log.warn({ ...rejected[0], rejected: rejected.length }, 'PostgreSQL rejected records of an import');
}

const rejectedMessage = 'the database cannot store this record';

/**
 * PostgreSQL rejected the data: SQLSTATE classes 22, 23, 54 and P0, e.g. a violated constraint or a row that is too
 * large.
 */
const isRejection = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^(22|23|54|P0)/.test(String(error.code));

/** If it throws, the writes of the batch are rolled back, and the transaction can be continued. */
async function writeBatch(
  sql: Transaction,
  row: ImportRow,
  given: Pick<Batch, 'items' | 'companies'>,
  last: LastWrites,
): Promise<Outcome[]> {
  const { customer_id: customerId, object, mode, match } = row;
  const invalidValues = invalidValuesOf(importFileOf(row));
  const batch: Batch = {
    operation: mode,
    match: match ?? 'id',
    isAtomic: false,
    fit: (body, stored) => fitToStored(body, stored, invalidValues),
    ...given,
  };
  const write = object === 'contacts' ? writeContactBatch : writeCompanyBatch;
  return write(sql, customerId, batch, last);
}

/** Undoes the writes of a dry run. */
class DryRun extends Error {}

/** Writes the batch and rolls it back. */
async function tryBatch(
  sql: Transaction,
  row: ImportRow,
  items: Batch['items'],
  { held, maySearch }: How,
): Promise<Outcome[]> {
  let outcomes: Outcome[] = [];
  // The companies that the batch creates do not stay either.
  const how = { maySearch, held: held && { ...held, companies: held.companies && { ...held.companies } } };
  const undone = sql.savepoint(async (attempt) => {
    outcomes = await withoutLastWrites((last) => writeAccepted(attempt as Transaction, row, items, how, last));
    throw new DryRun();
  });
  await undone.catch((error: unknown) => {
    if (!(error instanceof DryRun)) throw error;
  });
  return outcomes;
}

/** Ignores lists that have been deleted. */
async function addContactsToLists(
  sql: Transaction,
  { customer_id: customerId, list_ids }: ImportRow,
  outcomes: readonly Outcome[],
): Promise<void> {
  const contactIds = outcomes.flatMap((outcome) => (outcome.status === 'failed' ? [] : [outcome.id]));
  if (contactIds.length === 0 || list_ids.length === 0) return;
  await addToLists(sql, customerId, { list_ids, contact_ids: [...new Set(contactIds)] });
}

function countsOf(outcomes: readonly Outcome[], messages: readonly (Message | undefined)[]): ImportCounts {
  const warnings = messages.filter((message) => message?.warning !== undefined).length;
  const counts = { created: 0, updated: 0, unchanged: 0, failed: 0, warnings };
  for (const { status } of outcomes) counts[status as Exclude<keyof ImportCounts, 'warnings'>] += 1;
  return counts;
}

/** Records with warnings of one import whose lines are kept. */
const maxWarningLines = 100_000;

/** Returns the lines of the errors file. */
function linesOf(
  { layout, warnings, format }: ImportRow,
  planned: readonly PlannedRecord[],
  messages: readonly (Message | undefined)[],
): string {
  let room = maxWarningLines - warnings;
  const lines = planned.map(({ record }, i) => {
    const message = messages[i];
    if (!message || (message.warning !== undefined && --room < 0)) return '';
    return errorsLine(layout as CsvLayout | null, record, message, format);
  });
  return lines.join('');
}

/** Returns what is to be said about a record. A failed record has only an error, which names all of its values. */
function messageOf({ item, record: { warnings } }: PlannedRecord, outcome: Outcome): Message | undefined {
  if (outcome.status === 'failed') return { error: errorOf(outcome.error, warnings) };
  const left = warningsOf(item, warnings);
  return left.length > 0 ? { warning: joined(left.map(textOf)) } : undefined;
}

/** Joins all validation errors of a record, and what was left out of it before. */
function errorOf({ faults, message, matchingIds }: DomainError, warnings: readonly Fault[]): string {
  const named = new Set(warnings.map(({ path }) => path));
  const texts = [...warnings, ...faults.filter(({ path }) => path === '' || !named.has(path))].map(textOf);
  const ids = matchingIds ? [`matching ids: ${matchingIds.join(', ')}`] : [];
  return joined([...(faults.length > 0 ? texts : [...texts, message]), ...ids]);
}

const textOf = ({ path, message }: Fault): string =>
  path === '' ? message : `${tokensOf(path).join('.')}: ${message}`;

/** Of one record (UTF-16 units). */
const maxMessage = 2_000;

function joined(texts: readonly string[]): string {
  const text = texts.join('; ');
  return text.length > maxMessage ? `${text.slice(0, maxMessage - 1)}…` : text;
}
