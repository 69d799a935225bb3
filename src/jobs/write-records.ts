import { isDeepStrictEqual } from 'node:util';
import type { FastifyBaseLogger } from 'fastify';
import type { Transaction, Locked } from '../database/db.ts';
import { companyKey, namedCompanyOf } from '../queries/crm/companies.ts';
import { companyWrites, contactWrites } from '../queries/crm/record-batches.ts';
import { canonicalOf, RepeatedRecord, type Batch, type Outcome } from '../queries/records/batches.ts';
import { lockBulk, withDeferredWrites, type DeferredWrites } from '../queries/records/deferred-writes.ts';
import type { RecordWrites } from '../queries/records/record-writes.ts';
import { opportunityWrites } from '../queries/crm/opportunities.ts';
import { productWrites } from '../queries/crm/products.ts';
import type { ImportObject, ImportChange } from '../schemas/imports.ts';
import { DomainError, type Fault } from '../errors.ts';
import type { Message } from '../files/errors-file.ts';
import { invalidValuesOf } from '../files/encodings.ts';
import type { FileRecord } from '../files/read-records.ts';
import { fitToStored, warningsOf } from '../files/values.ts';
import { keepRows } from '../queries/jobs/dry-runs.ts';
import { saveWritten, endImport } from '../queries/jobs/imports.ts';
import type { ImportCounts, ImportRow, ImportSettings } from '../queries/jobs/imports.ts';
import { deleteRows, saveNotes } from '../queries/jobs/import-rows.ts';
import { lockRun, type TakenImport } from '../queries/jobs/runs.ts';
import { addToLists } from '../queries/crm/list-members.ts';
import { findNotes, activityWrites } from '../queries/crm/activities.ts';
import type { CompanyReference } from '../schemas/contacts.ts';
import { fold } from '../text/fold.ts';
import { tokensOf } from '../text/json.ts';
import { checkRecords, withValue, maxChanges, Trial } from './check-records.ts';
import { AttemptLost } from './turns.ts';

const writesOf: Record<ImportObject, Pick<RecordWrites, 'write' | 'lock'>> = {
  contacts: contactWrites,
  companies: companyWrites,
  products: productWrites,
  opportunities: opportunityWrites,
};

export interface PlannedRecord {
  record: FileRecord;
  item: object | DomainError;
  /**
   * Normalised value of the match field, which identifies the stored record. Undefined if the record is to be created.
   */
  match: string | undefined;
  statement: number;
}

/**
 * Returns the changes that the first records would make. Writes nothing. Call it while no other bulk writer of the
 * process waits.
 */
export async function tryRecords(
  sql: Transaction,
  settings: Settings,
  planned: readonly PlannedRecord[],
): Promise<ImportChange[]> {
  const trial = new Trial();
  const outcomes = await writeInOrder(sql, { ...settings, dry_run: true }, planned, trial);
  return trial.changesOf(linesOf(planned), outcomes);
}

const linesOf = (planned: readonly PlannedRecord[]): number[] => planned.map(({ record }) => record.line);

const maxStatements = 20;

/**
 * Validates the records for the next transaction. Returns fewer records than given if too many have the same match
 * value.
 */
export async function planRecords(settings: ImportSettings, records: readonly FileRecord[]): Promise<PlannedRecord[]> {
  const statementOf = statements(settings);
  const planned: PlannedRecord[] = [];
  for (const [i, item] of (await checkRecords(settings, records)).entries()) {
    const match = matchOf(settings, item);
    const statement = item instanceof DomainError ? 0 : statementOf(item as Record<string, unknown>, match);
    if (statement === maxStatements) return planned;
    planned.push({ record: records[i]!, item, match, statement });
  }
  return planned;
}

const matchOf = ({ match }: ImportSettings, item: object): string | undefined =>
  match === null || item instanceof DomainError
    ? undefined
    : canonicalOf(match)(String((item as Record<string, unknown>)[match]));

