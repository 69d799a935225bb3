import { maxAttempts, type Locked, type LockedId, type Transaction } from '../../database/db.ts';
import { counted, DomainError, fromDatabase, RecordsChanged, unavailable, validationFailed } from '../../errors.ts';
import type { Fault } from '../../errors.ts';
import { requireMatch } from '../../text/ids.ts';
import { profileKey } from '../../text/domains.ts';
import { fold } from '../../text/fold.ts';
import type { Source } from '../../filters/columns.ts';
import type { DeferredWrites } from './deferred-writes.ts';
import { maxBatchFaults, type BatchKind, type BatchOperation, type MatchField } from '../../schemas/batches.ts';

export interface RecordTable {
  kind: BatchKind;
  table: Source['table'];
  visible: string;
}

export interface LockedCompanies {
  /**
   * Id of the oldest company with a name or domain, by its key (see `companyKey`). Null: another transaction deleted
   * the company while this one waited for the lock.
   */
  byKey: Map<string, string | null>;
  byId: Set<string>;
}

export interface Batch {
  operation: Exclude<BatchOperation, 'read'>;
  /**
   * The field that identifies the record of each item, such as `id` or `work_email`. Ignored if the operation is
   * `create`.
   */
  match: MatchField;
  isAtomic: boolean;
  isPurged?: boolean;
  /**
   * True if the batch is rolled back at the end. Its items are then checked against stored records, not against each
   * other.
   */
  isTrial?: boolean;
  /** True if an item can also take an external id that a later item gives up. */
  mayExchange?: boolean;
  /** Returns the body to apply to a stored record. Default: the item itself. */
  fit?: (body: Record<string, unknown>, stored: Record<string, unknown>) => Record<string, unknown>;
  items: readonly (object | DomainError)[];
  /** Set if the batch is a single write of a caller. `ifMatch` is the ETag that the record must have. */
  single?: { ifMatch: string | undefined };
}

export type WriteBatch = (
  sql: Transaction,
  customerId: string,
  batch: Batch,
  deferred: DeferredWrites,
) => Promise<Outcome[]>;

export type Outcome =
  { status: 'created' | 'updated' | 'unchanged' | 'deleted'; id: LockedId } | { status: 'failed'; error: DomainError };

export type ReadOutcome<Shown> =
  { status: 'found'; id: string; record: Shown } | { status: 'failed'; error: DomainError };

export interface Item<Row> {
  readonly body: Readonly<Record<string, unknown>>;
  /**
   * Value that identifies the record (an id, external id, e-mail address or domain), in its comparable form, such as
   * lower case. Undefined if the operation is `create`.
   */
  readonly value: string | undefined;
  stored?: Locked<Row>;
  columns?: Row;
  outcome?: Outcome;
}

export const pendingItems = <Row>(items: readonly Item<Row>[]): Item<Row>[] => items.filter(({ outcome }) => !outcome);

/**
 * Checks the ETag that the caller of a single write has sent, if any.
 * @param find returns the record as its GET shows it
 * @throws DomainError `precondition_failed` if it is not the record's ETag
 */
export async function requireSingleMatch<Row>(
  { single }: Pick<Batch, 'single'>,
  items: readonly Item<Row>[],
  find: (ids: string[]) => Promise<object[]>,
): Promise<void> {
  const [item] = pendingItems(items);
  if (single?.ifMatch !== undefined && item) requireMatch(single.ifMatch, (await find([item.stored!.id]))[0]!);
}

export function fail(item: Item<unknown>, error: DomainError): void {
  item.outcome ??= { status: 'failed', error };
}

export const outcomesOf = (items: readonly Item<unknown>[]): Outcome[] =>
  items.map(({ outcome }, index) => {
    if (!outcome) throw new Error(`Item ${index} of a batch has no outcome`);
    return outcome;
  });

