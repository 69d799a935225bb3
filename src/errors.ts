/** One invalid value in a request: `path` is a JSON pointer to the value, and `message` says why it is invalid. */
export interface Fault {
  path: string;
  message: string;
}

/** Error codes of the public API. The error handler maps each code to an HTTP status. */
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

/**
 * An error whose message may be sent to the caller of the API. For every other error the response says only
 * `internal_error`.
 */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly faults: Fault[];
  /** Seconds after which the caller should retry. Set only with `unavailable` and `rate_limited`. */
  readonly retryAfter: number | undefined;
  /** Ids of the records that a value matches, if it must match one record only. */
  readonly matchingIds: string[] | undefined;

  constructor(code: ErrorCode, message: string, more: ErrorDetails = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'DomainError';
    this.code = code;
    this.faults = more.faults ?? [];
    this.retryAfter = more.retryAfter;
    this.matchingIds = more.matchingIds;
  }
}

/** Optional properties of a `DomainError`. */
interface ErrorDetails {
  faults?: Fault[];
  retryAfter?: number;
  matchingIds?: string[] | undefined;
  cause?: unknown;
}

/**
 * Maximum number of invalid values that an error response lists. Validation stops after one more, so that the message
 * can say "more than 100".
 */
export const maxFaults = 100;

/**
 * Creates the error for a request with invalid values.
 * @param faults the invalid values; more than `maxFaults` + 1 are not needed
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
 * Creates the error for a record that does not exist. Also used for a record of another customer, so that the response
 * does not reveal that it exists.
 * @param noun the kind of record, such as `contact`
 * @param paths JSON pointers to the ids, if they are in the request body
 */
export const notFound = (noun: string, paths: string[] = []): DomainError =>
  paths.length > 0
    ? missingReferences(paths.map((path) => ({ noun, path })))
    : new DomainError('not_found', `No such ${noun}`);

/**
 * Creates the error for a request body that refers to records which do not exist.
 * @param missing for each reference, the kind of record (e.g. `contact`) and a JSON pointer to the id
 */
export function missingReferences(missing: { noun: string; path: string }[]): DomainError {
  const nouns = [...new Set(missing.map(({ noun }) => noun))];
  const faults = missing.map(({ noun, path }) => ({ path, message: `no such ${noun}` }));
  return new DomainError('not_found', counted(`No such ${nouns.join(', ')}`, faults), { faults });
}

/** Returns a message, and appends the number of invalid values if there are more than an error response can list. */
export const counted = (message: string, { length }: Fault[]): string =>
  length > maxFaults ? `${message} (${length} values)` : message;

/**
 * Creates the error for a request that conflicts with the current state of a record.
 * @param faults the values in the request body that conflict, if any
 */
export const conflict = (message: string, faults: Fault[] = []): DomainError =>
  new DomainError('conflict', counted(message, faults), { faults });

/** Creates the error for a request whose `If-Match` header names an old version of the record. */
export const preconditionFailed = (): DomainError =>
  new DomainError('precondition_failed', 'The record has changed since the version that If-Match names');

/**
 * Creates the error for a temporary failure. It tells the caller to repeat the request, so use it only for requests
 * that are safe to repeat.
 * @param retryAfter seconds after which the caller should retry
 */
export const unavailable = (message: string, retryAfter = 1, cause?: unknown): DomainError =>
  new DomainError('unavailable', message, { retryAfter, cause });

/** Returns true if an error is temporary (`unavailable`), so the operation may be retried. */
export const isUnavailable = (error: unknown): boolean => error instanceof DomainError && error.code === 'unavailable';

/**
 * Creates the error for a request that exceeds a rate limit.
 * @param policy the name of the exceeded limit
 * @param retryAfter seconds until the limit allows requests again, at least 1
 */
export const rateLimited = (policy: string, retryAfter: number): DomainError =>
  new DomainError('rate_limited', `Too many requests: the rate limit "${policy}" is used up`, { retryAfter });

/**
 * The error for an operation that needs more credits than are available. The error response contains the fields of
 * `shortage`.
 */
export class InsufficientCredits extends DomainError {
  readonly shortage: Shortage;

  constructor(shortage: Shortage) {
    const { required, available, pool } = shortage;
    super('insufficient_credits', `This needs ${required} ${pool} credits, and ${available} are available`);
    this.shortage = shortage;
  }
}

/** How many credits an operation needs and how many are available, in one pool of credits. */
export interface Shortage {
  required: number;
  available: number;
  pool: string;
}

/**
 * The reason why an API key, session token or password was refused. It is only logged: the response does not contain
 * it.
 */
export type RefusalCause =
  'missing' | 'malformed' | 'unknown' | 'expired' | 'revoked' | 'suspended' | 'deactivated' | 'wrong_password';

/**
 * The kind of credential that a caller uses: an API key, a session token, or e-mail and password. Each kind has its own
 * text in the 401 response.
 */
export type Credential = 'key' | 'session' | 'login';

/**
 * The error for a failed authentication (401). `credential` selects the text of the response. `reason` is only logged.
 */
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

/** Creates the error for a caller without the necessary permission (403). */
export const forbidden = (): DomainError =>
  new DomainError('forbidden', 'The user does not have permission to perform this action');

/**
 * For each database constraint that a request can violate, the error to return. If a request violates another
 * constraint, the service has a bug.
 */
const constraintErrors: Record<string, () => DomainError> = {
  contacts_company_fkey: () => notFound('company', ['/company/id']),
  contacts_assignee_fkey: () => notFound('user', ['/assigned_to']),
  contacts_external_id_key: () => duplicateExternalId('contact'),
  companies_external_id_key: () => duplicateExternalId('company'),
  opportunities_price_in_range: () =>
    validationFailed([{ path: '/products', message: 'must have a total of less than 100000000000' }]),
  users_email_key: () => conflict('A user with this e-mail address exists'),
};

/**
 * Creates the error for an external id that another record already has.
 * @param noun the kind of record, such as `contact`
 */
export const duplicateExternalId = (noun: string): DomainError =>
  conflict(`Another ${noun} has this external_id`, [{ path: '/external_id', message: `another ${noun} has it` }]);

/** The fields of a PostgreSQL error that name the violated constraint. */
interface ConstraintError {
  constraint_name?: string;
  message?: string;
}

/**
 * Returns the name of the violated constraint, or undefined if the error does not contain it. Citus (distributed
 * PostgreSQL) reports it only in the message and appends a shard number, such as `contacts_company_fkey_102074`; the
 * number is removed.
 */
const constraintOf = ({ constraint_name, message = '' }: ConstraintError): string | undefined =>
  constraint_name ?? /constraint "([a-z_]+?)(?:_\d+)?"/.exec(message)?.[1];

/**
 * Converts a PostgreSQL error to the error that the API returns, if the request caused it. Returns undefined for all
 * other errors.
 */
export function fromDatabase(error: unknown): DomainError | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code !== 'string') return undefined;
  const constraint = code.startsWith('23') && constraintOf(error as ConstraintError);
  if (constraint) return constraintErrors[constraint]?.();
  // Class 22: the request contains a value that PostgreSQL rejects.
  if (/^22[0-9A-Z]{3}$/.test(code))
    return validationFailed([{ path: '', message: 'a value is outside the range that can be stored' }]);
  return undefined;
}
