/** One fault of a request: a JSON pointer to the value at fault, and what is wrong with it. */
export interface Fault {
  path: string;
  message: string;
}

/** What went wrong, in the words of the contract. Which HTTP status a kind has is known to the error handler only. */
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

/** An error that a caller is meant to see: its message is public. Everything else becomes an anonymous `internal_error`. */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly faults: Fault[];
  /** Seconds after which a retry makes sense; only with `unavailable` and `rate_limited`. */
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, more: { faults?: Fault[]; retryAfter?: number; cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'DomainError';
    this.code = code;
    this.faults = more.faults ?? [];
    this.retryAfter = more.retryAfter;
  }
}

/** An answer lists so many faults at most. Whoever looks for faults ends with one more, which says that there are more. */
export const maxFaults = 100;

/** The request does not say what it must: `faults` names every place, or more than `maxFaults` of them. */
export const validationFailed = (faults: Fault[]): DomainError =>
  new DomainError('validation_failed', summary(faults), { faults });

function summary(faults: Fault[]): string {
  const [first] = faults;
  if (faults.length > maxFaults) return `more than ${maxFaults} values are not valid`;
  if (faults.length > 1) return `${faults.length} values are not valid`;
  return first!.path === '' ? first!.message : `${first!.path}: ${first!.message}`;
}

/**
 * No such record of this customer. Unknown and foreign ids get the very same error, so that it tells nothing about others.
 * @param noun what was looked for, e.g. `contact`
 * @param paths JSON pointers of the ids when they stood in the body
 */
export const notFound = (noun: string, paths: string[] = []): DomainError =>
  paths.length > 0
    ? missingReferences(paths.map((path) => ({ noun, path })))
    : new DomainError('not_found', `No such ${noun}`);

/** The same for references in a body, of one noun or of several: each is named. */
export function missingReferences(missing: { noun: string; path: string }[]): DomainError {
  const nouns = [...new Set(missing.map(({ noun }) => noun))];
  const faults = missing.map(({ noun, path }) => ({ path, message: `no such ${noun}` }));
  return new DomainError('not_found', counted(`No such ${nouns.join(', ')}`, faults), { faults });
}

/** A message that also gives the number of faults where an answer cannot list them all. */
const counted = (message: string, { length }: Fault[]): string =>
  length > maxFaults ? `${message} (${length} values)` : message;

/**
 * The record's state does not allow it.
 * @param faults the values of the body that it does not allow, where it is one of them
 */
export const conflict = (message: string, faults: Fault[] = []): DomainError =>
  new DomainError('conflict', counted(message, faults), { faults });

/** `If-Match` named a version that is no longer the record's. */
export const preconditionFailed = (): DomainError =>
  new DomainError('precondition_failed', 'The record has changed since the version that If-Match names');

/** The service cannot answer at the moment; nothing was written that the caller was not told of. */
export const unavailable = (message: string, retryAfter = 1, cause?: unknown): DomainError =>
  new DomainError('unavailable', message, { retryAfter, cause });

/** Whether an error says that something does not answer at the moment, so that the same may be tried again. */
export const isUnavailable = (error: unknown): boolean => error instanceof DomainError && error.code === 'unavailable';

/**
 * More requests than a rate limit allows.
 * @param policy the name of the limit that is used up
 * @param retryAfter seconds until it allows requests again, at least 1
 */
export const rateLimited = (policy: string, retryAfter: number): DomainError =>
  new DomainError('rate_limited', `Too many requests: the rate limit "${policy}" is used up`, { retryAfter });

/** A pool has too few credits for what is asked; the answer says how many, in these members. */
export class InsufficientCredits extends DomainError {
  readonly shortage: Shortage;

  constructor(shortage: Shortage) {
    const { required, available, pool } = shortage;
    super('insufficient_credits', `This needs ${required} ${pool} credits, and ${available} are available`);
    this.shortage = shortage;
  }
}

/** Credits needed, and those that can be spent. */
export interface Shortage {
  required: number;
  available: number;
  pool: string;
}

/** Why a credential was refused: for the log only, the answer is the same for all. */
export type RefusalCause =
  'missing' | 'malformed' | 'unknown' | 'expired' | 'revoked' | 'suspended' | 'deactivated' | 'wrong_password';

/** Whose fixed 401 text it is. */
export type Credential = 'key' | 'session' | 'login';

/** 401: `credential` decides the fixed text, `reason` goes to the log. */
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

/** 403: authenticated, and not allowed to do this. */
export const forbidden = (): DomainError =>
  new DomainError('forbidden', 'The user does not have permission to perform this action');

/** A constraint that a caller can run into, and what it means to them. Unnamed ones are the service's own faults. */
const constraintErrors: Record<string, () => DomainError> = {
  contacts_company_fkey: () => notFound('company', ['/company/id']),
  contacts_assignee_fkey: () => notFound('user', ['/assigned_to']),
  opportunities_price_in_range: () =>
    validationFailed([{ path: '/products', message: 'must come to a total of less than 100000000000' }]),
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
 * What an error of Postgres means to the caller, if anything: a named constraint, or a value that the database refuses
 * although the schema let it pass (SQLSTATE class 22; a net, not the place where checks belong).
 */
export function fromDatabase(error: unknown): DomainError | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code !== 'string') return undefined;
  const constraint = code.startsWith('23') && constraintOf(error as ConstraintError);
  if (constraint) return constraintErrors[constraint]?.();
  if (/^22[0-9A-Z]{3}$/.test(code))
    return validationFailed([{ path: '', message: 'a value is outside what can be kept' }]);
  return undefined;
}
