import type { Schemas } from './types.ts';

/** A fault of one value of a request. */
export interface Fault {
  /** JSON pointer to the value in the body; empty for the whole body. */
  path: string;
  message: string;
}

/** What the service says about an error, and what the client knows about the call. */
export interface ErrorDetails {
  status: number;
  code: string;
  message: string;
  /** Every fault of the request; often empty. */
  errors: Fault[];
  /** The id of the request in the logs of the service. Name it when you ask for help. */
  requestId: string | undefined;
  /** Seconds after which the call can be repeated. */
  retryAfter: number | undefined;
  /** Of a PermissionError: the scope that the key lacks, or several, of which one is enough. */
  requiredScopes: string[];
  /** The whole body of the response. */
  body: unknown;
}

/** Any error of a call. All other errors of this package extend it. */
export class SalesDataError extends Error {
  /** In an error of `batch`: what became of the items of the calls before, in the order of the items. */
  results: Schemas['BatchAnswer']['data']['results'] = [];

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The service answered with an error. Each status has a class of its own. */
export class ResponseError extends SalesDataError {
  readonly status: number;
  readonly code: string;
  readonly errors: Fault[];
  readonly requestId: string | undefined;
  readonly retryAfter: number | undefined;
  readonly requiredScopes: string[];
  readonly body: unknown;

  constructor(details: ErrorDetails) {
    super(details.message);
    ({
      status: this.status,
      code: this.code,
      errors: this.errors,
      requestId: this.requestId,
      retryAfter: this.retryAfter,
      requiredScopes: this.requiredScopes,
      body: this.body,
    } = details);
  }
}

/**
 * 202: the call is larger than the key may send, and waits for the approval of an admin. `body.approval` has its `id`, for
 * `getApproval`, and the `url` where an admin decides. Approved, it runs by itself: do not send it again.
 */
export class ApprovalRequiredError extends ResponseError {}
/** 400: the request is not valid. `errors` names every fault. */
export class ValidationError extends ResponseError {}
/** 401: the key or the session is missing, wrong, expired or revoked. */
export class AuthenticationError extends ResponseError {}
/** 402: there are too few credits, or the spend cap of the key leaves too few. `body` has `required`, `available` and `pool`. */
export class InsufficientCreditsError extends ResponseError {}
/** 402 `spend_cap_exceeded`: the spend cap of the key leaves too few credits. */
export class SpendCapExceededError extends InsufficientCreditsError {}
/** 403: the key lacks the scope of the operation. `requiredScopes` names it. */
export class PermissionError extends ResponseError {}
/** 404: the record does not exist, or belongs to another customer. */
export class NotFoundError extends ResponseError {}
/** 409: the request conflicts with the state of a record. */
export class ConflictError extends ResponseError {}
/**
 * 410: the event at the cursor of the feed is not kept any more. Changes may be lost: read all records anew, then follow
 * from a new cursor.
 */
export class CursorExpiredError extends ResponseError {}
/** 412: the record has changed since the version in `ifMatch`. */
export class PreconditionFailedError extends ResponseError {}
/** 413: the body is too large. */
export class PayloadTooLargeError extends ResponseError {}
/** 422: the idempotency key was used for another request. */
export class IdempotencyMismatchError extends ResponseError {}
/** 429: a rate limit is used up, and stayed so during all retries. */
export class RateLimitError extends ResponseError {}
/** 500: the service failed. */
export class InternalServerError extends ResponseError {}
/** 503: the service is overloaded or a part of it is unavailable, and stayed so during all retries. It may have executed a call that writes. */
export class UnavailableError extends ResponseError {}

/** The connection failed before the response was complete. The service may have executed the call. */
export class ConnectionError extends SalesDataError {}
/** The call, or the job or import that was waited for, took longer than allowed. It may still be executed. */
export class TimeoutError extends SalesDataError {}

/** An import as a whole has failed or was cancelled. What it had written stays. */
export class ImportFailedError extends SalesDataError {
  readonly import: Schemas['Import'];

  constructor(state: Schemas['Import']) {
    super(state.error ?? `The import is ${state.status}`);
    this.import = state;
  }
}

/** The signal of the call was aborted. `cause` is its reason. The service may have executed the call. */
export class AbortError extends SalesDataError {
  constructor({ reason: cause }: AbortSignal) {
    super('The call was aborted', { cause });
  }
}

const classes: Record<number, typeof ResponseError> = {
  202: ApprovalRequiredError,
  400: ValidationError,
  401: AuthenticationError,
  402: InsufficientCreditsError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  410: CursorExpiredError,
  412: PreconditionFailedError,
  413: PayloadTooLargeError,
  422: IdempotencyMismatchError,
  429: RateLimitError,
  500: InternalServerError,
  503: UnavailableError,
};

/** Of errors that share their status with others. */
const classesByCode: Record<string, typeof ResponseError | undefined> = { spend_cap_exceeded: SpendCapExceededError };

/** Reads the error in a response. */
export async function errorOf(response: Response): Promise<ResponseError> {
  const text = await response.text().catch(() => '');
  let body: unknown = text;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy may answer with a page.
  }
  // A proxy may also answer with JSON of another form.
  const said = (typeof body === 'object' && body !== null ? body : {}) as Record<
    'code' | 'message' | 'errors',
    unknown
  >;
  const wait = response.headers.get('retry-after') ?? '';
  const errors = Array.isArray(said.errors) ? said.errors.filter(isFault) : [];
  const requiredScopes = response.headers.get('x-required-scope')?.split(' ') ?? [];
  const code = typeof said.code === 'string' ? said.code : `http_${response.status}`;
  return new (classesByCode[code] ?? classes[response.status] ?? ResponseError)({
    status: response.status,
    code,
    message:
      (typeof said.message === 'string' ? said.message : `The service responded with ${response.status}`) +
      summaryOf(errors) +
      (requiredScopes.length > 0 ? ` (needs ${requiredScopes.join(' or ')})` : ''),
    errors,
    requestId: response.headers.get('x-request-id') ?? undefined,
    retryAfter: /^\d+$/.test(wait) ? Number(wait) : undefined,
    requiredScopes,
    body,
  });
}

const isFault = (value: unknown): value is Fault => {
  const { path, message } = (value ?? {}) as Partial<Record<keyof Fault, unknown>>;
  return typeof path === 'string' && typeof message === 'string';
};

/** Number of faults that the message of an error names. */
const namedFaults = 3;

/** Returns the first of several faults, for the message of an error; nothing for one fault, which the service names. */
function summaryOf(faults: readonly Fault[]): string {
  if (faults.length < 2) return '';
  const named = faults
    .slice(0, namedFaults)
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  const others = faults.length - named.length;
  return ` (${named.join('; ')}${others > 0 ? `; and ${others} more` : ''})`;
}