/**
 * Ends an atomic batch if an item has failed.
 * @throws the error of the first failed item, with the error details of all failed items
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

function faultsOf(index: number, { faults, message }: DomainError): Fault[] {
  const pointer = `/items/${index}`;
  if (faults.length === 0) return [{ path: pointer, message }];
  return faults.slice(0, maxBatchFaults.ofItem).map((fault) => ({ ...fault, path: pointer + fault.path }));
}

/**
 * Processes a batch by calling `attempt`. If another transaction changed the same records meanwhile, rolls back and
 * calls it again, at most 5 times in all.
 * @throws DomainError `unavailable` if another transaction has interfered with the last attempt, too
 */
export async function withRepeats<T>(
  sql: Transaction,
  deferred: DeferredWrites,
  attempt: (sql: Transaction, deferred: DeferredWrites) => Promise<T>,
): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await deferred.attempt(async (own) => (await sql.savepoint((nested) => attempt(nested, own))) as T);
    } catch (error) {
      if (!(error instanceof RecordsChanged) && !isUniqueViolation(error)) throw error;
      if (attempts === maxAttempts) throw unavailable('Other requests keep changing these records', 1, error);
    }
  }
}

const isUniqueViolation = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '23505' && fromDatabase(error) !== undefined;

export class RepeatedRecord extends DomainError {
  constructor(match: MatchField, message: string, text: string) {
    const faults = [{ path: `/${match}`, message: text }];
    super('conflict', counted(message, faults), { faults });
  }
}

const namedTwice = (match: MatchField): DomainError =>
  new RepeatedRecord(match, `An earlier item has the same ${match}`, 'an earlier item has it');

export const sameRecord = ({ noun }: BatchKind, match: MatchField): DomainError =>
  new RepeatedRecord(
    match,
    `An earlier item has the same ${noun}, which was merged`,
    `an earlier item has the same ${noun}`,
  );

export const noRecord = ({ noun }: BatchKind, match: MatchField): DomainError =>
  new DomainError('not_found', `No such ${noun}`, { faults: [{ path: `/${match}`, message: `no such ${noun}` }] });

export const severalRecords = ({ noun }: BatchKind, match: MatchField, matchingIds: string[]): DomainError =>
  new DomainError('conflict', `More than one ${noun} has this ${match}`, {
    faults: [{ path: `/${match}`, message: `more than one ${noun} has it` }],
    matchingIds,
  });

/**
 * Returns the function that converts a value which identifies a record to its comparable form. Validation has already
 * brought ids and domains to theirs.
 */
export const canonicalOf = (match: MatchField): ((value: string) => string) =>
  match === 'work_email' ? fold : (value) => value;

/**
 * Converts the items of a request to `Item` objects. An item fails if it is invalid, or if an earlier valid item has
 * the same match value (such as the same id).
 */
export function openItems<Row>({
  operation,
  match,
  items,
}: Pick<Batch, 'match' | 'items'> & { operation: BatchOperation }): Item<Row>[] {
  const canonical = canonicalOf(match);
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

export function lacksRequired(
  { create, needsOneOf = [] }: BatchKind,
  body: Readonly<Record<string, unknown>>,
): DomainError | undefined {
  const missing = (create.required ?? []).filter((name) => (body[name] ?? null) === null);
  const lacking = needsOneOf.filter((names) => names.every((name) => isEmpty(body, name)));
  const faults = [
    ...missing.map((name) => ({ path: `/${name}`, message: 'is required' })),
    ...lacking.map((names) => ({ path: '', message: `a new record needs one of ${names.join(', ')}` })),
  ];
  return faults.length > 0 ? validationFailed(faults) : undefined;
}

/**
 * Returns true if the body has no value for a field. A URL that is not a profile, and a blank phone number, count as no
 * value, because they identify nobody.
 */
function isEmpty(body: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = body[name] ?? '';
  if (name === 'profnet_url') return typeof value !== 'string' || profileKey(value) === undefined;
  if (name === 'phone_numbers' && Array.isArray(value)) return value.every((one) => isBlank(one?.number));
  return isBlank(value) || (Array.isArray(value) && value.length === 0);
}

const isBlank = (value: unknown): boolean => typeof value === 'string' && value.trim() === '';
