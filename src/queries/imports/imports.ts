import { afterCommit } from '../../database/after-commit.ts';
import type { Sql, Transaction } from '../../database/db.ts';
import { conflict, missingReferences, notFound } from '../../errors.ts';
import { finishedJobs } from '../../process/metrics.ts';
import type { MatchField } from '../../schemas/batches.ts';
import {
  importModes,
  importObjects,
  importScopes,
  maxUnfinishedImports,
  type Import,
  type ImportCreate,
  type ImportPatch,
  type ImportStatus,
  type Mapping,
} from '../../schemas/imports.ts';
import type { Scope } from '../../schemas/base/scopes.ts';
import { deleteFile } from './import-files.ts';
import { limitAndOffset } from '../records/paging.ts';

/**
 * The kinds of imports that a caller may see. A kind is the object and the mode of an import in one text, such as
 * `contacts upsert`. Imports of other kinds are hidden from this caller.
 */
export type VisibleImports = readonly string[];

/**
 * Returns the kinds of imports that a caller with these scopes may see. These are the kinds that the caller may also
 * start.
 */
export const visibleImports = (scopes: readonly Scope[]): VisibleImports =>
  importObjects.flatMap((object) =>
    importModes
      .filter((mode) => importScopes(object, mode).every((scope) => scopes.includes(scope)))
      .map((mode) => `${object} ${mode}`),
  );

/** All kinds of imports, for operators, who may see every import. */
export const allImports: VisibleImports = importObjects.flatMap((object) =>
  importModes.map((mode) => `${object} ${mode}`),
);

const isVisible = (sql: Sql | Transaction, visible: VisibleImports) =>
  sql`i.object || ' ' || i.mode = any(${visible as string[]})`;

const projection = (sql: Sql | Transaction) => sql`
  i.id,
  i.name,
  i.object,
  i.mode,
  i.match,
  i.format,
  i.dry_run,
  i.status,
  i.total,
  i.created + i.updated + i.unchanged + i.failed as processed,
  i.created,
  i.updated,
  i.unchanged,
  i.failed,
  i.error,
  i.created_at,
  i.started_at,
  i.finished_at`;

/** The properties of a new import. */
export interface NewImport extends Omit<ImportCreate, 'match'> {
  match: MatchField | null;
  /** Hash of the settings and the file. Only imports from the command line have it. */
  fingerprint?: Buffer;
}

/**
 * Creates an import, which then waits for its file.
 * @returns the id of the new import
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 * @throws DomainError `conflict` if the customer has too many unfinished imports
 */
export async function createImport(sql: Transaction, customerId: string, given: NewImport): Promise<string> {
  const { object, mode, match, format, name = '', start = true, fingerprint = null } = given;
  const listIds = await requireLists(sql, customerId, given.list_ids);
  await refuseTooMany(sql, customerId);
  const [row] = await sql<[{ id: string }]>`
    insert into imports (
      customer_id, name, object, mode, match, format, mapping, ignore_unknown, list_ids, dry_run, is_automatic, fingerprint
    )
    values (
      ${customerId}, ${name.trim()}, ${object}, ${mode}, ${match}, ${format},
      ${given.mapping ? sql.json(given.mapping) : null}, ${given.ignore_unknown ?? false}, ${listIds}::uuid[],
      ${given.dry_run ?? false}, ${start}, ${fingerprint}
    )
    returning id`;
  return row.id;
}

/**
 * Locks the creation of imports: other transactions that create an import for this customer wait until this transaction
 * ends.
 */
async function lockNewImports(sql: Transaction, customerId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`imports:${customerId}`}, 0))`;
}

/**
 * Finds the import that an earlier, interrupted run of the same import command has started. Returns its id, or
 * undefined if there is none. Other transactions that create an import for this customer wait until this transaction
 * ends.
 * @param fingerprint hash of the settings and the file of the import command
 */
export async function findUnreportedImport(
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
      and status <> 'CANCELLED'
    order by id desc
    limit 1`;
  return found?.id;
}

/**
 * Records that the import command has shown the result of an import to its user. If the same command is run again, it
 * starts a new import.
 */
