export interface Fault {
  path: string;
  message: string;
}

export type ErrorCode =
  | 'validation_failed'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'precondition_failed'
  | 'cursor_expired'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'idempotency_mismatch'
  | 'insufficient_credits'
  | 'spend_cap_exceeded'
  | 'rate_limited'
  | 'unavailable';

/**
 * An error whose code and message are sent to the caller of the API. For every other error, the caller gets only the
 * code `internal_error`.
 */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly faults: Fault[];
  /** Number of seconds after which the caller should retry. Set only for the codes `unavailable` and `rate_limited`. */
  readonly retryAfter: number | undefined;
  /** Ids of the records that match a value, if there are several although only one may match. */
  readonly matchingIds: string[] | undefined;
  readonly mergedInto: string | undefined;
  /** Kind of the one record that does not exist, such as `contact`. Set only for the code `not_found`. */
  readonly noun: string | undefined;
  /** Scopes that an API key lacks. One of them is enough. */
  readonly scopes: readonly string[];

  constructor(code: ErrorCode, message: string, more: ErrorDetails = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'DomainError';
    this.code = code;
    this.faults = more.faults ?? [];
    this.retryAfter = more.retryAfter;
    this.matchingIds = more.matchingIds;
    this.mergedInto = more.mergedInto;
    this.noun = more.noun;
    this.scopes = more.scopes ?? [];
  }
}

interface ErrorDetails {
  faults?: Fault[];
  retryAfter?: number;
  matchingIds?: string[] | undefined;
  mergedInto?: string | undefined;
  noun?: string;
  scopes?: readonly string[];
  cause?: unknown;
}

export const maxFaults = 100;

/** @param faults At most `maxFaults` + 1 of them are used. */
export const validationFailed = (faults: Fault[]): DomainError =>
  new DomainError('validation_failed', summary(faults), { faults });

function summary(faults: Fault[]): string {
  const [first] = faults;
  if (faults.length > maxFaults) return `more than ${maxFaults} values are not valid`;
  if (faults.length > 1) return `${faults.length} values are not valid`;
  return first!.path === '' ? first!.message : `${first!.path}: ${first!.message}`;
}

/**
 * Creates the error for a record that does not exist or that belongs to another customer. The error is the same in both
 * cases.
 * @param noun The kind of record, such as `contact`.
 * @param paths JSON pointers to the ids of the records, if these ids are in the request body.
 */
export const notFound = (noun: string, paths: string[] = []): DomainError =>
  paths.length > 0
    ? missingReferences(paths.map((path) => ({ noun, path })))
    : new DomainError('not_found', `No such ${noun}`, { noun });

/**
 * Creates the error for a request body that refers to records which do not exist.
 * @param missing `noun`: kind of record, such as `contact`. `path`: JSON pointer to its id in the request body. Default
 * of `message`: `no such contact`.
 */
export function missingReferences(missing: { noun: string; path: string; message?: string }[]): DomainError {
  const nouns = [...new Set(missing.map(({ noun }) => noun))];
  const faults = missing.map(({ noun, path, message = `no such ${noun}` }) => ({ path, message }));
  return new DomainError('not_found', counted(`No such ${nouns.join(', ')}`, faults), { faults });
}

/**
 * Returns an error message for invalid values. An error response can list at most `maxFaults` values. If there are
 * more, appends their total number to the message.
 */
export const counted = (message: string, { length }: Fault[]): string =>
  length > maxFaults ? `${message} (${length} values)` : message;

export const noRoute = (): DomainError => new DomainError('not_found', 'No such route: see /docs for all of them');

export const conflict = (message: string, faults: Fault[] = []): DomainError =>
  new DomainError('conflict', counted(message, faults), { faults });

export const preconditionFailed = (): DomainError =>
  new DomainError('precondition_failed', 'The record has changed since the version that If-Match names');

/**
 * Creates the error for a temporary failure, after which the caller should retry. Use it only if a retry is safe.
 * @param retryAfter The number of seconds after which the caller should retry.
 */
export const unavailable = (message: string, retryAfter = 1, cause?: unknown): DomainError =>
  new DomainError('unavailable', message, { retryAfter, cause });

/**
 * Thrown if another transaction changed records before this one could lock them. A transaction, batch or merge that
 * throws it runs again, at most 5 times in all. Then the caller gets the error `unavailable`.
 */
