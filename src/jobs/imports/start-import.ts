import type { Locked, Transaction } from '../../database/db.ts';
import { conflict, validationFailed, type Fault } from '../../errors.ts';
import { encodingNamed } from '../../files/encodings.ts';
import { importColumn } from '../../files/import-file.ts';
import { restartForReal } from '../../queries/imports/dry-runs.ts';
import {
  createImport,
  endImport,
  lockImport,
  updateImport,
  type ImportState,
  type NewImport,
  type VisibleImports,
  requireFewRunning,
  requireImport,
} from '../../queries/imports/imports.ts';
import type { MatchField } from '../../schemas/batches.ts';
import { maxXlsxRecords } from '../../schemas/files.ts';
import {
  fieldOfMapped,
  importedKinds,
  maxFileRecords,
  type ImportCreate,
  type ImportFormat,
  type ImportObject,
  type ImportPatch,
  type MappedField,
  type Mapping,
} from '../../schemas/imports.ts';
import { finalStatuses, type FinalStatus } from '../../schemas/jobs.ts';
import { pointerTo } from '../../text/json-pointer.ts';
import { enqueueTurn } from '../../queries/records/turns.ts';
import { beginWork } from './receive-file.ts';

/**
 * Creates an import, whose file is uploaded later.
 * @returns its id
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
  return createImport(sql, customerId, { ...withNamedEncoding(given), match: matchOf(given) });
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

/** Validates what depends on the kind of records or on the format. */
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

/** Replaces the label of an encoding by its name. */
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
 * Changes settings between upload and start.
 * @throws DomainError `not_found`; `validation_failed` if a setting is invalid; `conflict` if no file is uploaded yet
 * or the import has started
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
  if (found.is_awaited) throw awaited();
  await updateImport(sql, customerId, found, withNamedEncoding(patch));
}

const awaited = () => conflict('A start of this import waits for an approval: until then it stays as it is');

/**
 * Starts an import that waits, or a completed dry run again, for real.
 * @throws DomainError `not_found`, also of a list; `conflict` if no file is uploaded yet, the import has started and is no dry run whose
 * file is kept, or the customer has too many imports under way
 */
export async function startUploaded(
  sql: Transaction,
  customerId: string,
  { id, visible, isApproved = false }: { id: string; visible: VisibleImports; isApproved?: boolean },
  changes: Pick<ImportPatch, 'dry_run' | 'list_ids'> = {},
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  if (found.is_awaited && !isApproved) throw awaited();
  const isChecked = changes.dry_run === false && found.dry_run && found.status === 'COMPLETED';
  if (!isChecked) requireUploaded(found);
  await updateImport(sql, customerId, found, changes);
  if (isChecked) return startForReal(sql, customerId, found);
  await requireFewRunning(sql, customerId);
  await beginWork(sql, customerId, found.id);
}

/**
 * Returns how many records the start of an import writes. Of a file that was not read yet, it is how many it can have at
 * most.
 * @throws DomainError `not_found`
 */
export async function sizeOfImport(
  sql: Transaction,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
  changes: Pick<ImportPatch, 'dry_run'> = {},
): Promise<{ records: number }> {
  const { dry_run, status, format, file_bytes } = await lockImport(sql, customerId, id, visible);
  if (changes.dry_run ?? dry_run) return { records: 0 };
  const { total } = await requireImport(sql, customerId, id, visible);
  // A record of a text needs a character and a line break; a workbook is compressed.
  const most = format === 'xlsx' ? maxXlsxRecords : Math.min(maxFileRecords, Math.ceil((file_bytes ?? 0) / 2));
  return { records: status === 'COMPLETED' && total !== null ? total : most };
}

async function startForReal(sql: Transaction, customerId: string, { id, is_kept }: Locked<ImportState>): Promise<void> {
  if (!is_kept) throw conflict('The file of this dry run is no longer kept: send it again, with a new import');
  await requireFewRunning(sql, customerId);
  await restartForReal(sql, customerId, id);
  await enqueueTurn(sql, 'import', customerId);
}

/** @throws DomainError `conflict` unless the status is `UPLOADED` */
export function requireUploaded({ status }: Pick<ImportState, 'status'>): void {
  if (status !== 'UPLOADED') throw conflict(`The import is ${status}, not UPLOADED`);
}

/**
 * Records that are already written are kept.
 * @throws DomainError `not_found`; `conflict` if the import has ended
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
