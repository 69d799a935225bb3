import type { Sql, Transaction } from '../database/db.ts';

/** Size of the pieces in which the file of an import is stored (bytes). Only the last piece can be smaller. */
export const chunkBytes = 1024 * 1024;

/** A file in the database: the upload that stored it, and its size. */
export interface StoredFile {
  importId: string;
  upload: string;
  bytes: number;
}

/**
 * Begins an upload of an import's file, and removes what an earlier upload has stored. That one can store nothing more.
 * The caller has locked the import.
 * @returns the id of the upload
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
 * Stores the next piece of an import's file.
 * @returns false if the import takes no more from this upload: a later upload has begun, or the import has ended
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

/** Notes that the file of an import is complete. The caller has locked the import, and this is its latest upload. */
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

/** Removes what a broken upload has stored. */
export async function deleteUpload(
  sql: Transaction,
  customerId: string,
  { importId, upload }: Pick<StoredFile, 'importId' | 'upload'>,
): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}
      and upload = ${upload}`;
}

/** Removes the stored file of an import. */
export async function deleteFile(sql: Transaction, customerId: string, importId: string): Promise<void> {
  await sql`
    delete from import_chunks
    where customer_id = ${customerId}
      and import_id = ${importId}`;
}

/**
 * Reads a part of an import's file, up to the end of the stored piece that it starts in. Returns undefined if the file is
 * removed, because the import has ended.
 * @param from where it starts in the file (bytes)
 * @param length its maximum length (bytes)
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