export async function setReported(sql: Transaction, customerId: string, id: string): Promise<void> {
  await sql`
    update imports
    set fingerprint = null
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Checks that the customer may create another import. Other transactions that create an import for this customer wait
 * until this transaction ends.
 * @throws DomainError `conflict` if the customer has `maxUnfinishedImports` unfinished imports
 */
async function refuseTooMany(sql: Transaction, customerId: string): Promise<void> {
  await lockNewImports(sql, customerId);
  const [row] = await sql<[{ count: number }]>`
    select count(*) as count
    from imports
    where customer_id = ${customerId}
      and finished_at is null`;
  if (row.count >= maxUnfinishedImports)
    throw conflict(`The customer has ${maxUnfinishedImports} imports that have not ended: wait for one, or cancel it`);
}

/**
 * Checks list ids of a request. Returns them without duplicates.
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
async function requireLists(sql: Transaction, customerId: string, given: readonly string[] = []): Promise<string[]> {
  const known = new Set(await findExistingLists(sql, customerId, given));
  const missing = given.flatMap((id, i) => (known.has(id) ? [] : [{ noun: 'list', path: `/list_ids/${i}` }]));
  if (missing.length > 0) throw missingReferences(missing);
  return [...new Set(given)];
}

/** Returns those of the given lists that exist, in the order of their ids. */
async function findExistingLists(sql: Transaction, customerId: string, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const lists = await sql<{ id: string }[]>`
    select id
    from lists
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
      and deleted_at is null
    order by id`;
  return lists.map(({ id }) => id);
}

/**
 * Returns an import as the API shows it.
 * @throws DomainError `not_found` if the customer has no such import, or if its kind is not in `visible`
 */
export async function requireImport(
  sql: Sql | Transaction,
  customerId: string,
  id: string,
  visible: VisibleImports,
): Promise<Import> {
  const [found] = await sql<Import[]>`
    select ${projection(sql)}
    from imports i
    where i.customer_id = ${customerId}
      and i.id = ${id}
      and ${isVisible(sql, visible)}`;
  if (!found) throw notFound('import');
  return found;
}

/** Returns a page of the customer's imports, newest first. Leaves out imports whose kind is not in `visible`. */
export const listImports = (
  sql: Sql,
  customerId: string,
  paginate: { page?: number; limit?: number } | undefined,
  visible: VisibleImports,
): Promise<Import[]> => sql<Import[]>`
  select ${projection(sql)}
  from imports i
  where i.customer_id = ${customerId}
    and ${isVisible(sql, visible)}
  order by i.id desc
  ${limitAndOffset(sql, paginate)}`;

/** The settings of an import: how its file is read, and what is done with the records. */
export interface ImportSettings extends Pick<Import, 'object' | 'mode' | 'match' | 'format' | 'dry_run'> {
  mapping: Mapping | null;
  ignore_unknown: boolean;
  list_ids: string[];
}

export const settingColumns = (sql: Sql | Transaction) => sql`
  object, mode, match, format, dry_run, mapping, ignore_unknown, list_ids`;

/** An import with the data that its routes need: settings, status and uploaded file. */
export interface ImportState extends ImportSettings {
  id: string;
  status: ImportStatus;
  failed: number;
  /** True if processing starts automatically when the file is complete. */
  is_automatic: boolean;
  /** Id of the latest upload, whose chunks are the file. Null before the first upload starts. */
  upload: string | null;
  file_bytes: number | null;
  layout: object | null;
  /** True if the failed records can no longer be read. They are deleted later (see `import-retention.ts`). */
  is_expired: boolean;
}

/** How long the failed records of an import can be read after the import has ended. */
const readable = '30 days';

const stateColumns = (sql: Sql | Transaction) => sql`
  i.id, i.status, i.failed, i.is_automatic, i.upload, i.file_bytes, i.layout,
  coalesce(i.finished_at <= now() - ${readable}::interval, false) as is_expired,
  ${settingColumns(sql)}`;

/**
 * Returns the settings and the state of an import.
 * @throws DomainError `not_found` if the customer has no such import, or if its kind is not in `visible`
 */
export async function requireImportState(
  sql: Sql | Transaction,
  customerId: string,
  id: string,
  visible: VisibleImports,
): Promise<ImportState> {
  const [found] = await sql<ImportState[]>`
    select ${stateColumns(sql)}
    from imports i
    where i.customer_id = ${customerId}
      and i.id = ${id}
      and ${isVisible(sql, visible)}`;
  if (!found) throw notFound('import');
  return found;
}

/**
 * Locks an import until the transaction ends, and returns its settings and state. Workers cannot write its records
 * until then.
 * @throws DomainError `not_found` if the customer has no such import, or if its kind is not in `visible`
 */
export async function lockImport(
  sql: Transaction,
  customerId: string,
  id: string,
  visible: VisibleImports,
): Promise<ImportState> {
  const [found] = await sql<ImportState[]>`
    select ${stateColumns(sql)}
    from imports i
    where i.customer_id = ${customerId}
      and i.id = ${id}
      and ${isVisible(sql, visible)}
    for no key update`;
  if (!found) throw notFound('import');
  return found;
}

/**
 * Changes the settings of an import. The caller must have locked the import.
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
export async function updateImport(
  sql: Transaction,
  customerId: string,
  { id, ...stored }: ImportState,
  patch: ImportPatch,
): Promise<void> {
  const listIds = patch.list_ids ? await requireLists(sql, customerId, patch.list_ids) : stored.list_ids;
  const { mapping, ignore_unknown: ignoreUnknown, dry_run: dryRun } = { ...stored, ...patch };
  await sql`
    update imports
    set
      mapping = ${mapping ? sql.json(mapping) : null},
      ignore_unknown = ${ignoreUnknown},
      dry_run = ${dryRun},
      list_ids = ${listIds}::uuid[]
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Marks an import whose file is complete as ready, so that workers process it. The caller must have locked the import,
 * and must enqueue a message for the workers in the same transaction.
 */
export async function startImport(sql: Transaction, customerId: string, id: string): Promise<void> {
  await sql`
    update imports
    set status = 'PENDING', served_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
}

/** The final status of an import, with an error text if it failed. */
export type ImportEnding =
  { status: 'COMPLETED' | 'CANCELLED'; error?: undefined } | { status: 'FAILED'; error: string };

/** Sets the final status of an import and deletes its file. The caller must have locked the import. */
export async function endImport(
  sql: Transaction,
  customerId: string,
  id: string,
  { status, error = null as never }: ImportEnding,
): Promise<void> {
  await sql`
    update imports
    set
      status = ${status},
      error = ${error},
      lease = null,
      leased_until = null,
      finished_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
  await deleteFile(sql, customerId, id);
  afterCommit(sql, () => finishedJobs.inc({ type: 'import', status }));
}
