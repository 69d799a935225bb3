import { afterCommit, originOf } from '../../database/db.ts';
import type { Locked, LockedId, Queryable, Sql, Transaction } from '../../database/db.ts';
import { conflict, forbidden, notFound } from '../../errors.ts';
import { addToJournal } from '../records/journal.ts';
import type { ImportFile } from '../../files/encodings.ts';
import type { EventActor } from '../../schemas/events.ts';
import type { DeferredWrites } from '../records/deferred-writes.ts';
import { finishedJobs } from '../../process/metrics.ts';
import type { MatchField } from '../../schemas/batches.ts';
import {
  importModes,
  importObjects,
  importScopes,
  noteScope,
  maxRunningImports,
  maxWaitingImports,
  type Import,
  type ImportCreate,
  type ImportObject,
  type ImportPatch,
  type ImportChange,
} from '../../schemas/imports.ts';
import type { Scope } from '../../schemas/scopes.ts';
import { isAwaited, deleteFile, dropRows, namesNotes, type SeenMapping, type StoredFile } from './import-rows.ts';
import { requireLists } from '../crm/list-members.ts';
import { isAfter, limitAndOffset, type PageById } from '../records/finders.ts';

/**
 * Kinds of imports that a caller may see, each as object and mode, such as `contacts upsert`. With `contacts read`, the
 * caller may also see the contents of contacts.
 */
export type VisibleImports = readonly string[];

/** An import that a caller names, and the kinds that the caller may see. */
export interface ImportRef {
  id: string;
  visible: VisibleImports;
}

export const seesRecords = (visible: VisibleImports, object: ImportObject): boolean =>
  visible.includes(`${object} read`);

export const visibleImports = (scopes: readonly Scope[]): VisibleImports =>
  importObjects.flatMap((object) => [
    ...importModes
      .filter((mode) => importScopes(object, mode).every((scope) => scopes.includes(scope)))
      .map((mode) => `${object} ${mode}`),
    ...(scopes.includes(`${object}:read`) ? [`${object} read`] : []),
  ]);

export const allImports: VisibleImports = importObjects.flatMap((object) =>
  [...importModes, 'read'].map((action) => `${object} ${action}`),
);

export const findVisibleImports = (
  sql: Queryable,
  customerId: string,
  ids: string[],
  visible: VisibleImports,
): Promise<Import[]> => sql`
  select
    ${projection(sql)},
    case
      when i.repeated is not null and i.object || ' read' = any(${visible as string[]}) then i.changes
    end as changes,
    i.repeated
  from imports i
  where i.customer_id = ${customerId}
    and i.id = any(${ids}::uuid[])
    and ${isVisible(sql, visible)}`;

const isVisible = (sql: Queryable, visible: VisibleImports) =>
  sql`i.object || ' ' || i.mode = any(${visible as string[]})`;

const shownEncoding = (sql: Queryable) => sql`
  case
    when i.format = 'xlsx' then null
    when i.encoding <> 'auto' and i.format <> 'ndjson' then i.encoding
    else coalesce(i.found_encoding, 'auto')
  end`;

const shownInvalidValues = (sql: Queryable) => sql`
  coalesce(i.invalid_values, case when i.format = 'ndjson' then 'fail' else 'skip' end)`;

const projection = (sql: Queryable) => sql`
  i.id,
  i.name,
  i.object,
  i.mode,
  i.match,
  i.format,
  ${shownEncoding(sql)} as encoding,
  ${shownInvalidValues(sql)} as invalid_values,
  i.dry_run,
  i.status,
  i.total,
  i.created + i.updated + i.unchanged + i.failed as processed,
  i.created,
  i.updated,
  i.unchanged,
  i.failed,
  i.warnings,
  i.error,
  i.created_at,
  i.started_at,
  i.finished_at`;

export interface NewImport extends Omit<ImportCreate, 'match'> {
  match: MatchField | null;
  fingerprint?: Buffer;
}

