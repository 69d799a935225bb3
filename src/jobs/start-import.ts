import type { Transaction } from '../database/db.ts';
import { conflict, validationFailed, type Fault } from '../errors.ts';
import { columnNamed } from '../files/columns.ts';
import {
  createImport,
  endImport,
  lockImport,
  updateImport,
  type ImportState,
  type NewImport,
  type VisibleImports,
} from '../queries/imports.ts';
import type { MatchField } from '../schemas/batches.ts';
import { companyFileFields, contactFileFields, type FileFields } from '../schemas/files.ts';
import {
  importMatches,
  type ImportCreate,
  type ImportObject,
  type ImportPatch,
  type Mapping,
} from '../schemas/imports.ts';
import { finalStatuses, type FinalStatus } from '../schemas/jobs.ts';
import { pointerTo } from '../text/json-pointer.ts';
import { beginWork } from './receive-file.ts';

/** The fields of the records in files, by the kind of records. */
export const fileFields: Record<ImportObject, FileFields> = {
  contacts: contactFileFields,
  companies: companyFileFields,
};

/**
 * Creates an import that waits for its file.
 * @returns its id
 * @throws validation_failed for settings that do not fit together; not_found for an unknown list; conflict
 */
export async function beginImport(
  sql: Transaction,
  customerId: string,
  given: ImportCreate & Pick<NewImport, 'fingerprint'>,
): Promise<string> {
  const faults = [...matchFaults(given), ...settingFaults(given, given)];
  if (faults.length > 0) throw validationFailed(faults);
  return createImport(sql, customerId, { ...given, match: matchOf(given) });
}

const matchOf = ({ mode, match }: ImportCreate): MatchField | null => (mode === 'create' ? null : (match ?? 'id'));

function matchFaults(given: ImportCreate): Fault[] {
  const { object, mode, match } = given;
  if (mode === 'create')
    return match === undefined ? [] : [{ path: '/match', message: 'is not allowed with the mode create' }];
  const allowed = importMatches[object].filter((field) => mode === 'update' || field !== 'id');
  const isAllowed = (allowed as string[]).includes(matchOf(given)!);
  return isAllowed ? [] : [{ path: '/match', message: `must be one of ${allowed.join(', ')}` }];
}

/** Returns the faults of settings that do not fit the kind of records or the format of the file. */
function settingFaults(
  { object, format }: Pick<ImportState, 'object' | 'format'>,
  { mapping, list_ids: listIds }: ImportPatch,
): Fault[] {
  const lists =
    listIds && object === 'companies' ? [{ path: '/list_ids', message: 'is only allowed for contacts' }] : [];
  if (!mapping) return lists;
  if (format === 'ndjson') return [...lists, { path: '/mapping', message: 'is only allowed for CSV files' }];
  return [...lists, ...mappingFaults(object, mapping)];
}

const mappingFaults = (object: ImportObject, mapping: Mapping): Fault[] =>
  Object.entries(mapping)
    .filter(([, field]) => field !== null && !columnNamed(fileFields[object], field))
    .map(([header]) => ({ path: pointerTo(['mapping', header]), message: 'names no field that a file can contain' }));

/**
 * Changes the settings of an import that waits for its start.
 * @throws not_found; validation_failed; conflict if it does not wait for its start
 */
export async function changeImport(
  sql: Transaction,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
  patch: ImportPatch,
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  const faults = settingFaults(found, patch);
  if (faults.length > 0) throw validationFailed(faults);
  requireUploaded(found);
  await updateImport(sql, customerId, found, patch);
}

/**
 * Starts an import that waits for its start.
 * @throws not_found; conflict if it does not wait for its start
 */
export async function startUploaded(
  sql: Transaction,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  requireUploaded(found);
  await beginWork(sql, customerId, found.id);
}

/** @throws conflict if an import does not wait for its start */
export function requireUploaded({ status }: Pick<ImportState, 'status'>): void {
  if (status !== 'UPLOADED') throw conflict(`The import is ${status}, not UPLOADED`);
}

/**
 * Cancels an import. Records that were written stay.
 * @throws not_found; conflict when the import has already ended
 */
export async function cancelImport(
  sql: Transaction,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  if (finalStatuses.includes(found.status as FinalStatus)) throw conflict(`The import is already ${found.status}`);
  await endImport(sql, customerId, found.id, { status: 'CANCELLED' });
}
