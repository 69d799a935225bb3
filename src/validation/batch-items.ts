import { DomainError, validationFailed, type Fault } from '../errors.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { batchItem, maxBatchFaults, type BatchKind, type BatchOperation, type MatchField } from '../schemas/batches.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import { compile, type Validator } from './validator.ts';

const validators = new Map<string, Validator>();

function validatorOf(kind: BatchKind, operation: BatchOperation, match: MatchField): Validator {
  const name = `${kind.title} ${operation} ${match}`;
  const validator = validators.get(name) ?? compile(batchItem(kind, operation, match));
  validators.set(name, validator);
  return validator;
}

export interface ItemRules {
  kind: BatchKind;
  operation: BatchOperation;
  match: MatchField;
  /** False if the items cannot contain text that PostgreSQL cannot store. Then they are not checked for it. */
  mayBeUnstorable: boolean;
}

/**
 * Validates each item with the schema for a single record.
 * @returns the items themselves, or `validation_failed` with their first faults. After `maxBatchFaults.inAll` faults
 * together, further errors contain none
 */
export async function checkItems(
  { kind, operation, match, mayBeUnstorable }: ItemRules,
  items: readonly unknown[],
): Promise<(object | DomainError)[]> {
  const validator = validatorOf(kind, operation, match);
  const stretch = new TimeSlice();
  const checked: (object | DomainError)[] = [];
  let room = maxBatchFaults.inAll;
  for (const item of items) {
    const error = room > 0 ? errorOf(validator, item, mayBeUnstorable) : briefErrorOf(validator, item, mayBeUnstorable);
    room -= error?.faults.length ?? 0;
    checked.push(error ?? (item as object));
    if (stretch.isOver) await stretch.pause();
  }
  return checked;
}

function errorOf(validator: Validator, item: unknown, mayBeUnstorable: boolean): DomainError | undefined {
  const unstorable = mayBeUnstorable ? findUnstorableText(item) : [];
  const paths = new Set(unstorable.map(({ path }) => path));
  const faults: Fault[] = [...unstorable, ...validator.faultsOf(item).filter(({ path }) => !paths.has(path))];
  if (faults.length === 0) return undefined;
  // The message counts all faults.
  const { message } = validationFailed(faults);
  return new DomainError('validation_failed', message, { faults: faults.slice(0, maxBatchFaults.ofItem) });
}

const briefErrorOf = (validator: Validator, item: unknown, mayBeUnstorable: boolean): DomainError | undefined =>
  validator.isValid(item) && !(mayBeUnstorable && findUnstorableText(item).length > 0)
    ? undefined
    : new DomainError('validation_failed', 'values of this item are not valid; the batch has too many faults to list');