// A repeated match value is for a later statement. A record that names a company, or gets an external id by another
// match value, stays behind earlier records that could affect it.
/**
 * Returns a function that assigns records to numbered SQL statements, because one statement can write each match value
 * only once.
 */
function statements({
  match,
  dry_run: isDryRun,
}: ImportSettings): (item: Readonly<Record<string, unknown>>, value: string | undefined) => number {
  const latest = new Map<string, number>();
  return (item, value) => {
    const own = value === undefined ? [] : [`match ${value}`];
    const shared: string[] = [];
    const { external_id: externalId, company } = item as { external_id?: string; company?: CompanyReference | null };
    // In a dry run, no record gets the external id that an earlier one gives up, but a statement can store each only once.
    if (typeof externalId === 'string' && match !== 'external_id' && isDryRun) own.push(`external_id ${externalId}`);
    else if (externalId !== undefined && match !== 'external_id') shared.push('external ids');
    const named = namedCompanyOf(company ?? {});
    // One that is created by its domain is found by its name, too.
    if (named) for (const key of [companyKey(named), fold(named.company_name)]) shared.push(`company ${key}`);
    const after = own.map((key) => (latest.get(key) ?? -1) + 1);
    const statement = Math.max(0, ...after, ...shared.map((key) => latest.get(key) ?? 0));
    for (const key of [...own, ...shared]) latest.set(key, statement);
    return statement;
  };
}

export const fewRecords = 20;

/**
 * Writes records, the errors of failed ones and the import's progress, in the caller's transaction. Ends the import
 * after the last record.
 * @param after line of the last record before these
 * @returns true if the import has ended
 * @throws AttemptLost, with nothing written, if the import has ended, a later turn has taken it, or these records are
 * already written
 */
export async function writeRecords(
  sql: Transaction,
  taken: TakenImport,
  after: number,
  planned: readonly PlannedRecord[],
  log: Log,
): Promise<boolean> {
  const { customer_id: customerId } = taken;
  const row = await lockRun(sql, customerId, taken);
  // Another line: the commit of these records succeeded although its answer was lost.
  if (!row || row.done_line !== after) throw new AttemptLost();
  return withDeferredWrites(sql, customerId, (deferred) => writeAll(sql, row, { planned, log }, deferred));
}

async function writeAll(
  sql: Transaction,
  row: Locked<ImportRow>,
  { planned, log }: { planned: readonly PlannedRecord[]; log: Log },
  deferred: DeferredWrites,
): Promise<boolean> {
  const { customer_id: customerId, id } = row;
  const trial = row.dry_run ? new Trial(maxChanges - row.change_count) : undefined;
  const outcomes = await writeInOrder(sql, row, planned, trial ?? deferred);
  if (!trial) {
    await addContactsToLists(sql, row, outcomes);
    await addNotes(sql, row, { planned, outcomes }, deferred);
  }
  logRejections(log, planned, outcomes);
  const messages = planned.map((one, i) => messageOf(one, outcomes[i]!));
  const { done_line: after } = row;
  const upTo = planned.at(-1)?.record.line ?? after;
  const kept = keptMessages(row, messages);
  const notes = planned
    .map(({ record: { line }, match }, i) => {
      const isNew = outcomes[i]!.status === 'created';
      return { line, ...kept[i], match: trial && match, isNew };
    })
    .filter(({ match }, i) => kept[i] ?? match);
  await saveNotes(sql, customerId, id, notes);
  if (!trial) await deleteRows(sql, customerId, id, { after, upTo, isDone: true });
  const changes = trial?.changesOf(linesOf(planned), outcomes);
  const processed = await saveWritten(sql, customerId, id, { line: upTo, ...countsOf(outcomes, messages), changes });
  if (processed < row.total!) return false;
  await endImport(sql, customerId, id, { status: 'COMPLETED', keepsRows: row.dry_run }, deferred);
  if (row.dry_run) await keepRows(sql, customerId, id);
  return true;
}