/**
 * Creates an import that waits for its file.
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
export async function createImport(sql: Transaction, customerId: string, settings: NewImport): Promise<string> {
  const { object, mode, match, name = '', start = true, fingerprint = null } = settings;
  const { format = 'auto', encoding = 'auto', sheet = null } = settings;
  const listIds = await requireLists(sql, customerId, settings.list_ids);
  const { actor, requestId = null } = originOf(sql);
  const [row] = await sql<[{ id: string }]>`
    insert into imports (
      customer_id, name, object, mode, match, format, encoding, sheet, mapping, guess, invalid_values, ignore_unknown, has_header,
      list_ids, dry_run, is_automatic, fingerprint, actor, request_id
    )
    values (
      ${customerId}, ${name.trim()}, ${object}, ${mode}, ${match}, ${format}, ${encoding}, ${sheet},
      ${settings.mapping ? sql.json(settings.mapping) : null}, ${settings.guess ?? false},
      ${settings.invalid_values ?? null}, ${settings.ignore_unknown ?? false}, ${settings.header ?? true}, ${listIds}::uuid[],
      ${settings.dry_run ?? false}, ${start}, ${fingerprint},
      ${sql.json({ ...actor })}, ${requestId}
    )
    returning id`;
  return row.id;
}

export async function lockNewImports(sql: Transaction, customerId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`imports:${customerId}`}, 0))`;
}

/**
 * Returns the id of the import that an interrupted run of the same command left unfinished. Locks the creation of
 * imports.
 * @param fingerprint hash of the command's settings and file
 */
