import { createHash } from 'node:crypto';
import type { LockedId, Queryable, Sql, Transaction } from '../../database/db.ts';
import type { FoundFile } from '../../files/encodings.ts';
import type { ImportObject, Mapping } from '../../schemas/imports.ts';
import { approvalHours } from '../../schemas/accounts.ts';

export const chunkBytes = 1024 * 1024;

export interface StoredFile {
  id: string;
  /** Id of the latest upload, whose chunks are the file. Null before the first upload starts. */
  upload: string | null;
  file_bytes: number | null;
}

export async function beginUpload(sql: Transaction, customerId: string, importId: LockedId): Promise<string> {
  const [row] = await sql<[{ upload: string }]>`
    update imports
    set upload = (select gen_random_uuid())
    where customer_id = ${customerId}
      and id = ${importId}
    returning upload`;
  await deleteFile(sql, customerId, importId);
  return row.upload;
}

/**
 * Stores a chunk of a file.
 * @returns false if a newer upload has started, or the import no longer accepts a file
 */
export async function insertChunk(
  sql: Transaction,
  customerId: string,
  { id, upload }: Pick<StoredFile, 'id' | 'upload'>,
  number: number,
  data: Buffer,
): Promise<boolean> {
  // The import is locked first, so that no piece is stored after another upload has removed the pieces.
  const [locked] = await sql<{ id: LockedId }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and id = ${id}
      and upload = ${upload}
      and status = 'UPLOADING'
    for share`;
  if (!locked) return false;
  await sql`
    insert into import_chunks (customer_id, import_id, upload, number, data)
    values (${customerId}, ${locked.id}, ${upload}, ${number}, ${data})`;
  return true;
}

export interface FileContents extends FoundFile {
  bytes: number;
  /** Number of lines of the file, at least its number of line breaks. */
  lines: number;
}

/** Marks the file as complete. The caller has locked the import, and has checked that no newer upload has started. */
export async function endUpload(
  sql: Transaction,
  customerId: string,
  importId: LockedId,
  { bytes, lines, format, encoding, hasMark }: FileContents,
): Promise<void> {
  await sql`
    update imports
    set
      status = 'UPLOADED',
      file_bytes = ${bytes},
      line_count = ${format === 'xlsx' ? null : lines},
      format = case when format = 'auto' then ${format ?? 'auto'} else format end,
      found_encoding = ${encoding ?? null},
      has_mark = ${hasMark}
    where customer_id = ${customerId}
      and id = ${importId}`;
}

/**
 * Deletes the chunks of an interrupted upload, and prevents that more are stored. Does nothing if the file is complete,
 * or a newer upload has started.
 * @returns true if this upload is complete
 */
export async function discardUpload(
  sql: Transaction,
  customerId: string,
  { id, upload }: Pick<StoredFile, 'id' | 'upload'>,
): Promise<boolean> {
  const { count } = await sql`
    update imports
    set upload = null
    where customer_id = ${customerId}
      and id = ${id}
      and upload = ${upload}
      and status = 'UPLOADING'`;
  if (count === 1) await deleteFile(sql, customerId, id);
  const complete = await sql`
    select
    from imports
    where customer_id = ${customerId}
      and id = ${id}
      and upload = ${upload}
      and file_bytes is not null`;
  return complete.count === 1;
}

export async function deleteFile(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}`;
}

export async function readChunk(
  sql: Queryable,
  customerId: string,
  { id, upload }: Pick<StoredFile, 'id' | 'upload'>,
  offset: number,
): Promise<Buffer | undefined> {
  const [chunk] = await sql<{ data: Buffer }[]>`
    select data
    from import_chunks
    where customer_id = ${customerId}
      and import_id = ${id}
      and upload = ${upload}
      and number = ${Math.floor(offset / chunkBytes)}`;
  return chunk?.data;
}

export interface ImportRecord {
  line: number;
  cells: string;
  error: string | null;
  warning: string | null;
}

/**
 * Stores records of a file. Records that are already stored keep their errors and warnings.
 * @param records records with cells in the format of `toStored`
 */
export async function insertRows(
  sql: Transaction,
  customerId: string,
  importId: LockedId,
  records: readonly Pick<ImportRecord, 'line' | 'cells'>[],
): Promise<void> {
  const cells = records.map((record) => record.cells).join('\n'); // JSON has no line breaks of its own
  await sql`
    insert into import_rows (customer_id, import_id, line, cells)
    select ${customerId}, ${importId}, line, cells::json
    from unnest(${records.map(({ line }) => line)}::integer[], string_to_array(${cells}, E'\\n')) as given (line, cells)
    on conflict (customer_id, import_id, line) do update set cells = excluded.cells`;
}

/** Maximum total size of the records that `readRows` returns (bytes). A single record can be larger. */
const maxBytes = 4 * 1024 * 1024;

/**
 * Returns the pattern of errors of records that were left out only because they lack the field by which their import
 * finds stored ones, or because its value is invalid, such as `work_email: "x" is not an e-mail address`.
 */
