import type { LockedId, Queryable, Transaction } from '../../database/db.ts';
import type { FoundFile } from '../../files/file-probe.ts';

/** Bytes. Only the last chunk of a file can be smaller. */
export const chunkBytes = 1024 * 1024;

export interface StoredFile {
  importId: string;
  upload: string;
  bytes: number;
}

/**
 * Starts an upload, and deletes what earlier ones have stored: they cannot store chunks any more.
 * @returns the id of the upload
 */
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

/** @returns false, with nothing stored, if a newer upload has started or the import accepts no file any more */
export async function insertChunk(
  sql: Transaction,
  customerId: string,
  { importId, upload }: Pick<StoredFile, 'importId' | 'upload'>,
  number: number,
  data: Buffer,
): Promise<boolean> {
  // The import is locked first, so that no piece is stored after another upload has removed the pieces.
  const [locked] = await sql<{ id: LockedId }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and id = ${importId}
      and upload = ${upload}
      and status = 'UPLOADING'
    for share`;
  if (!locked) return false;
  await insertConverted(sql, customerId, { importId: locked.id, upload }, number, data);
  return true;
}

/** The file is complete, and no newer upload has started. */
export async function endUpload(
  sql: Transaction,
  customerId: string,
  { importId, bytes }: { importId: LockedId; bytes: number },
  { format, encoding, hasMark }: FoundFile,
): Promise<void> {
  await sql`
    update imports
    set
      status = 'UPLOADED',
      file_bytes = ${bytes},
      format = case when format = 'auto' then ${format ?? 'auto'} else format end,
      found_encoding = ${encoding ?? null},
      has_mark = ${hasMark}
    where customer_id = ${customerId}
      and id = ${importId}`;
}

/**
 * Deletes an interrupted upload's chunks. Its transactions may still be running, but none of them can store a chunk or
 * complete the file any more. Does nothing if the file is complete, or a newer upload has started.
 * @returns true if this upload is complete
 */
export async function discardUpload(
  sql: Transaction,
  customerId: string,
  { importId, upload }: Pick<StoredFile, 'importId' | 'upload'>,
): Promise<boolean> {
  const { count } = await sql`
    update imports
    set upload = null
    where customer_id = ${customerId}
      and id = ${importId}
      and upload = ${upload}
      and status = 'UPLOADING'`;
  if (count === 1) await deleteFile(sql, customerId, importId);
  const complete = await sql`
    select
    from imports
    where customer_id = ${customerId}
      and id = ${importId}
      and upload = ${upload}
      and file_bytes is not null`;
  return complete.count === 1;
}

export async function deleteUnfinished(
  sql: Transaction,
  customerId: string,
  { importId, upload }: Pick<StoredFile, 'importId' | 'upload'>,
): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}
      and upload <> ${upload}`;
}

export async function insertConverted(
  sql: Transaction,
  customerId: string,
  { importId, upload }: { importId: LockedId; upload: string },
  number: number,
  data: Buffer,
): Promise<void> {
  await sql`
    insert into import_chunks (customer_id, import_id, upload, number, data)
    values (${customerId}, ${importId}, ${upload}, ${number}, ${data})`;
}

/** Replaces a file by the converted one. */
export async function replaceFile(
  sql: Transaction,
  customerId: string,
  { importId, upload, bytes }: StoredFile & { importId: LockedId },
): Promise<void> {
  await sql`
    update imports
    set upload = ${upload}, file_bytes = ${bytes}, is_converted = true
    where customer_id = ${customerId}
      and id = ${importId}`;
  await deleteUnfinished(sql, customerId, { importId, upload });
}

export async function deleteFile(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}`;
}

/**
 * Reads at most to the end of a stored chunk. Returns undefined if the file was deleted, because the import has ended.
 * @param from offset in the file (bytes)
 * @param length at most (bytes)
 */
export async function readPart(
  sql: Queryable,
  customerId: string,
  { importId, upload }: StoredFile,
  { from, length }: { from: number; length: number },
): Promise<Buffer | undefined> {
  const offset = from % chunkBytes;
  const [chunk] = await sql<{ part: Buffer }[]>`
    select substring(data from ${offset + 1}::integer for ${length}::integer) as part
    from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}
      and upload = ${upload}
      and number = ${Math.floor(from / chunkBytes)}`;
  return chunk?.part;
}