export async function findInterruptedImport(
  sql: Transaction,
  customerId: string,
  fingerprint: Buffer,
): Promise<string | undefined> {
  await lockNewImports(sql, customerId);
  const [found] = await sql<{ id: string }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and fingerprint = ${fingerprint}
      and finished_at is null
    order by id desc
    limit 1`;
  return found?.id;
}

/** Returns the fingerprint of the import that creates records which this one has left out. */
export const secondMark = (id: string): Buffer => Buffer.from(`second of ${id}`);

const firstIdOf = (sql: Queryable) => sql`substring(encode(i.fingerprint, 'escape') from '^second of (.{36})$')`;

/** An import whose records another one has left out, or from which another one has created records. */
export interface SecondState {
  /** Import that has left out the records of this one. Null: they are from an upload. */
  first_id: string | null;
  /** Latest import that creates the records without the match value, unless it has ended early and created none. */
  second: Pick<Import, 'id' | 'status' | 'created'> | null;
}

// Marks of the last release are hashes. Without them, what it has created could be created once more.
const secondColumns = (sql: Queryable, customerId: string) => sql`
  ${firstIdOf(sql)} as first_id,
  (
    select jsonb_build_object('id', s.id, 'status', s.status, 'created', s.created)
    from imports s
    where s.customer_id = ${customerId}
      and s.fingerprint in (convert_to('second of ' || i.id, 'UTF8'), sha256(convert_to('copy of ' || i.id, 'UTF8')))
      and (s.created > 0 or s.status not in ('CANCELLED', 'FAILED'))
    order by s.id desc
    limit 1
  ) as second`;

interface Unfinished {
  waiting: number;
  running: number;
}

async function countUnfinished(sql: Transaction, customerId: string): Promise<Unfinished> {
  await lockNewImports(sql, customerId);
  const [row] = await sql<[Unfinished]>`
    select
      count(*) filter (where status in ('UPLOADING', 'UPLOADED')) as waiting,
      count(*) filter (where status in ('PENDING', 'PROCESSING')) as running
    from imports
    where customer_id = ${customerId}
      and finished_at is null`;
  return row;
}

/**
 * Checks that one more import can wait for its file or its start. Locks the creation and the start of imports.
 * @throws DomainError `conflict` if the customer has `maxWaitingImports`
 */
export async function requireFewWaiting(sql: Transaction, customerId: string): Promise<void> {
  if ((await countUnfinished(sql, customerId)).waiting >= maxWaitingImports)
    throw conflict(`${maxWaitingImports} imports wait for their file or their start: start one, or cancel it`);
}

/**
 * Checks that one more import can start. Locks the creation and the start of imports.
 * @throws DomainError `conflict` if the customer has `maxRunningImports`
 */
export async function requireFewRunning(sql: Transaction, customerId: string): Promise<void> {
  if (!(await canStart(sql, customerId)))
    throw conflict(`The customer has ${maxRunningImports} imports under way: wait for one, or cancel it`);
}

export const canStart = async (sql: Transaction, customerId: string): Promise<boolean> =>
  (await countUnfinished(sql, customerId)).running < maxRunningImports;

/**
 * Returns an import as the API shows it.
 * @throws DomainError `not_found`, also if the caller may not see imports of its kind
 */
export async function requireImport(
  sql: Queryable,
  customerId: string,
  id: string,
  visible: VisibleImports,
): Promise<Import> {
  const [found] = await findVisibleImports(sql, customerId, [id], visible);
  if (!found) throw notFound('import');
  return found;
}

const isFor = (sql: Queryable, user: string | undefined) =>
  user === undefined ? sql`` : sql`and (i.actor ->> 'type' is distinct from 'user' or i.actor ->> 'id' = ${user})`;

/**
 * Returns a page of imports, newest first, with who began them.
 * @param forUser id of a user, to leave out the imports that other users began
 */
export const listImports = (
  sql: Sql,
  customerId: string,
  paginate: PageById | undefined,
  visible: VisibleImports,
  forUser?: string,
): Promise<(Import & { actor: EventActor | null })[]> => sql`
  select ${projection(sql)}, i.actor
  from imports i
  where i.customer_id = ${customerId}
    and ${isVisible(sql, visible)}
    ${isFor(sql, forUser)}
    and ${isAfter(sql, 'i.id', paginate)}
  order by i.id desc
  ${limitAndOffset(sql, paginate)}`;

export type ListedImport = Import & SecondState & { actor: EventActor | null };

/**
 * Returns a page of imports, newest first, one for each file. What became of a check, or of records that an import left
 * out, is told with one import.
 * @param forUser as in `listImports`
 */
export const listImportedFiles = (
  sql: Sql,
  customerId: string,
  paginate: PageById | undefined,
  forUser?: string,
): Promise<ListedImport[]> => sql`
  select ${projection(sql)}, i.repeated, i.actor, ${secondColumns(sql, customerId)}
  from imports i
  where i.customer_id = ${customerId}
    ${isFor(sql, forUser)}
    and ${isAfter(sql, 'i.id', paginate)}
    and not (i.status = 'COMPLETED' and ${firstIdOf(sql)} is not null)
  order by i.id desc
  ${limitAndOffset(sql, paginate)}`;

export interface ImportSettings extends ImportFile, Pick<Import, 'dry_run'> {
  sheet: string | null;
  has_mark: boolean;
  /** Mapping of an earlier import with the same headers. The latest preview with `guess` used it. */
  remembered: SeenMapping | null;
  list_ids: string[];
}

/**
 * Stores whether an import may create notes. This depends on the rights of the caller who starts it.
 * @throws DomainError `forbidden` if it may not, but one of its columns contains notes
 */
export async function allowNotes(sql: Transaction, customerId: string, id: LockedId, mayNote: boolean): Promise<void> {
  const [changed] = await sql`
    update imports
    set takes_notes = ${mayNote}
    where customer_id = ${customerId}
      and id = ${id}
      and (
        ${mayNote}
        or not (
          jsonb_path_exists(coalesce(mapping, '{}'), ${namesNotes}::jsonpath)
          or jsonb_path_exists(coalesce(layout, '{}'), '$.columns[*] ? (@ == "note")')
        )
      )
    returning id`;
  if (!changed) throw forbidden([noteScope]);
}

const settingColumns = (sql: Queryable) => sql`
  object, mode, match, format, encoding, sheet, found_encoding, has_mark, dry_run, mapping, guess,
  remembered, invalid_values, ignore_unknown, has_header, list_ids, takes_notes as "takesNotes"`;

export interface ImportState
  extends ImportSettings, StoredFile, SecondState, Pick<Import, 'name' | 'status' | 'total' | 'failed' | 'warnings'> {
  is_kept: boolean;
  is_awaited: boolean;
  is_automatic: boolean;
  line_count: number | null;
  layout: object | null;
  /** True if the failed records can no longer be read. They are deleted later (see `dry-runs.ts`). */
  is_expired: boolean;
}

const readable = '30 days';

const stateColumns = (sql: Queryable, customerId: string) => sql`
  i.id, i.name, i.status, i.total, i.failed, i.warnings,
  coalesce(i.rows_kept_until > now() or (i.rows_kept_until is not null and ${isAwaited(sql, sql`i`, customerId)}), false) as is_kept,
  ${isAwaited(sql, sql`i`, customerId)} as is_awaited, i.is_automatic, i.upload, i.file_bytes, i.line_count, i.layout,
  coalesce(i.finished_at <= now() - ${readable}::interval, false) as is_expired,
  ${secondColumns(sql, customerId)},
  ${settingColumns(sql)}`;

/** Locks an import, so that workers cannot write its records. Then returns it, as `requireImportState` does. */
export const lockImport = (sql: Transaction, customerId: string, id: string, visible: VisibleImports) =>
  requireImportState(sql, customerId, id, visible, sql`for no key update`) as Promise<Locked<ImportState>>;

/** @throws DomainError `not_found`, also if the caller may not see imports of its kind */
export async function requireImportState(
  sql: Queryable,
  customerId: string,
  id: string,
  visible: VisibleImports,
  lock = sql``,
): Promise<ImportState> {
  const [found] = await sql<ImportState[]>`
    select ${stateColumns(sql, customerId)}
    from imports i
    where i.customer_id = ${customerId}
      and i.id = ${id}
      and ${isVisible(sql, visible)}
    ${lock}`;
  if (!found) throw notFound('import');
  return found;
}

/** Settings that can change between upload and start. Callers of the API cannot change `mode` and `match`. */
export type ImportChanges = ImportPatch & Partial<Pick<ImportSettings, 'mode' | 'match'>>;

export async function updateImport(
  sql: Transaction,
  customerId: string,
  { id, ...stored }: Locked<ImportState>,
  patch: ImportChanges,
): Promise<void> {
  const listIds = patch.list_ids ? await requireLists(sql, customerId, patch.list_ids) : stored.list_ids;
  const { mapping, encoding, sheet, guess, ...rest } = { ...stored, ...patch };
  const hasHeader = patch.header ?? stored.has_header;
  await sql`
    update imports
    set
      mode = ${rest.mode},
      match = ${rest.match},
      mapping = ${mapping ? sql.json(mapping) : null},
      encoding = ${encoding},
      sheet = ${sheet},
      guess = ${guess},
      invalid_values = ${rest.invalid_values},
      ignore_unknown = ${rest.ignore_unknown},
      has_header = ${hasHeader},
      dry_run = ${rest.dry_run},
      list_ids = ${listIds}::uuid[]
    where customer_id = ${customerId}
      and id = ${id}`;
}

export async function startImport(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await sql`
    update imports
    set status = 'PENDING', due_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
}

