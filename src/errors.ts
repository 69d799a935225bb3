/** One invalid value of a request: a JSON pointer to the value, and the reason why it is invalid. */
export interface Fault {
  path: string;
  message: string;
}

/** Error codes of the API contract. Only the error handler maps them to HTTP statuses. */
export type ErrorCode =
  | 'validation_failed'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'precondition_failed'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'idempotency_mismatch'
  | 'insufficient_credits'
  | 'rate_limited'
  | 'unavailable';

/** An error whose message is public. Every other error becomes an anonymous `internal_error`. */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly faults: Fault[];
  /** Seconds until a retry makes sense. Set only with `unavailable` and `rate_limited`. */
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, more: { faults?: Fault[]; retryAfter?: number; cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'DomainError';
    this.code = code;
    this.faults = more.faults ?? [];
    this.retryAfter = more.retryAfter;
  }
}

/** Maximum number of faults in an error answer. Validation stops one fault later, which shows that there are more. */
export const maxFaults = 100;

/**
 * Creates the error for a request with invalid values.
 * @param faults every invalid value, or `maxFaults` + 1 of them
 */
export const validationFailed = (faults: Fault[]): DomainError =>
  new DomainError('validation_failed', summary(faults), { faults });

function summary(faults: Fault[]): string {
  const [first] = faults;
  if (faults.length > maxFaults) return `more than ${maxFaults} values are not valid`;
  if (faults.length > 1) return `${faults.length} values are not valid`;
  return first!.path === '' ? first!.message : `${first!.path}: ${first!.message}`;
}

/**
 * Creates the error for a record that this customer does not have. Unknown ids and ids of other customers get the same
 * error, so it reveals nothing about others.
 * @param noun the kind of record, e.g. `contact`
 * @param paths JSON pointers of the ids, if they stood in the body
 */
export const notFound = (noun: string, paths: string[] = []): DomainError =>
  paths.length > 0
    ? missingReferences(paths.map((path) => ({ noun, path })))
    : new DomainError('not_found', `No such ${noun}`);

/** Creates the error for references in a body to records that do not exist. Its message names each kind of record. */
export function missingReferences(missing: { noun: string; path: string }[]): DomainError {
  const nouns = [...new Set(missing.map(({ noun }) => noun))];
  const faults = missing.map(({ noun, path }) => ({ path, message: `no such ${noun}` }));
  return new DomainError('not_found', counted(`No such ${nouns.join(', ')}`, faults), { faults });
}

/** Appends the number of faults to a message when an error answer cannot list them all. */
const counted = (message: string, { length }: Fault[]): string =>
  length > maxFaults ? `${message} (${length} values)` : message;

/**
 * Creates the error for a request that the record's state does not allow.
 * @param faults the values of the body that conflict with the state, if any
 */
export const conflict = (message: string, faults: Fault[] = []): DomainError =>
  new DomainError('conflict', counted(message, faults), { faults });

/** Creates the error for an `If-Match` header that names an outdated version of the record. */
export const preconditionFailed = (): DomainError =>
  new DomainError('precondition_failed', 'The record has changed since the version that If-Match names');

/**
 * Creates the error for a temporary failure. Throw it only if the request has written nothing that the caller does not
 * know about.
 * @param retryAfter seconds until a retry makes sense
 */
export const unavailable = (message: string, retryAfter = 1, cause?: unknown): DomainError =>
  new DomainError('unavailable', message, { retryAfter, cause });

/** Returns whether an error is temporary (`unavailable`), so the same operation may be retried. */
export const isUnavailable = (error: unknown): boolean => error instanceof DomainError && error.code === 'unavailable';

/**
 * Creates the error for a request above a rate limit.
 * @param policy the name of the exceeded limit
 * @param retryAfter seconds until the limit allows requests again, at least 1
 */
export const rateLimited = (policy: string, retryAfter: number): DomainError =>
  new DomainError('rate_limited', `Too many requests: the rate limit "${policy}" is used up`, { retryAfter });

/** The error for a pool with too few credits. The error answer contains the fields of `shortage`. */
export class InsufficientCredits extends DomainError {
  readonly shortage: Shortage;

  constructor(shortage: Shortage) {
    const { required, available, pool } = shortage;
    super('insufficient_credits', `This needs ${required} ${pool} credits, and ${available} are available`);
    this.shortage = shortage;
  }
}

/** The credits that an operation needs and those that are available, in one pool. */
export interface Shortage {
  required: number;
  available: number;
  pool: string;
}

/** Why a credential was refused. It is only logged; the answer is the same for all reasons. */
export type RefusalCause =
  'missing' | 'malformed' | 'unknown' | 'expired' | 'revoked' | 'suspended' | 'deactivated' | 'wrong_password';

/** The kinds of credentials. Each has its own fixed 401 text. */
export type Credential = 'key' | 'session' | 'login';

/** The error behind a 401 answer. `credential` selects the fixed text; `reason` is only logged. */
export class Unauthorized extends DomainError {
  readonly credential: Credential;
  readonly reason: RefusalCause;

  constructor(credential: Credential, reason: RefusalCause) {
    super('unauthorized', unauthorizedTexts[credential]);
    this.credential = credential;
    this.reason = reason;
  }
}

const unauthorizedTexts: Record<Credential, string> = {
  key: 'The provided API key is invalid or unauthorized',
  session: 'The provided session token is invalid or expired',
  login: 'The provided e-mail or password is wrong',
};

/** Creates the error behind a 403 answer: the caller is authenticated but lacks the permission. */
export const forbidden = (): DomainError =>
  new DomainError('forbidden', 'The user does not have permission to perform this action');

/**
 * Maps each database constraint that a request can violate to its public error. A violation of any other constraint is
 * a fault of the service.
 */
const constraintErrors: Record<string, () => DomainError> = {
  contacts_company_fkey: () => notFound('company', ['/company/id']),
  contacts_assignee_fkey: () => notFound('user', ['/assigned_to']),
  opportunities_price_in_range: () =>
    validationFailed([{ path: '/products', message: 'must have a total of less than 100000000000' }]),
  users_email_key: () => conflict('A user with this e-mail address exists'),
};

/** What PostgreSQL says of a violated constraint. */
interface ConstraintError {
  constraint_name?: string;
  message?: string;
}

/**
 * The name of a violated constraint. Citus passes on the message of a node, without the constraint's name beside it, and there
 * the number of the shard follows the name: `contacts_company_fkey_102074`.
 */
const constraintOf = ({ constraint_name, message = '' }: ConstraintError): string | undefined =>
  constraint_name ?? /constraint "([a-z_]+?)(?:_\d+)?"/.exec(message)?.[1];

/**
 * Converts a PostgreSQL error to its public error: a violated named constraint, or a value that the database rejects
 * although the schema accepted it (SQLSTATE class 22; a safety net, because checks belong into the schemas). Returns
 * undefined for other errors.
 */
export function fromDatabase(error: unknown): DomainError | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code !== 'string') return undefined;
  const constraint = code.startsWith('23') && constraintOf(error as ConstraintError);
  if (constraint) return constraintErrors[constraint]?.();
  if (/^22[0-9A-Z]{3}$/.test(code))
    return validationFailed([{ path: '', message: 'a value is outside the range that can be stored' }]);
  return undefined;
}
