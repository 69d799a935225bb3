import { STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import {
  DomainError,
  fromDatabase,
  maxFaults,
  TooExpensive,
  Unauthorized,
  validationFailed,
  type ErrorCode,
  type Fault,
  noRoute,
} from '../../errors.ts';
import { CallerHungUp } from '../../credentials/requester.ts';
import { cutText, listFaults } from '../bodies/fault-list.ts';
import { RefusalLog } from '../credentials/refusal-log.ts';
import { loggedRefusal } from '../watching/request-log.ts';

declare module 'fastify' {
  interface FastifyInstance {
    refusals: RefusalLog;
  }
}

/** The HTTP status of each error code. Only this table assigns statuses to errors. */
export const statuses: Record<ErrorCode, number> = {
  validation_failed: 400,
  unauthorized: 401,
  insufficient_credits: 402,
  spend_cap_exceeded: 402,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  cursor_expired: 410,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  idempotency_mismatch: 422,
  rate_limited: 429,
  unavailable: 503,
};

/** Converts Fastify's own errors to the error codes of this API. The keys are Fastify's error codes. */
const frameworkErrors: Record<string, (request: FastifyRequest) => DomainError> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new DomainError('unsupported_media_type', 'The body must be JSON, with the header Content-Type: application/json'),
  FST_ERR_CTP_BODY_TOO_LARGE: ({ routeOptions }) =>
    new DomainError('payload_too_large', `The body is larger than ${sizeOf(routeOptions.bodyLimit)}`),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    validationFailed([{ path: '', message: 'the length of the body differs from Content-Length' }]),
  // The caller disconnected while sending the body. Nobody reads the response, and it is not a failure of the service.
  ECONNRESET: () => validationFailed([{ path: '', message: 'the connection closed before the body was complete' }]),
  FST_ERR_BAD_URL: () => validationFailed([{ path: '', message: 'the path is not valid percent-encoding' }]),
};

const sizeOf = (bytes: number): string => (bytes < 2 ** 20 ? `${bytes / 2 ** 10} KiB` : `${bytes / 2 ** 20} MiB`);

/**
 * Fastify plugin that sends an error response for every thrown error, in the documented format. An unexpected error is
 * logged, and the caller gets status 500 without details.
 */
export default fp(
  async (app) => {
    const refusals = new RefusalLog(app.log);
    app.decorate('refusals', refusals);
    app.decorateRequest('isCounted', false);
    app.addHook('onClose', async () => refusals.flush());
    app.setErrorHandler(sendError);
    app.setNotFoundHandler((request, reply) => sendError(noRoute(), request, reply));
  },
  { name: 'error-handler' },
);

/** Sends the error response for a thrown error. Logs the error if it is an unexpected error. */
export const sendError = (thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply =>
  send(reply, answerTo(thrown, request, reply));

/**
 * Returns the content of the error response for a thrown error, and sets the headers of the response. Logs an
 * unexpected error.
 */
export function answerTo(thrown: unknown, request: FastifyRequest, reply: FastifyReply): ErrorAnswer {
  const error = toDomainError(thrown, request);
  if (!error) {
    request.refusal = loggedRefusal('internal_error');
    request.log.error({ err: thrown }, 'request failed');
    return { status: 500, code: 'internal_error', message: 'The service failed to answer this request' };
  }
  request.refusal = loggedRefusal(error.code, error.faults);
  if (error.code === 'unavailable' && !(error instanceof CallerHungUp)) request.server.refusals.add(request, error);
  if (error instanceof Unauthorized) refuse(error, request, reply);
  if (error.scopes.length > 0) void reply.header('x-required-scope', error.scopes.join(' '));
  // Fastify closes the connection after a faulty body. The caller who still sends it would not get the response.
  if (error.code === 'payload_too_large') void reply.removeHeader('connection');
  if (error.retryAfter !== undefined) void reply.header('retry-after', error.retryAfter);
  const more = error instanceof TooExpensive ? error.shortage : idsIn(error);
  return { status: statuses[error.code], code: error.code, message: error.message, faults: error.faults, more };
}

/**
 * Sets the response header `www-authenticate`, which tells the caller how to authenticate (RFC 9110 §11.6.1). Logs why
 * the credential of the request was rejected.
 */
function refuse({ credential, reason }: Unauthorized, request: FastifyRequest, reply: FastifyReply): void {
  request.log.info({ credential, reason }, 'refused');
  const scheme = { key: 'X-API-Key', session: 'Bearer', login: undefined }[credential];
  const isForm = reason === 'missing' || reason === 'wrong_scheme';
  if (scheme) void reply.header('www-authenticate', isForm ? `${scheme} error="${reason}"` : scheme);
}

/**
 * Returns the fields of an error response that name records: `matching_ids`, the records that a value matches if it
 * matches several, and `merged_into`, the record into which the record of the request was merged.
 */
const idsIn = ({ matchingIds, mergedInto }: DomainError): object => ({
  ...(matchingIds ? { matching_ids: matchingIds } : {}),
  ...(mergedInto === undefined ? {} : { merged_into: mergedInto }),
});

/** Converts a thrown error to the error that is sent to the caller. Returns undefined for an unexpected error. */
function toDomainError(thrown: unknown, request: FastifyRequest): DomainError | undefined {
  if (thrown instanceof DomainError) return thrown;
  return frameworkErrors[(thrown as FastifyError | undefined)?.code ?? '']?.(request) ?? fromDatabase(thrown);
}

/** Maximum size of an error response's body (bytes). */
const maxBytes = 64 * 1024;

export interface ErrorAnswer {
  status: number;
  code: string;
  message: string;
  faults?: readonly Fault[];
  /** Additional fields of the response body, which only some errors have, such as `matching_ids`. */
  more?: object;
}

/** Sends an error response. The list of invalid values is cut, so that the body has at most `maxBytes` bytes. */
function send(reply: FastifyReply, { status: statusCode, code, message, faults = [], more = {} }: ErrorAnswer) {
  // All errors that the app handles are sent by this function.
  const isAnonymous = statusCode === 401 || statusCode === 403;
  const common = isAnonymous ? { statusCode } : { statusCode, error: STATUS_CODES[statusCode], code };
  const body = { ...common, message: cutText(message), ...more };
  const room = maxBytes - Buffer.byteLength(JSON.stringify({ ...body, errors: [] }));
  const errors = listFaults(faults, maxFaults, room);
  const bounded = errors.length > 0 ? { ...body, errors } : body;
  return reply.code(statusCode).type('application/json; charset=utf-8').serializer(JSON.stringify).send(bounded);
}
