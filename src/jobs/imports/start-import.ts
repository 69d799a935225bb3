import type { Transaction } from '../../database/db.ts';
import { conflict, validationFailed, type Fault } from '../../errors.ts';
import { columnNamed } from '../../files/columns.ts';
import { encodingNamed } from '../../files/encodings.ts';
import {
  createImport,
  endImport,
  lockImport,
  updateImport,
  type ImportState,
  type NewImport,
  type VisibleImports,
} from '../../queries/imports/imports.ts';
import type { MatchField } from '../../schemas/batches.ts';
import { companyFileFields, contactFileFields, type FileFields } from '../../schemas/files.ts';
import {
  importMatches,
  type ImportCreate,
  type ImportFormat,
  type ImportObject,
  type ImportPatch,
  type Mapping,
} from '../../schemas/imports.ts';
import { finalStatuses, type FinalStatus } from '../../schemas/jobs.ts';
import { pointerTo } from '../../text/json-pointer.ts';
import { beginWork } from './receive-file.ts';

/** The fields that files can contain. */
export const fileFields: Record<ImportObject, FileFields> = {
  contacts: contactFileFields,
  companies: companyFileFields,
};

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
  const allowed = importMatches[object].filter((field) => mode === 'update' || field !== 'id');
  const isAllowed = (allowed as string[]).includes(matchOf(given)!);
  return isAllowed ? [] : [{ path: '/match', message: `must be one of ${allowed.join(', ')}` }];
}

/** Validates what depends on the kind of records or on the format. */
function settingFaults(
  { object, format }: { object: ImportObject; format?: ImportFormat },
  { mapping, encoding, list_ids: listIds }: ImportPatch,
): Fault[] {
  const others = [
    ...(listIds && object === 'companies' ? [{ path: '/list_ids', message: 'is only allowed for contacts' }] : []),
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
  Object.entries(mapping)
    .filter(([, field]) => field !== null && !columnNamed(fileFields[object], field))
    .map(([header]) => ({ path: pointerTo(['mapping', header]), message: 'names no field that a file can contain' }));

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
  await updateImport(sql, customerId, found, withNamedEncoding(patch));
}

/** @throws DomainError `not_found`; `conflict` if no file is uploaded yet or the import has started */
export async function startUploaded(
  sql: Transaction,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<void> {
  const found = await lockImport(sql, customerId, id, visible);
  requireUploaded(found);
  await beginWork(sql, customerId, found.id);
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
