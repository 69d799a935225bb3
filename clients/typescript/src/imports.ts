import type { SalesData, WaitOptions } from './client.ts';
import { ConflictError, ImportFailedError } from './errors.ts';
import type { Result, Schemas } from './types.ts';

type Import = Result<'getImport'>;

/** What is imported and how, and settings for waiting until the import has ended. */
export type ImportOptions = Omit<Schemas['ImportCreate'], 'object' | 'start'> &
  WaitOptions<Import> & {
    /** Whether the file is packed with gzip. */
    isGzip?: boolean;
    /** Identifies the import, so that it is made once, even if the program is started again. Default: a new one. */
    idempotencyKey?: string;
  };

/** A record that was not written (`error`), or was written without a value (`warning`). */
export type ImportFailure = Omit<Schemas['ImportFailure'], 'record'> & {
  /** The cells by header; of an NDJSON file the line. */
  record: Record<string, string> | string;
};

/** The numbers of an import that has ended. */
export type ImportResult = Import & {
  /** Reads the records that failed or have warnings, in the order of the file. */
  failures(): AsyncGenerator<ImportFailure, void, undefined>;
};

/** Sends a file to be imported, and waits until the import is COMPLETED. */
export async function importFile(
  api: SalesData,
  object: Schemas['ImportCreate']['object'],
  file: BodyInit,
  { signal, timeoutMs, onProgress, isGzip = false, idempotencyKey, ...settings }: ImportOptions,
): Promise<ImportResult> {
  const call = signal ? { signal } : {};
  const keyed = idempotencyKey === undefined ? call : { ...call, idempotencyKey };
  const { data } = await api.createImport({ body: { ...settings, object } }, keyed);
  const sent = await api.uploadImportFile({ id: data.id, body: file, isGzip }, call).catch(async (error: unknown) => {
    // An earlier attempt, or an earlier run of the program, may have sent the file.
    const found = error instanceof ConflictError ? await api.getImport({ id: data.id }) : undefined;
    if (found && found.status !== 'UPLOADING') return found;
    // With a key of the caller, the same call can send the file again.
    if (idempotencyKey === undefined) await api.cancelImport({ id: data.id }).catch(() => undefined);
    throw error;
  });
  // A file with more lines than the key may write does not start by itself.
  if (sent.status === 'UPLOADED') await api.startImport({ id: data.id }, call);
  const waiting = { ...call, ...(timeoutMs === undefined ? {} : { timeoutMs }), ...(onProgress ? { onProgress } : {}) };
  const state = await api.waitForImport(data.id, waiting);
  if (state.status !== 'COMPLETED') throw new ImportFailedError(state);
  return {
    ...state,
    failures: () => api.each('listImportFailures', { id: state.id }) as AsyncGenerator<ImportFailure>,
  };
}