export const lackingPattern = (field: string): string => String.raw`^${field}: (is missing|"([^"\\]|\\.)*" is [^;"]*)$`;

export const isLacking = (sql: Queryable, field: string) => sql`and error ~ ${lackingPattern(field)}`;

/**
 * Returns the next records in the order of the file.
 * @param part `after`: line after which to begin; `limit`: maximum number of records; `isFailed`: only those with an
 *   error or a warning
 */
export const readRows = (
  sql: Queryable,
  customerId: string,
  importId: string,
  {
    after,
    limit,
    isFailed = false,
    bytes = maxBytes,
  }: { after: number; limit: number; isFailed?: boolean; bytes?: number },
): Promise<ImportRecord[]> => sql`
  select line, cells, error, warning
  from (
    select line, cells, error, warning, sum(octet_length(cells)) over (order by line) - octet_length(cells) as before
    from (
      select line, cells::text as cells, error, warning
      from import_rows
      where customer_id = ${customerId}
        and import_id = ${importId}
        and line > ${after}
        ${isFailed ? sql`and (error is not null or warning is not null)` : sql``}
      order by line
      limit ${limit}
    ) next
  ) measured
  where before < ${bytes}
  order by line`;

/**
 * Error or warning of a record. In a dry run, `match` is the value by which the record finds a stored record, and `isNew`
 * tells that none is stored.
 */
interface RowNotes {
  line: number;
  error?: string | undefined;
  warning?: string | undefined;
  match?: string | undefined;
  isNew?: boolean;
}

export async function saveNotes(sql: Transaction, customerId: string, importId: LockedId, notes: readonly RowNotes[]) {
  if (notes.length === 0) return;
  await sql`
    update import_rows r
    set error = given.error, warning = given.warning, match_hash = (hashtextextended(given.match, 0) | 1) - given.is_found
    from unnest(
      ${notes.map(({ line }) => line)}::integer[],
      ${notes.map(({ error }) => error ?? null)}::text[],
      ${notes.map(({ warning }) => warning ?? null)}::text[],
      ${notes.map(({ match }) => match ?? null)}::text[],
      ${notes.map(({ isNew }) => (isNew ? 0 : 1))}::integer[]
    ) as given (line, error, warning, match, is_found)
    where r.customer_id = ${customerId}
      and r.import_id = ${importId}
      and r.line = given.line`;
}

/** Maximum number of records that one statement deletes. More could exceed the statement timeout. */
export const maxDeleted = 100_000;

/**
 * Deletes the first records of an import.
 * @param part `after`, `upTo`: only records after one line, up to another; `isDone`: only records without an error or a
 *   warning; `limit`: maximum number of records
 * @returns the number of deleted records
 */
export async function deleteRows(
  sql: Transaction,
  customerId: string,
  importId: string,
  {
    after = 0,
    upTo = lastLine,
    isDone = false,
    limit = maxDeleted,
  }: { after?: number; upTo?: number; isDone?: boolean; limit?: number } = {},
): Promise<number> {
  const chosen = sql`
    from import_rows
    where customer_id = ${customerId}
      and import_id = ${importId}
      and line > ${after}
      and line <= ${upTo}
      ${isDone ? sql`and error is null and warning is null` : sql``}`;
  const { count } = await sql`
    delete ${chosen}
      and line <= coalesce((select line ${chosen} order by line offset ${limit - 1} limit 1), ${lastLine})`;
  return count;
}

const lastLine = 2_147_483_647;

/**
 * Deletes the file and the records of an ended import, except those with an error or a warning. Deletes at most
 * `maxDeleted` records.
 * @returns true if some are left, which are deleted later
 */
export async function dropRows(sql: Transaction, customerId: string, id: LockedId): Promise<boolean> {
  await deleteFile(sql, customerId, id);
  const isMore = (await deleteRows(sql, customerId, id, { isDone: true })) === maxDeleted;
  await sql`
    update imports
    set rows_kept_until = ${isMore ? sql`(select clock_timestamp())` : null}
    where customer_id = ${customerId}
      and id = ${id}`;
  return isMore;
}

const repeatedRows = (sql: Queryable, customerId: string, importId: string) => sql`
  from import_rows
  where customer_id = ${customerId}
    and import_id = ${importId}
    and match_hash is not null
  group by match_hash | 1 -- the last bit tells that no record is stored
  having count(*) > 1`;

export async function countRepeated(sql: Transaction, customerId: string, importId: string): Promise<number> {
  const [row] = await sql<[{ repeated: number }]>`
    select count(*) as repeated
    from (select match_hash | 1 ${repeatedRows(sql, customerId, importId)}) values`;
  return row.repeated;
}

/**
 * Returns the lines of the records of a dry run that find the same stored record: the first lines of the first groups.
 * `surplus` is the number of records to create that come after the first one of their group.
 */
