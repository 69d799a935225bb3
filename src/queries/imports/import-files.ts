import type { Sql, Transaction } from '../../database/db.ts';

/** Size of the chunks in which the file of an import is stored (bytes). Only the last chunk can be smaller. */
export const chunkBytes = 1024 * 1024;

/** An uploaded file in the database: its import, the id of its upload, and its size in bytes. */
export interface StoredFile {
  importId: string;
  upload: string;
  bytes: number;
}

/**
 * Starts a new upload of an import's file, and deletes everything that earlier uploads have stored. From then on, an
 * earlier upload cannot store chunks any more. The caller must have locked the import.
 * @returns the id of the new upload
 */
export async function beginUpload(sql: Transaction, customerId: string, importId: string): Promise<string> {
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
 * Stores the next chunk of an import's file.
 * @returns false if the chunk was not stored, because a newer upload has started or the import does not accept files
 *   any more
 */
export async function insertChunk(
  sql: Transaction,
  customerId: string,
  { importId, upload }: Pick<StoredFile, 'importId' | 'upload'>,
  number: number,
  data: Buffer,
): Promise<boolean> {
  // The import is locked first, so that no piece is stored after another upload has removed the pieces.
  const { count } = await sql`
    select
    from imports
    where customer_id = ${customerId}
      and id = ${importId}
      and upload = ${upload}
      and status = 'UPLOADING'
    for share`;
  if (count === 0) return false;
  await sql`
    insert into import_chunks (customer_id, import_id, upload, number, data)
    values (${customerId}, ${importId}, ${upload}, ${number}, ${data})`;
  return true;
}

/**
 * Marks the file of an import as completely uploaded. The caller must have locked the import, and checked that no newer
 * upload has started.
 */
export async function endUpload(
  sql: Transaction,
  customerId: string,
  { importId, bytes }: Pick<StoredFile, 'importId' | 'bytes'>,
): Promise<void> {
  await sql`
    update imports
    set status = 'UPLOADED', file_bytes = ${bytes}
    where customer_id = ${customerId}
      and id = ${importId}`;
}

/**
 * Ends an interrupted upload: deletes its chunks. Its transactions may still be running; from then on, none of them can
 * store a chunk or complete the file. Does nothing if the file is complete, or if a newer upload has started.
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

/** Deletes the stored file of an import. */
export async function deleteFile(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}`;
}

/**
 * Reads a part of an import's file. The part does not extend beyond the end of a stored chunk. Returns undefined if the
 * file was deleted, because the import has ended.
 * @param from offset of the part in the file (bytes)
 * @param length maximum length of the part (bytes)
 */
export async function readPart(
  sql: Sql | Transaction,
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
