import { DomainError } from '../errors.ts';
import type { FileRecord } from '../files/read-records.ts';
import type { ImportSettings } from '../queries/imports.ts';
import { companyBatches, contactBatches } from '../schemas/batches.ts';
import { checkItems } from '../validation/batch-items.ts';

/** Maximum number of records whose faults are listed together; each record has up to 10 of at most 1,000 listed faults. */
const checkedAtOnce = 100;

/**
 * Validates the records of an import's file.
 * @returns for each record its item, as a batch takes it, or the error that it fails with
 */
export async function checkRecords(
  settings: ImportSettings,
  records: readonly FileRecord[],
): Promise<(object | DomainError)[]> {
  const checked: (object | DomainError)[] = [];
  for (let from = 0; from < records.length; from += checkedAtOnce)
    checked.push(...(await itemsOf(settings, records.slice(from, from + checkedAtOnce))));
  return checked;
}

async function itemsOf(settings: ImportSettings, records: readonly FileRecord[]): Promise<(object | DomainError)[]> {
  const { object, mode, match } = settings;
  const kind = object === 'contacts' ? contactBatches : companyBatches;
  const rules = { kind, operation: mode, match: match ?? 'id', mayBeUnstorable: false } as const;
  const added = mode === 'create' ? Object.fromEntries(optionalOf(settings).map((name) => [name, []])) : {};
  const readable = records.flatMap(({ item }) => (item instanceof DomainError ? [] : [{ ...added, ...item }]));
  const checked = (await checkItems(rules, readable)).values();
  return records.map(({ item }) => (item instanceof DomainError ? item : checked.next().value!));
}

/** Returns the arrays that a record may lack although creating it requires them: they have no good form in a CSV cell. */
export const optionalOf = ({ object, format }: Pick<ImportSettings, 'object' | 'format'>): string[] =>
  object === 'contacts' && format === 'csv' ? ['phone_numbers'] : [];
