import { DomainError, validationFailed, type Fault } from '../../errors.ts';
import { invalidValuesOf } from '../../files/import-file.ts';
import type { FileRecord } from '../../files/read-records.ts';
import { removeValue } from '../../files/records.ts';
import type { ImportSettings } from '../../queries/imports/imports.ts';
import { declaredFaults, type Declared } from '../../queries/records/custom-fields.ts';
import { lacksRequired } from '../../queries/records/batches.ts';
import { batchItem, type BatchKind } from '../../schemas/batches.ts';
import { importedKinds } from '../../schemas/imports.ts';
import { tokensOf } from '../../text/json-pointer.ts';
import { checkItems, type ItemRules } from '../../validation/batch-items.ts';
import { importFileOf } from './import-source.ts';
import { plainFault, withValue } from './plain-faults.ts';

/** Records in one call of `checkItems`, which reports at most 1,000 errors, and 10 per record. */
const checkedAtOnce = 100;

/**
 * Validates the items of records. If the import's settings say so, leaves out values that are not valid, and adds them to
 * the warnings of the record.
 * @returns for each record the valid request body, or the validation error
 */
export async function checkRecords(
  settings: ImportSettings,
  records: readonly FileRecord[],
): Promise<(object | DomainError)[]> {
  const checked: (object | DomainError)[] = [];
  for (let from = 0; from < records.length; from += checkedAtOnce)
    checked.push(...(await checkSome(settings, records.slice(from, from + checkedAtOnce))));
  return checked;
}

/** A value that is left out can make another one wrong, such as the industry of a company without a name. */
const maxAttempts = 4;

async function checkSome(settings: ImportSettings, records: readonly FileRecord[]): Promise<(object | DomainError)[]> {
  const { object, mode, match } = settings;
  const kind = importedKinds[object];
  const rules: ItemRules = { kind, operation: mode, match: match ?? 'id', mayBeUnstorable: false };
  const skips = invalidValuesOf(importFileOf(settings)) === 'skip';
  const checked = records.map(({ item }) => item);
  // Without leaving values out, a stored record decides: what it has already stays, whatever was declared since.
  const isJudgedLater = !skips && mode !== 'create';
  const declared = new Map(isJudgedLater ? [] : settings.declared?.map((field) => [field.key, field]));
  let open = [...checked.keys()].filter((i) => !(checked[i] instanceof DomainError));
  for (let attempt = 1; open.length > 0; attempt += 1) {
    const valid = await checkItems(
      rules,
      open.map((i) => checked[i]),
    );
    const results = valid.map((item) => checkDeclared(declared, item));
    const wrong = open.filter((_, at) => results[at] instanceof DomainError);
    const errors = results.filter((result) => result instanceof DomainError);
    open = wrong.filter((i, at) => {
      const item = checked[i]!;
      const schema = batchItem(kind, mode, rules.match);
      const faults = errors[at]!.faults.map((fault) => plainFault(schema, item, fault));
      const isLeftOut = skips && attempt < maxAttempts && leaveOut(item, faults, rules);
      if (isLeftOut) records[i]!.warnings.push(...faults);
      else checked[i] = faults.length > 0 ? validationFailed(faults) : errors[at]!;
      return isLeftOut;
    });
  }
  return mode === 'create' ? checked.map((item) => checkNew(kind, item)) : checked;
}

function checkDeclared(declared: Declared, item: object | DomainError): object | DomainError {
  if (item instanceof DomainError) return item;
  const faults = declaredFaults(declared, (item as { custom_fields?: Record<string, string> }).custom_fields ?? {});
  return faults.length > 0 ? validationFailed(faults.map((fault) => withValue(item, fault))) : item;
}

/** An upsert looks for its record first. */
const checkNew = (kind: BatchKind, item: object | DomainError): object | DomainError =>
  item instanceof DomainError ? item : (lacksRequired(kind, item as Record<string, unknown>) ?? item);

/**
 * Removes values from an item.
 * @returns false if one of them cannot be left out: it is not there, or it names the stored record
 */
function leaveOut(item: object, faults: readonly Fault[], { operation, match }: ItemRules): boolean {
  const places = faults.map(({ path }) => tokensOf(path));
  const isNeeded = ([field]: string[]): boolean =>
    field === undefined || !Object.hasOwn(item, field) || (operation !== 'create' && field === match);
  if (faults.length === 0 || places.some(isNeeded)) return false;
  for (const place of places) removeValue(item as Record<string, unknown>, place);
  return true;
}