type ImportEnding = { status: 'COMPLETED' | 'CANCELLED'; error?: undefined } | { status: 'FAILED'; error: string };

/**
 * Ends an import, and records the event. Deletes the file, and all records without an error or a warning.
 * @param ending `keepsRows`: true keeps the file and the records
 * @param deferred given if the transaction also writes records: the event then comes after their events
 */
export async function endImport(
  sql: Transaction,
  customerId: string,
  id: LockedId,
  { status, error = null as never, keepsRows = false }: ImportEnding & { keepsRows?: boolean },
  deferred?: DeferredWrites,
): Promise<void> {
  const [{ actor, ...ended }] = await sql<[{ actor: EventActor | null }]>`
    update imports
    set
      status = ${status},
      error = ${error},
      turn = null,
      finished_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}
    returning id, status, dry_run, created, updated, failed, warnings, actor`;
  const origin = { source: 'import' as const, changeId: id, ...(actor && { actor }) };
  const event = { type: 'import.ended', data: ended, origin } as const;
  if (deferred) deferred.event(event);
  else addToJournal(sql, customerId, [event]);
  if (!keepsRows) await dropRows(sql, customerId, id);
  afterCommit(sql, () => finishedJobs.inc({ type: 'import', status }));
}

export interface ImportRow extends ImportSettings, StoredFile {
  type: 'import';
  customer_id: string;
  /** Columns of a CSV file. Null for NDJSON, and until the header has been read. */
  layout: object | null;
  /** Line where the last written record starts. 0: no record is written yet. */
  done_line: number;
  /** Number of records in the file. Null until all of them are stored as rows. */
  total: number | null;
  warnings: number;
  change_count: number;
  failures: number;
  /** Actor that created the import. Null for imports from before release 1.1.0. */
  actor: EventActor | null;
  request_id: string | null;
}

export const importColumns = (sql: Queryable) => sql`
  'import' as type, customer_id, id, upload, file_bytes, layout, done_line, total, warnings, failures, actor,
  request_id, jsonb_array_length(changes) as change_count,
  ${settingColumns(sql)}`;

export async function endReading(
  sql: Transaction,
  customerId: string,
  { id, layout, total, dry_run }: Locked<Pick<ImportRow, 'layout' | 'total' | 'dry_run'>>,
): Promise<void> {
  await sql`
    update imports
    set layout = ${layout ? sql.json(layout as never) : null}, total = ${total}, failures = 0
    where customer_id = ${customerId}
      and id = ${id}`;
  // The columns of a checked file can be changed.
  if (!dry_run) await deleteFile(sql, customerId, id);
}

export type ImportCounts = Pick<Import, 'created' | 'updated' | 'unchanged' | 'failed' | 'warnings'>;

export async function saveWritten(
  sql: Transaction,
  customerId: string,
  id: LockedId,
  { line, changes = [], ...counts }: ImportCounts & { line: number; changes?: readonly ImportChange[] | undefined },
): Promise<number> {
  const [row] = await sql<[{ processed: number }]>`
    update imports
    set
      done_line = ${line},
      created = created + ${counts.created},
      updated = updated + ${counts.updated},
      unchanged = unchanged + ${counts.unchanged},
      failed = failed + ${counts.failed},
      warnings = warnings + ${counts.warnings},
      ${changes.length > 0 ? sql`changes = changes || ${sql.json(changes as never)},` : sql``}
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}
    returning created + updated + unchanged + failed as processed`;
  return row.processed;
}
