import {
  chunkBytes,
  readChunk,
  beginUpload,
  discardUpload,
  endUpload,
  insertChunk,
} from '../queries/jobs/import-rows.ts';
import type { FileContents, StoredFile } from '../queries/jobs/import-rows.ts';
import type { Requester } from '../access/credentials.ts';
import type { Database, LockedId, Transaction } from '../database/db.ts';
import { conflict, DomainError, validationFailed, type Fault } from '../errors.ts';
import {
  textsOf,
  FileRefused,
  FileProbe,
  encodingNamed,
  gunzipIfPacked,
  importColumn,
  isGzipFault,
} from '../files/encodings.ts';
import type { Content } from '../files/header.ts';
import { openXlsx } from '../files/xlsx.ts';
import { ConcurrencyLimiter } from '../access/concurrency-limiter.ts';
import {
  allImports,
  canStart,
  lockImport,
  requireFewRunning,
  requireFewWaiting,
  startImport,
  createImport,
  endImport,
  allowNotes,
  updateImport,
} from '../queries/jobs/imports.ts';
import type { ImportChanges, ImportSettings, ImportState, ImportRef, NewImport } from '../queries/jobs/imports.ts';
import {
  maxFileBytes,
  maxRunningImports,
  maxXlsxBytes,
  fieldOfMapped,
  importedKinds,
  maxFileRecords,
  type ImportCreate,
  type ImportFormat,
  type ImportObject,
  type ImportPatch,
  type MappedField,
  type Mapping,
} from '../schemas/imports.ts';
import { enqueueTurn } from '../queries/records/turns.ts';
import { beginAgain, createSecondImport } from '../queries/jobs/dry-runs.ts';
import type { MatchField } from '../schemas/batches.ts';
import { maxXlsxRecords } from '../schemas/files.ts';
import { finalStatuses, type FinalStatus } from '../schemas/jobs.ts';
import { pointerTo } from '../text/json.ts';

async function* inChunks(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let chunk = Buffer.allocUnsafe(chunkBytes);
  let filled = 0;
  for await (const piece of pieces)
    for (let from = 0; from < piece.length;) {
      const copied = piece.copy(chunk, filled, from);
      from += copied;
      filled += copied;
      if (filled < chunkBytes) continue;
      yield chunk;
      chunk = Buffer.allocUnsafe(chunkBytes);
      filled = 0;
    }
  if (filled > 0) yield chunk.subarray(0, filled);
}

export const encodingOf = ({ format, encoding, found_encoding: found }: ImportSettings): string =>
  format === 'ndjson' || encoding === 'auto' ? (found ?? 'utf-8') : encoding;

export interface ImportSource {
  content: Content;
  sheets: string[] | null;
}

type SourceRow = ImportSettings & StoredFile;

// Each XLSX file that is being read holds the texts of its cells in memory.
const sheetReads = new ConcurrencyLimiter({ name: 'sheet_reads', limit: 2 });

/**
 * Opens a stored file for a request, and reads it with `read`. XLSX files wait for one of a few slots. Stops if the
 * request is aborted.
 * @throws FileRefused if the file cannot be read in its format
 */
export function readSource<T>(
  db: Database,
  requester: Requester,
  row: SourceRow,
  read: (source: ImportSource) => Promise<T>,
): Promise<T> {
  const openAndRead = () => withSource(db, requester.customerId, row, read, requester.signal);
  return row.format === 'xlsx' ? sheetReads.run(requester, openAndRead) : openAndRead();
}

/**
 * Opens a stored file, reads it with `read`, and closes it.
 * @param signal stops the reading of an XLSX file
 * @throws FileRefused if the file begins with the byte order mark of another encoding
 */
export async function withSource<T>(
  db: Database,
  customerId: string,
  row: SourceRow,
  read: (source: ImportSource) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const source = await openSource(db, customerId, row, signal);
  const { content } = source;
  try {
    return await read(source);
  } finally {
    await ('rows' in content ? content.rows : content.texts).return(undefined);
  }
}

