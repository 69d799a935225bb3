import type { Database, LockedId, Transaction } from '../../database/db.ts';
import { conflict, DomainError } from '../../errors.ts';
import { FileProbe, type FoundFile } from '../../files/file-probe.ts';
import {
  beginUpload,
  discardUpload,
  endUpload,
  insertChunk,
  type StoredFile,
} from '../../queries/imports/import-files.ts';
import {
  canStart,
  lockImport,
  requireFewRunning,
  startImport,
  type ImportState,
  type VisibleImports,
} from '../../queries/imports/imports.ts';
import { maxFileBytes, maxRunningImports, maxXlsxBytes } from '../../schemas/imports.ts';
import { enqueueTurn } from '../../queries/records/turns.ts';
import { inChunks } from './file-chunks.ts';

type Upload = Pick<StoredFile, 'importId' | 'upload'>;

/**
 * Stores an uploaded file, one transaction for each chunk. Then starts the import if its settings say so.
 * @param options `startsReal`: false if only a dry run may start
 * @param cleaner deletes the chunks of a failed upload. It must still work after the HTTP request was aborted
 * @throws DomainError `payload_too_large`; `not_found`; `conflict` if the import already has a file or has ended, if
 * another upload has started, or if the import shall start and too many are under way. If these began during the upload,
 * the file is kept.
 */
export async function receiveFile(
  { db, cleaner }: { db: Database; cleaner: Database },
  customerId: string,
  { id, visible, startsReal = true }: { id: string; visible: VisibleImports; startsReal?: boolean },
  pieces: AsyncIterable<Buffer>,
): Promise<void> {
  const mayStart = ({ is_automatic, dry_run }: ImportState): boolean => is_automatic && (startsReal || dry_run);
  const upload = await db.transaction(async (sql) => {
    const found = await lockImport(sql, customerId, id, visible);
    requireNoFile(found);
    if (mayStart(found)) await requireFewRunning(sql, customerId);
    return { importId: found.id, format: found.format, upload: await beginUpload(sql, customerId, found.id) };
  });
  let isWaiting = false;
  try {
    const stored = await storeChunks(db, customerId, upload, pieces);
    isWaiting = await db.transaction((sql) => complete(sql, customerId, upload, { ...stored, visible, mayStart }));
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
    status === 'CANCELLED' ? 'The import is CANCELLED: it takes no file' : `The import has its file: it is ${status}`,
  );
}

/** @returns the size of the file (bytes), and what its bytes show */
async function storeChunks(
  db: Database,
  customerId: string,
  upload: Upload & Pick<ImportState, 'format'>,
  pieces: AsyncIterable<Buffer>,
): Promise<{ bytes: number; found: FoundFile }> {
  const probe = new FileProbe(upload.format);
  let bytes = 0;
  let number = 0;
  for await (const chunk of inChunks(pieces)) {
    probe.add(chunk);
    bytes += chunk.length;
    if (bytes > maxFileBytes) throw tooLarge('file', maxFileBytes);
    const isXlsx = upload.format === 'xlsx' || (upload.format === 'auto' && probe.isZip);
    if (isXlsx && bytes > maxXlsxBytes) throw tooLarge('XLSX file', maxXlsxBytes);
    const isStored = await db.transaction((sql) => insertChunk(sql, customerId, upload, number, chunk));
    if (!isStored) throw superseded();
    number += 1;
  }
  return { bytes, found: probe.found };
}

const tooLarge = (noun: string, bytes: number) =>
  new DomainError('payload_too_large', `The ${noun} is larger than ${bytes / 1024 / 1024} MiB`);

const superseded = () => conflict('Another upload of this file has begun, or the import has ended');

/**
 * Marks the upload as complete. Then starts the import if its settings say so.
 * @returns whether the import should have started, but too many are under way
 */
async function complete(
  sql: Transaction,
  customerId: string,
  { importId, upload }: Upload,
  {
    bytes,
    found: file,
    visible,
    mayStart,
  }: { bytes: number; found: FoundFile; visible: VisibleImports; mayStart: (found: ImportState) => boolean },
): Promise<boolean> {
  const found = await lockImport(sql, customerId, importId, visible);
  requireNoFile(found);
  if (found.upload !== upload) throw superseded();
  await endUpload(sql, customerId, { importId: found.id, bytes }, file);
  if (!mayStart(found)) return false;
  if (!(await canStart(sql, customerId))) return true;
  await beginWork(sql, customerId, found.id);
  return false;
}

export async function beginWork(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await startImport(sql, customerId, id);
  await enqueueTurn(sql, 'import', customerId);
}