export class RecordsChanged extends DomainError {
  constructor() {
    super('unavailable', 'Other requests changed these records', { retryAfter: 1 });
  }
}

export const isUnavailable = (error: unknown): boolean => error instanceof DomainError && error.code === 'unavailable';

export const rateLimited = (policy: string, retryAfter: number): DomainError =>
  new DomainError('rate_limited', `Too many requests: the rate limit "${policy}" is used up`, { retryAfter });

export abstract class TooExpensive extends DomainError {
  readonly shortage: Shortage;

  constructor(code: 'insufficient_credits' | 'spend_cap_exceeded', message: string, shortage: Shortage) {
    super(code, message);
    this.shortage = shortage;
  }
}

export class InsufficientCredits extends TooExpensive {
  constructor(shortage: Shortage) {
    const { required, available, pool } = shortage;
    super('insufficient_credits', `This needs ${required} ${pool} credits, and ${available} are available`, shortage);
  }
}

export class SpendCapExceeded extends TooExpensive {
  constructor(shortage: Shortage, limit = 'the spend cap of the API key leaves') {
    const { required, available, pool } = shortage;
    super('spend_cap_exceeded', `This needs ${required} ${pool} credits, and ${limit} ${available}`, shortage);
  }
}

interface Shortage {
  required: number;
  available: number;
  pool: string;
}

export type RefusalCause =
  | 'missing'
  | 'wrong_scheme'
  | 'malformed'
  | 'unknown'
  | 'expired'
  | 'revoked'
  | 'suspended'
  | 'deactivated'
  | 'wrong_password';

type Credential = 'key' | 'session' | 'login';

/**
 * Thrown if the authentication of a request fails (401). `credential` determines the text of the response. `reason` is
 * logged, but not sent to the caller.
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

export const forbidden = (scopes: readonly string[] = []): DomainError =>
  new DomainError('forbidden', 'The user does not have permission to perform this action', { scopes });

/**
 * Functions that create the error for a violated database constraint, by its name. Contains all constraints that a
 * request can violate. A violation of any other constraint is a bug in the service.
 */
const constraintErrors: Record<string, () => DomainError> = {
  contacts_company_fkey: () => notFound('company', ['/company/id']),
  contacts_assignee_fkey: () => notFound('user', ['/assigned_to']),
  contacts_external_id_key: () => duplicateExternalId('contact'),
  companies_external_id_key: () => duplicateExternalId('company'),
  products_external_id_key: () => duplicateExternalId('product'),
  opportunities_external_id_key: () => duplicateExternalId('opportunity'),
  activities_external_id_key: () => duplicateExternalId('activity'),
  opportunities_price_in_range: () =>
    validationFailed([{ path: '/products', message: 'must have a total of less than 100000000000' }]),
  opportunities_stage_fkey: () =>
    conflict('There are opportunities in a stage that would be deleted. Move them to another stage first'),
  users_email_key: () => conflict('A user with this e-mail address exists'),
};

export const duplicateExternalId = (noun: string): DomainError =>
  conflict(`Another ${noun} has this external_id`, [{ path: '/external_id', message: `another ${noun} has it` }]);

interface ConstraintError {
  code?: string;
  constraint_name?: string;
  message?: string;
}

/**
 * Returns the name of the database constraint that a statement violated. Returns undefined if the error has another
 * cause or does not contain the name. Removes the shard number that Citus (distributed PostgreSQL) appends, such as
 * `_102074` in `contacts_company_fkey_102074`.
 */
export function violatedConstraint(error: unknown): string | undefined {
  const { code, constraint_name, message = '' } = (error ?? {}) as ConstraintError;
  return code?.startsWith('23') ? nameOfConstraint(constraint_name, message) : undefined;
}

const nameOfConstraint = (name: string | undefined, message: string): string | undefined =>
  (name ?? /constraint "(\w+)"/.exec(message)?.[1])?.replace(/_\d+$/, '');

/**
 * Converts a PostgreSQL error to an API error, if the request caused the error. Returns undefined for all other errors.
 */
export function fromDatabase(error: unknown): DomainError | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code !== 'string') return undefined;
  const constraint = violatedConstraint(error);
  if (constraint) return constraintErrors[constraint]?.();
  // Class 22: the request contains a value that PostgreSQL rejects.
  if (/^22[0-9A-Z]{3}$/.test(code))
    return validationFailed([{ path: '', message: 'a value is outside the range that can be stored' }]);
  return undefined;
}