async function openSource(db: Database, customerId: string, row: SourceRow, signal: AbortSignal | undefined) {
  const parts = (from: number) => partsOf(db, customerId, row, from);
  if (row.format === 'xlsx') {
    const { sheets, rows } = await openXlsx(parts, row.file_bytes!, signal);
    return { sheets, content: { rows: rows(row.sheet, row.has_header) } };
  }
  const encoding = encodingOf(row);
  if (row.has_mark && encoding !== row.found_encoding)
    throw new FileRefused(
      `begins with the byte order mark of ${row.found_encoding!.toUpperCase()}, but the import names ${encoding}`,
      undefined,
      'leave `encoding` out',
    );
  return { sheets: null, content: { texts: textsOf(parts(0), encoding) } };
}

/**
 * Yields a stored file in chunks. Holds no database connection while the caller processes a chunk.
 * @param from offset of the first byte
 * @throws DomainError `conflict` if the import ended meanwhile, because its file is then deleted
 */
async function* partsOf(db: Database, customerId: string, file: StoredFile, from: number): AsyncGenerator<Buffer> {
  for (let at = from; at < file.file_bytes!;) {
    const offset = at;
    const chunk = await db.search((sql) => readChunk(sql, customerId, file, offset));
    if (!chunk) throw conflict('The import has ended, and its file is removed');
    const part = chunk.subarray(at % chunkBytes);
    yield part;
    at += part.length;
  }
}

type Upload = Pick<StoredFile, 'id' | 'upload'>;

interface GivenFile extends ImportRef {
  /** Maximum number of records that the import may write without an approval. Default: no limit. */
  mayWrite?: number;
  /** False: the caller who sends the file or starts the import may not create notes. */
  mayNote?: boolean;
}

/**
 * Stores an uploaded file, one transaction per chunk. Then starts the import if its settings say so. Keeps the file if
 * too many imports are running.
 * @param cleaner deletes the chunks of a failed upload; it must work even after the HTTP request was aborted
 * @throws DomainError `payload_too_large`; `not_found`; `conflict` if the import already has a file, has ended, has a
 * newer upload, or cannot start because too many are running
 */
export async function receiveFile(
  { db, cleaner }: { db: Database; cleaner: Database },
  customerId: string,
  given: GivenFile,
  pieces: AsyncIterable<Buffer>,
): Promise<void> {
  const { id, visible, mayWrite = Infinity } = given;
  const upload = await db.transaction(async (sql) => {
    const found = await lockImport(sql, customerId, id, visible);
    requireNoFile(found);
    if (found.is_automatic && (found.dry_run || mayWrite === Infinity)) await requireFewRunning(sql, customerId);
    return { id: found.id, format: found.format, upload: await beginUpload(sql, customerId, found.id) };
  });
  let isWaiting = false;
  try {
    const stored = await storeChunks(db, customerId, upload, pieces);
    isWaiting = await db.transaction((sql) => complete(sql, customerId, { ...upload, ...stored }, given));
  } catch (error) {
    // If this fails too, the next upload or the end of the import removes the chunks.
    const isComplete = await cleaner.transaction((sql) => discardUpload(sql, customerId, upload)).catch(() => false);
    if (!isComplete) throw error; // else the last transaction was committed, and only its answer was lost
  }
  if (isWaiting)
    throw conflict(
      `The file is kept, but the customer has ${maxRunningImports} imports under way: start this one when one has ended`,
    );
}

function requireNoFile({ status }: ImportState): void {
  if (status === 'UPLOADING') return;
  throw conflict(
    status === 'CANCELLED'
      ? 'The import is CANCELLED: it takes no file'
      : `The import has its file, and is ${status}: send another file to a new import`,
  );
}

async function storeChunks(
  db: Database,
  customerId: string,
  upload: Upload & Pick<ImportState, 'format'>,
  pieces: AsyncIterable<Buffer>,
): Promise<FileContents> {
  const probe = new FileProbe(upload.format);
  let bytes = 0;
  let lines = 0;
  let last = lineFeed;
  let number = 0;
  for await (const chunk of inChunks(unpacked(pieces))) {
    probe.add(chunk);
    bytes += chunk.length;
    lines += lineEndsIn(chunk);
    last = chunk.at(-1) ?? last;
    if (bytes > maxFileBytes) throw tooLarge('file', maxFileBytes);
    const isXlsx = upload.format === 'xlsx' || (upload.format === 'auto' && probe.isZip);
    if (isXlsx && bytes > maxXlsxBytes) throw tooLarge('XLSX file', maxXlsxBytes);
    const isStored = await db.transaction((sql) => insertChunk(sql, customerId, upload, number, chunk));
    if (!isStored) throw superseded();
    number += 1;
  }
  return { bytes, lines: lines + (last === lineFeed ? 0 : 1), ...probe.found };
}

