import type { Transaction } from '../database/db.ts';
import { conflict, counted, DomainError, fromDatabase, unavailable, validationFailed, type Fault } from '../errors.ts';
import { maxBatchFaults, type BatchKind, type BatchOperation, type MatchField } from '../schemas/batches.ts';

/** A batch of writes. The items have the schema `batchItem` of their operation. */
export interface Batch {
  operation: Exclude<BatchOperation, 'read'>;
  /** The member of each item that names its record. It has no meaning for `create`. */
  match: MatchField;
  /** If true, nothing is written when one item fails. */
  isAtomic: boolean;
  /** Members that an item may lack although creating a record requires them. The new record has empty ones. */
  optional?: readonly string[];
  /** The items, or the reason why an item is invalid. */
  items: readonly (object | DomainError)[];
}

/** What became of one item of a batch. */
export type Outcome =
  { status: 'created' | 'updated' | 'unchanged' | 'deleted'; id: string } | { status: 'failed'; error: DomainError };

/** What became of one item of a batch that reads records. */
export type ReadOutcome<Shown> =
  { status: 'found'; id: string; record: Shown } | { status: 'failed'; error: DomainError };

/** An item of a batch while it is processed. `Row` has the columns of a record that callers can write. */
export interface Item<Row> {
  /** The item as the caller sent it. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The value that names the record, in the form in which it is compared; undefined for `create`. */
  readonly value: string | undefined;
  /** The record that the item changes or deletes. */
  stored?: Row & { id: string };
  /** The columns of the record as the item wants them. */
  columns?: Row;
  outcome?: Outcome;
}

/** Returns the items of a batch that have not failed. */
export const alive = <Row>(items: readonly Item<Row>[]): Item<Row>[] => items.filter(({ outcome }) => !outcome);

/** Makes an item fail. */
export function fail(item: Item<unknown>, error: DomainError): void {
  item.outcome ??= { status: 'failed', error };
}

/**
 * Returns the outcome of each item, in the order of the items.
 * @throws Error if an item has none
 */
export const outcomesOf = (items: readonly Item<unknown>[]): Outcome[] =>
  items.map(({ outcome }, index) => {
    if (!outcome) throw new Error(`Item ${index} of a batch has no outcome`);
    return outcome;
  });

/**
 * If the batch is atomic and an item has failed, ends the batch.
 * @throws the error of the first failed item, with the faults of all failed items
 */
export function endIfAtomic({ isAtomic }: Pick<Batch, 'isAtomic'>, items: readonly Item<unknown>[]): void {
  if (!isAtomic) return;
  const failures = items.flatMap(({ outcome }, index) =>
    outcome?.status === 'failed' ? [{ index, error: outcome.error }] : [],
  );
  const [first] = failures;
  if (!first) return;
  const faults = failures.flatMap(({ index, error }) => faultsOf(index, error)).slice(0, maxBatchFaults.inAll);
  const { code, message, matchingIds } = first.error;
  throw new DomainError(code, counted(`item ${first.index}: ${message}`, faults), { faults, matchingIds });
}

/** Returns the faults of an item, with pointers into the body of the batch. */
function faultsOf(index: number, { faults, message }: DomainError): Fault[] {
  const pointer = `/items/${index}`;
  if (faults.length === 0) return [{ path: pointer, message }];
  return faults.slice(0, maxBatchFaults.ofItem).map((fault) => ({ ...fault, path: pointer + fault.path }));
}

/** Thrown when records changed before the batch could lock them. The batch is then processed again. */
export class RecordsChanged extends Error {}

/** Maximum number of times that a batch is processed. */
const maxAttempts = 5;

/**
 * Processes a batch. Processes it again, without the locks and writes of the failed attempt, if a record was created or
 * changed by another transaction in between.
 * @throws unavailable if this happens again and again
 */
export async function withRepeats<T>(sql: Transaction, attempt: (sql: Transaction) => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return (await sql.savepoint(attempt)) as T;
    } catch (error) {
      if (!(error instanceof RecordsChanged) && !isUniqueViolation(error)) throw error;
      if (attempts === maxAttempts) throw unavailable('Other requests keep changing these records', 1, error);
    }
  }
}

/** Returns whether an error means that another record has the value of a unique column (SQLSTATE 23505). */
const isUniqueViolation = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '23505' && fromDatabase(error) !== undefined;

/** Creates the error for an item of a batch that names a record which an earlier item has named. */
const namedTwice = (match: MatchField): DomainError =>
  conflict(`An earlier item has the same ${match}`, [{ path: `/${match}`, message: 'an earlier item has it' }]);

/** Creates the error for an item of a batch that names no record of the customer. */
export const noRecord = ({ noun }: BatchKind, match: MatchField): DomainError =>
  new DomainError('not_found', `No such ${noun}`, { faults: [{ path: `/${match}`, message: `no such ${noun}` }] });

/** Creates the error for an item of a batch that names several records. */
export const severalRecords = ({ noun }: BatchKind, match: MatchField, matchingIds: string[]): DomainError =>
  new DomainError('conflict', `More than one ${noun} has this ${match}`, {
    faults: [{ path: `/${match}`, message: `more than one ${noun} has it` }],
    matchingIds,
  });

/**
 * Begins to process the items of a batch. An invalid item fails, and so does a valid item with the same match value as
 * an earlier valid one.
 * @param canonical converts a match value to the form in which values are compared
 */
export function openItems<Row>(
  { operation, match, items }: Pick<Batch, 'match' | 'items'> & { operation: BatchOperation },
  canonical: (value: string) => string,
): Item<Row>[] {
  const seen = new Set<string>();
  return items.map((given): Item<Row> => {
    if (given instanceof DomainError)
      return { body: {}, value: undefined, outcome: { status: 'failed', error: given } };
    const body = given as Record<string, unknown>;
    if (operation === 'create') return { body, value: undefined };
    const value = canonical(body[match] as string);
    if (seen.has(value)) return { body, value, outcome: { status: 'failed', error: namedTwice(match) } };
    seen.add(value);
    return { body, value };
  });
}

/**
 * Creates the error for an item that lacks members which creating a record requires. Returns undefined if it has all.
 * @param optional members that it may lack
 */
export function lacksRequired(
  { create }: BatchKind,
  body: Readonly<Record<string, unknown>>,
  optional: readonly string[] = [],
): DomainError | undefined {
  const missing = (create.required ?? []).filter((name) => (body[name] ?? null) === null && !optional.includes(name));
  return missing.length > 0
    ? validationFailed(missing.map((name) => ({ path: `/${name}`, message: 'is required' })))
    : undefined;
}
