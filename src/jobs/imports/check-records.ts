import { DomainError } from '../../errors.ts';
import type { FileRecord } from '../../files/read-records.ts';
import type { ImportSettings } from '../../queries/imports/imports.ts';
import { lacksRequired } from '../../queries/records/batches.ts';
import { fileCompanies, fileContacts } from '../../schemas/batches.ts';
import { checkItems } from '../../validation/batch-items.ts';

/** Records in one call of `checkItems`, which reports at most 1,000 errors, and 10 per record. */
const checkedAtOnce = 100;

/** Returns for each record the valid request body, or the validation error. */
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
  const kind = object === 'contacts' ? fileContacts : fileCompanies;
  const rules = { kind, operation: mode, match: match ?? 'id', mayBeUnstorable: false } as const;
  const readable = records.flatMap(({ item }) => (item instanceof DomainError ? [] : [item]));
  const checked = (await checkItems(rules, readable)).values();
  return records.map(({ item }) => (item instanceof DomainError ? item : checkNew(checked.next().value!)));

  // An upsert looks for its record first.
  function checkNew(item: object): object | DomainError {
    if (mode !== 'create' || item instanceof DomainError) return item;
    return lacksRequired(kind, item as Record<string, unknown>) ?? item;
  }
}