async function* unpacked(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* gunzipIfPacked(pieces);
  } catch (error) {
    if (!isGzipFault(error)) throw error;
    throw validationFailed([{ path: '', message: 'the file is not valid gzip' }]);
  }
}

const lineFeed = 10;

/**
 * Returns an upper bound for the number of line breaks, in any encoding. Counts each byte LF, and each byte CR without
 * a following LF.
 */
function lineEndsIn(chunk: Buffer): number {
  let count = 0;
  for (let at = chunk.indexOf(lineFeed); at >= 0; at = chunk.indexOf(lineFeed, at + 1)) count += 1;
  for (let at = chunk.indexOf(13); at >= 0; at = chunk.indexOf(13, at + 1)) if (chunk[at + 1] !== lineFeed) count += 1;
  return count;
}

const tooLarge = (noun: string, bytes: number) =>
  new DomainError('payload_too_large', `The ${noun} is larger than ${bytes / 1024 / 1024} MiB`);

const superseded = () => conflict('Another upload of this file has begun, or the import has ended');

/**
 * Marks the upload as complete. Then starts the import if its settings say so.
 * @returns true if the import should have started, but too many are running
 */
async function complete(
  sql: Transaction,
  customerId: string,
  { upload, ...file }: Upload & FileContents,
  { id, visible, mayWrite = Infinity, mayNote = true }: GivenFile,
): Promise<boolean> {
  const found = await lockImport(sql, customerId, id, visible);
  requireNoFile(found);
  if (found.upload !== upload) throw superseded();
  await endUpload(sql, customerId, found.id, file);
  const stored = await lockImport(sql, customerId, id, visible);
  if (!stored.is_automatic || !(stored.dry_run || maxRecordsOf(stored) <= mayWrite)) return false;
  if (!(await canStart(sql, customerId))) return true;
  await allowNotes(sql, customerId, found.id, mayNote);
  await beginWork(sql, customerId, found.id);
  return false;
}

async function beginWork(sql: Transaction, customerId: string, id: LockedId, isChecked = false): Promise<void> {
  await (isChecked ? beginAgain(sql, customerId, id, 'PENDING') : startImport(sql, customerId, id));
  await enqueueTurn(sql, 'import', customerId);
}

/**
 * Creates an import, whose file is uploaded later. Returns its id.
 * @throws DomainError `validation_failed` if settings contradict each other; `not_found` if a list does not exist;
 * `conflict` if the customer has too many unfinished imports
 */
export async function beginImport(
  sql: Transaction,
  customerId: string,
  given: ImportCreate & Pick<NewImport, 'fingerprint'>,
): Promise<string> {
  const faults = [...matchFaults(given), ...settingFaults(given, given)];
  if (faults.length > 0) throw validationFailed(faults);
  await requireFewWaiting(sql, customerId);
  return createImport(sql, customerId, { ...withNamedEncoding(given), match: matchOf(given) });
}

/**
 * Creates an import and stores its file. Cancels the import if that fails, also because the caller disconnects.
 * @param databases as of `receiveFile`
 */
export async function beginWithFile(
  databases: { db: Database; cleaner: Database },
  customerId: string,
  given: ImportCreate & Pick<NewImport, 'fingerprint'>,
  file: AsyncIterable<Buffer>,
): Promise<string> {
  const { cleaner } = databases;
  // By the cleaner: if the caller hung up, the import would be created, but its id lost.
  const id = await cleaner.transaction((sql) => beginImport(sql, customerId, given));
  const ref = { id, visible: allImports };
  try {
    await receiveFile(databases, customerId, ref, file);
    return id;
  } catch (error) {
    await cleaner.transaction((sql) => cancelImport(sql, customerId, ref)).catch(() => undefined);
    throw error;
  }
}

