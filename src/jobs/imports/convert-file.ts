import { randomUUID } from 'node:crypto';
import { deleteUnfinished, insertConverted, replaceFile } from '../../queries/imports/import-files.ts';
import type { LeasedImport } from '../../queries/jobs/leases.ts';
import { underLease } from '../settle.ts';
import type { RunContext } from '../turns.ts';
import { inChunks } from './file-chunks.ts';
import { openSource } from './import-source.ts';

/**
 * Replaces a file that is no UTF-8 text by what is read from it, once: so all workers read the same, from any position.
 * A worker that is stopped leaves the file as it is, and the next one begins again.
 * @returns the import with the converted file; undefined if the worker must stop
 * @throws FileRefused if the file cannot be read
 */
export async function convertFile(
  { db }: RunContext,
  leased: LeasedImport,
  signal: AbortSignal,
): Promise<LeasedImport | undefined> {
  const { customer_id: customerId, id: importId } = leased;
  const source = await openSource(db, customerId, leased);
  if (source.isStored) return leased;
  await underLease(db, leased, (sql) => deleteUnfinished(sql, customerId, { importId, upload: leased.upload }));
  const file = { importId, upload: randomUUID(), bytes: 0 };
  let number = 0;
  for await (const chunk of inChunks(source.partsFrom(0))) {
    if (signal.aborted) return undefined;
    await underLease(db, leased, (sql, { id }) =>
      insertConverted(sql, customerId, { importId: id, upload: file.upload }, number, chunk),
    );
    number += 1;
    file.bytes += chunk.length;
  }
  await underLease(db, leased, (sql, { id }) => replaceFile(sql, customerId, { ...file, importId: id }));
  return { ...leased, upload: file.upload, file_bytes: file.bytes, is_converted: true };
}