export async function findRepeated(sql: Sql, customerId: string, importId: string) {
  const rows = await sql<{ lines: number[]; surplus: number }[]>`
    select
      (array_agg(line order by line))[:10] as lines,
      (sum(greatest(count(*) filter (where error is null and match_hash & 1 = 1) - 1, 0)) over ())::integer as surplus
    ${repeatedRows(sql, customerId, importId)}
    order by min(line)
    limit 10`;
  return { groups: rows.map(({ lines }) => lines), surplus: rows[0]?.surplus ?? 0 };
}

/** Returns the number of records that were left out because they lack this field, at most one more than `maxDeleted`. */
export async function countLacking(sql: Sql, customerId: string, importId: string, field: string): Promise<number> {
  const [row] = await sql<[{ rows: number }]>`
    select count(*)::integer as rows
    from (
      select 1
      from import_rows
      where customer_id = ${customerId}
        and import_id = ${importId}
        ${isLacking(sql, field)}
      limit ${maxDeleted + 1}
    ) counted`;
  return row.rows;
}

export async function clearMessages(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    update import_rows
    set error = null, warning = null
    where customer_id = ${customerId}
      and import_id = ${importId}
      and (error is not null or warning is not null)`;
}

const maxRemembered = 100;

function hashOf(headers: readonly string[]): Buffer {
  const named = new Set(headers.filter((header) => header !== '' && !header.startsWith('_')));
  return createHash('sha256')
    .update(JSON.stringify([...named].toSorted()))
    .digest();
}

export interface SeenMapping {
  headers: string;
  mapping: Mapping | null;
}

/**
 * Returns the known mapping for a file with these headers: from the import's preview, or else from the customer's last
 * import with these headers.
 */
export async function findRememberedMapping(
  sql: Queryable,
  customerId: string,
  { object, remembered: seen }: { object: ImportObject; remembered: SeenMapping | null },
  headers: readonly string[],
): Promise<Mapping | undefined> {
  if (seen?.headers === hashOf(headers).toString('hex')) return seen.mapping ?? undefined;
  const [found] = await sql<{ mapping: Mapping }[]>`
    select mapping
    from import_mappings
    where customer_id = ${customerId}
      and object = ${object}
      and headers = ${hashOf(headers)}`;
  return found?.mapping;
}

export async function keepRememberedMapping(
  sql: Transaction,
  customerId: string,
  id: string,
  headers: readonly string[],
): Promise<Mapping | undefined> {
  const [found] = await sql<{ object: ImportObject; remembered: SeenMapping | null }[]>`
    select object, remembered
    from imports
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  if (!found) return undefined;
  const mapping = await findRememberedMapping(sql, customerId, found, headers);
  const seen = { headers: hashOf(headers).toString('hex'), mapping: mapping ?? null };
  if (found.remembered?.headers !== seen.headers)
    await sql`
      update imports
      set remembered = ${sql.json(seen)}
      where customer_id = ${customerId}
        and id = ${id}`;
  return mapping;
}

/** SQL/JSON path that finds the columns that a mapping assigns to notes. */
export const namesNotes = '$.* ? (@ == "note" || @.field == "note")';

/**
 * Stores how an import has mapped its columns. An import that may not create notes does not replace a mapping with
 * notes.
 */
export async function rememberMapping(
  sql: Transaction,
  customerId: string,
  { object, takesNotes = false }: { object: ImportObject; takesNotes?: boolean },
  { headers, mapping }: { headers: readonly string[]; mapping: Mapping },
): Promise<void> {
  await sql`
    insert into import_mappings (customer_id, object, headers, mapping, used_at)
    values (${customerId}, ${object}, ${hashOf(headers)}, ${sql.json(mapping)}, now())
    on conflict (customer_id, object, headers) do update
    set
      mapping = case
        when ${takesNotes} or not jsonb_path_exists(import_mappings.mapping, ${namesNotes}::jsonpath) then excluded.mapping
        else import_mappings.mapping
      end,
      used_at = excluded.used_at`;
  // Skips rows that another transaction is using: to wait for them could be a deadlock.
  await sql`
    delete from import_mappings
    where customer_id = ${customerId}
      and (object, headers) in (
        select object, headers
        from import_mappings
        where customer_id = ${customerId}
        order by used_at desc
        offset ${maxRemembered}
        for update skip locked
      )`;
}

export const isWaiting = (sql: Queryable) => sql`
  (approvals.status = 'pending' and approvals.created_at >= now() - make_interval(hours => ${approvalHours}::int))`;

/**
 * Returns the SQL condition that the start of an import waits for an admin's approval, or got it in the last minute.
 * @param imports table or alias of the import
 * @param customerId customer of the statement; undefined in a statement about all customers
 */
export const isAwaited = (sql: Queryable, imports = sql`imports`, customerId?: string) => sql`
  exists (
    select 1
    from approvals
    where approvals.customer_id = ${customerId ? sql`${customerId}::uuid` : sql`${imports}.customer_id`}
      and (${isWaiting(sql)} or approvals.status = 'approved' and approvals.decided_at > now() - interval '1 minute')
      and replace(lower(approvals.url), '%2d', '-') like '/api/ext/imports/' || ${imports}.id || '/start%'
  )`;