const matchOf = ({ mode, match }: ImportCreate): MatchField | null => (mode === 'create' ? null : (match ?? 'id'));

function matchFaults(given: ImportCreate): Fault[] {
  const { object, mode, match } = given;
  if (mode === 'create')
    return match === undefined ? [] : [{ path: '/match', message: 'is not allowed with the mode create' }];
  const allowed = importedKinds[object].matches.filter((field) => mode === 'update' || field !== 'id');
  const isAllowed = (allowed as string[]).includes(matchOf(given)!);
  return isAllowed ? [] : [{ path: '/match', message: `must be one of ${allowed.join(', ')}` }];
}

function settingFaults(
  { object, format }: { object: ImportObject; format?: ImportFormat },
  { mapping, encoding, list_ids: listIds }: ImportPatch,
): Fault[] {
  const others = [
    ...(listIds && object !== 'contacts' ? [{ path: '/list_ids', message: 'is only allowed for contacts' }] : []),
    ...(encoding !== undefined && namedEncoding(encoding) === undefined
      ? [{ path: '/encoding', message: 'must be auto or the name of an encoding, such as utf-8 or windows-1252' }]
      : []),
  ];
  if (!mapping) return others;
  if (format === 'ndjson') return [...others, { path: '/mapping', message: 'is only allowed for CSV and XLSX files' }];
  return [...others, ...mappingFaults(object, mapping)];
}

const namedEncoding = (label: string): string | undefined => (label === 'auto' ? label : encodingNamed(label));

const withNamedEncoding = <T extends ImportPatch>(given: T): T =>
  given.encoding === undefined ? given : { ...given, encoding: namedEncoding(given.encoding)! };

const mappingFaults = (object: ImportObject, mapping: Mapping): Fault[] =>
  Object.entries(mapping).flatMap(([header, mapped]) => {
    const message = mappedFault(object, mapped);
    return message === undefined ? [] : [{ path: pointerTo(['mapping', header]), message }];
  });

function mappedFault(object: ImportObject, mapped: MappedField): string | undefined {
  const field = fieldOfMapped(mapped);
  if (field === null) return undefined;
  const column = importColumn(object, field);
  if (!column) return 'names no field that a file can contain';
  return typeof mapped === 'object' && column.type !== 'custom'
    ? 'has a type, which only custom fields have'
    : undefined;
}

/**
 * Changes the settings of an import that has a file and has not started.
 * @throws DomainError `not_found`; `validation_failed` if a setting is invalid; `conflict` if no file was uploaded yet,
 * or the import has started or waits for an approval
 */
export async function changeImport(
  sql: Transaction,
  customerId: string,
  { id, visible }: ImportRef,
  patch: ImportChanges,
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  const faults = settingFaults(found, patch);
  if (faults.length > 0) throw validationFailed(faults);
  requireUploaded(found);
  if (found.is_awaited) throw awaited();
  await updateImport(sql, customerId, found, withNamedEncoding(patch));
}

const awaited = () => conflict('A start of this import waits for an approval: until then it stays as it is');

type StartedImport = ImportRef & {
  isApproved?: boolean;
  mayNote?: boolean;
  /** True if a person has seen what a dry run has found, which must still hold. */
  isSeen?: boolean;
};

/**
 * Starts an import that has a file. With `dry_run: false`, a completed dry run is run again for real.
 * @throws DomainError `not_found`, also for a list; `conflict` if the import has no file, has started, waits for an
 * approval, or too many are running
 */
export async function startUploaded(
  sql: Transaction,
  customerId: string,
  { id, visible, isApproved = false, mayNote = true, isSeen = false }: StartedImport,
  changes: Pick<ImportPatch, 'dry_run' | 'list_ids'> = {},
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  if (found.is_awaited && !isApproved) throw awaited();
  const isChecked = changes.dry_run === false && found.dry_run && found.status === 'COMPLETED';
  if (isSeen && found.status === 'UPLOADED')
    throw conflict('The columns have changed since this check: check the file again');
  if (!isChecked) requireUploaded(found);
  await allowNotes(sql, customerId, found.id, mayNote);
  await updateImport(sql, customerId, found, changes);
  if (isChecked && !found.is_kept) throw conflict(notKept);
  await requireFewRunning(sql, customerId);
  await beginWork(sql, customerId, found.id, isChecked);
}