type Settings = ImportSettings & { customer_id: string };

async function writeInOrder(
  sql: Transaction,
  row: Settings,
  planned: readonly PlannedRecord[],
  deferred: DeferredWrites | Trial,
): Promise<Outcome[]> {
  const { customer_id: customerId } = row;
  await lockBulk(sql, customerId);
  const outcomes = new Map<PlannedRecord, Outcome>();
  const groups = Object.values(Object.groupBy(planned, ({ statement }) => statement)) as PlannedRecord[][];
  if (groups.length > 1) await writesOf[row.object].lock(sql, customerId, batchOf(row, itemsOf(planned)));
  for (let repeated: PlannedRecord[] = []; groups.length > 0 || repeated.length > 0;) {
    const records = [...repeated, ...(groups.shift() ?? [])].toSorted((a, b) => a.record.line - b.record.line);
    const written =
      deferred instanceof Trial
        ? await deferred.run(sql, customerId, (attempt, own) => writeAccepted(attempt, row, itemsOf(records), own))
        : await writeAccepted(sql, row, itemsOf(records), deferred);
    for (const [i, record] of records.entries()) outcomes.set(record, written[i]!);
    // Records with different match values are the same if one was merged.
    repeated = records.filter((_, i) => isRepeated(written[i]!));
  }
  return planned.map((record) => outcomes.get(record)!);
}

const isRepeated = (outcome: Outcome) => outcome.status === 'failed' && outcome.error instanceof RepeatedRecord;

const partsOfRejectedBatch = 10;

/**
 * Writes records. If PostgreSQL rejects a batch, writes smaller parts, down to single records, so that only the
 * rejected records fail.
 */
async function writeAccepted(
  sql: Transaction,
  row: Settings,
  items: Batch['items'],
  deferred: DeferredWrites,
): Promise<Outcome[]> {
  const { customer_id: customerId, object } = row;
  const { write, lock } = writesOf[object];
  const batch = batchOf(row, items);
  try {
    return await write(sql, customerId, batch, deferred);
  } catch (cause) {
    if (!isRejection(cause)) throw cause;
    if (items.length === 1)
      return [{ status: 'failed', error: new DomainError('validation_failed', rejectedMessage, { cause }) }];
  }
  await lock(sql, customerId, batch);
  const size = Math.ceil(items.length / partsOfRejectedBatch);
  const outcomes: Outcome[] = [];
  for (let at = 0; at < items.length; at += size)
    outcomes.push(...(await writeAccepted(sql, row, items.slice(at, at + size), deferred)));
  return outcomes;
}

const itemsOf = (planned: readonly PlannedRecord[]) => planned.map(({ item }) => item);

type Log = Pick<FastifyBaseLogger, 'warn'>;

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
 * Returns true if PostgreSQL rejected the data (SQLSTATE classes 22, 23, 54, P0), for example a row that is too large.
 */
const isRejection = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^(22|23|54|P0)/.test(String(error.code));

const batchOf = (row: Settings, items: Batch['items']): Batch => ({
  operation: row.mode,
  match: row.match ?? 'id',
  isAtomic: false,
  isTrial: row.dry_run,
  fit: (body, stored) => withoutStored(fitToStored(body, stored, invalidValuesOf(row)), stored),
  items,
});

/**
 * Removes `custom_fields` that equal the stored ones. They stay as they are, even if a later declaration would make
 * them invalid.
 */
function withoutStored(body: Record<string, unknown>, stored: Record<string, unknown>): Record<string, unknown> {
  const { custom_fields, ...others } = body;
  return isDeepStrictEqual(custom_fields, stored['custom_fields']) ? others : body;
}

