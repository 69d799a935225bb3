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
  await sql`
    insert into import_chunks (customer_id, import_id, upload, number, data)
    values (${customerId}, ${locked.id}, ${upload}, ${number}, ${data})`;
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

export async function deleteFile(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}`;
}

/**
 * Returns the chunk of a file that has the byte at an offset. Undefined if the file was deleted, because the import has
 * ended or its records are read.
 */
export async function readChunk(
  sql: Queryable,
  customerId: string,
  { importId, upload }: StoredFile,
  offset: number,
): Promise<Buffer | undefined> {
  const [chunk] = await sql<{ data: Buffer }[]>`
    select data
    from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}
      and upload = ${upload}
      and number = ${Math.floor(offset / chunkBytes)}`;
  return chunk?.data;
}