const notKept = 'The file of this dry run is no longer kept: send it again, with a new import';

/**
 * Lets an import that was checked wait for its start again, so that its settings can change. Does nothing if it waits
 * already.
 * @throws DomainError `not_found`; `conflict` if it was not checked, its file is no longer kept, a start waits for an
 * approval, or too many imports wait
 */
export async function reopenChecked(sql: Transaction, customerId: string, { id, visible }: ImportRef): Promise<void> {
  const found = await lockAndRead(sql, customerId, id, visible);
  if (found.status === 'UPLOADED') return;
  if (found.is_awaited) throw awaited();
  // Read in another way, the same people could be created once more.
  if (found.second) throw conflict('Records of this check were created as new already: upload the file again');
  if (!found.dry_run || found.status !== 'COMPLETED') throw conflict('Only a checked import can change its columns');
  // An earlier release has kept only the records.
  const isThere = found.file_bytes === 0 || (await readChunk(sql, customerId, found, 0));
  if (!found.is_kept || !isThere) throw conflict(notKept);
  await requireFewWaiting(sql, customerId);
  await beginAgain(sql, customerId, found.id, 'UPLOADED');
}

/** Locks an import, then reads it: another caller may have created its second import while this one waited. */
async function lockAndRead(...given: Parameters<typeof lockImport>) {
  await lockImport(...given);
  return lockImport(...given);
}

/**
 * Starts an import that creates the records which an ended one has left out because they lack the field by which it finds
 * stored ones. Returns its id, or that of an earlier one.
 * @param name name of the new import
 * @param choose returns the lists for new contacts
 * @throws DomainError `not_found`; `conflict` if there are no such records any more, or too many imports are running
 */
export async function createLacking(
  sql: Transaction,
  customerId: string,
  { id, visible, name }: ImportRef & { name: string },
  choose: () => Promise<string[]>,
): Promise<string> {
  const found = await lockAndRead(sql, customerId, id, visible);
  if (found.second) return found.second.id;
  await requireFewRunning(sql, customerId);
  const given = { ...found, name, list_ids: await choose() };
  const isThere = found.status === 'COMPLETED' && found.mode === 'upsert' && !found.is_expired;
  const second = isThere ? await createSecondImport(sql, customerId, given) : undefined;
  if (!second) throw conflict('These records are no longer kept: upload them again');
  await enqueueTurn(sql, 'import', customerId);
  return second;
}

/**
 * Returns the number of records that an import writes when it starts: 0 for a dry run. If its file was not read yet,
 * returns the maximum.
 * @throws DomainError `not_found`
 */
export async function sizeOfImport(
  sql: Transaction,
  customerId: string,
  { id, visible }: ImportRef,
  changes: Pick<ImportPatch, 'dry_run'> = {},
): Promise<{ records: number }> {
  const found = await lockImport(sql, customerId, id, visible);
  if (changes.dry_run ?? found.dry_run) return { records: 0 };
  return { records: found.status === 'COMPLETED' && found.total !== null ? found.total : maxRecordsOf(found) };
}

function maxRecordsOf({ format, line_count, file_bytes, has_header }: ImportState): number {
  if (format === 'xlsx') return maxXlsxRecords;
  // Files of earlier releases: a record of a text needs a character and a line break.
  const lines = line_count ?? Math.ceil((file_bytes ?? 0) / 2);
  return Math.min(maxFileRecords, Math.max(0, format === 'csv' && has_header ? lines - 1 : lines));
}

export function requireUploaded({ status }: Pick<ImportState, 'status'>): void {
  if (status === 'UPLOADING') throw conflict('The import has no file yet: send it first');
  if (status !== 'UPLOADED') throw conflict('The import has been started or cancelled: this is possible only before');
}

/**
 * Cancels an import. Keeps the records that it has already written.
 * @throws DomainError `not_found`; `conflict` if the import has ended
 */
export async function cancelImport(sql: Transaction, customerId: string, { id, visible }: ImportRef): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  if (finalStatuses.includes(found.status as FinalStatus)) throw conflict(`The import is already ${found.status}`);
  await endImport(sql, customerId, found.id, { status: 'CANCELLED' });
}