async function addContactsToLists(
  sql: Transaction,
  { customer_id: customerId, list_ids }: ImportRow,
  outcomes: readonly Outcome[],
): Promise<void> {
  const contactIds = outcomes.flatMap((outcome) => (outcome.status === 'failed' ? [] : [outcome.id]));
  if (contactIds.length === 0 || list_ids.length === 0) return;
  await addToLists(sql, customerId, { list_ids, contact_ids: [...new Set(contactIds)] });
}

async function addNotes(
  sql: Transaction,
  { customer_id: customerId, object }: ImportRow,
  { planned, outcomes }: { planned: readonly PlannedRecord[]; outcomes: readonly Outcome[] },
  deferred: DeferredWrites,
): Promise<void> {
  const member = object === 'contacts' ? 'contact_id' : 'company_id';
  const given = planned.flatMap(({ record: { note } }, i) => {
    const outcome = outcomes[i]!;
    return note === undefined || outcome.status === 'failed' ? [] : [{ id: outcome.id, body: note }];
  });
  if (given.length === 0) return;
  const known = new Set(
    (await findNotes(sql, customerId, member, given)).map(({ id, body }) => JSON.stringify([id, body])),
  );
  const items = given.flatMap(({ id, body }) => {
    const key = JSON.stringify([id, body]);
    if (known.has(key)) return [];
    known.add(key);
    return [{ type: 'note', body, [member]: id }];
  });
  await activityWrites.write(sql, customerId, { operation: 'create', match: 'id', isAtomic: false, items }, deferred);
}

function countsOf(outcomes: readonly Outcome[], messages: readonly (Message | undefined)[]): ImportCounts {
  const warnings = messages.filter((message) => message?.warning !== undefined).length;
  const counts = { created: 0, updated: 0, unchanged: 0, failed: 0, warnings };
  for (const { status } of outcomes) counts[status as Exclude<keyof ImportCounts, 'warnings'>] += 1;
  return counts;
}

const maxRecordsWithWarnings = 100_000;

function keptMessages({ warnings }: ImportRow, messages: readonly (Message | undefined)[]): (Message | undefined)[] {
  let room = maxRecordsWithWarnings - warnings;
  return messages.map((message) => (message?.warning !== undefined && --room < 0 ? undefined : message));
}

function messageOf({ item, record: { warnings } }: PlannedRecord, outcome: Outcome): Message | undefined {
  if (outcome.status === 'failed') {
    const { message, matchingIds, faults } = outcome.error;
    const named = faults.map((one) => (isOfDeclared(item, one) ? withValue(item, one) : one));
    return { error: errorOf({ message, matchingIds, faults: named }, warnings) };
  }
  const left = warningsOf(item, warnings);
  return left.length > 0 ? { warning: joined(left.map(textOf)) } : undefined;
}

/**
 * Returns true for a fault of a custom field with a declared type. It is found only after the stored record was read,
 * so its message does not name the value yet.
 */
const isOfDeclared = (item: object | DomainError, { path }: Fault): boolean =>
  !(item instanceof DomainError) && path.startsWith('/custom_fields/');

function errorOf(
  { faults, message, matchingIds }: Pick<DomainError, 'faults' | 'message' | 'matchingIds'>,
  warnings: readonly Fault[],
): string {
  const named = new Set(warnings.map(({ path }) => path));
  // A value that was left out is told once. Of two addresses, the other one can still find several records.
  const others = faults.filter(({ path }) => path === '' || matchingIds || !named.has(path));
  const texts = [...warnings, ...others].map(textOf);
  const ids = matchingIds ? [`matching ids: ${matchingIds.join(', ')}`] : [];
  return joined([...(faults.length > 0 ? texts : [...texts, message]), ...ids]);
}

const textOf = ({ path, message }: Fault) => (path === '' ? message : `${tokensOf(path).join('.')}: ${message}`);

const maxMessage = 2_000;

function joined(texts: readonly string[]): string {
  const text = texts.join('; ');
  return text.length > maxMessage ? `${text.slice(0, maxMessage - 1)}…` : text;
}
