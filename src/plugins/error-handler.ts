import { STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import {
  DomainError,
  fromDatabase,
  InsufficientCredits,
  maxFaults,
  Unauthorized,
  validationFailed,
  type ErrorCode,
  type Fault,
} from '../errors.ts';
import { cutText, listFaults } from '../fault-list.ts';
import { HungUp } from '../requester.ts';
import { RefusalLog } from './refusal-log.ts';

declare module 'fastify' {
  interface FastifyInstance {
    refusals: RefusalLog;
  }
}

/** The one place that knows which status an error has. */
const statuses: Record<ErrorCode, number> = {
  validation_failed: 400,
  unauthorized: 401,
  insufficient_credits: 402,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  idempotency_mismatch: 422,
  rate_limited: 429,
  unavailable: 503,
};

/** Fastify's own refusals, in the words of the contract. */
const frameworkErrors: Record<string, () => DomainError> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => new DomainError('unsupported_media_type', 'The body must be application/json'),
  FST_ERR_CTP_BODY_TOO_LARGE: () => new DomainError('payload_too_large', 'The body is larger than 1 MiB'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    validationFailed([{ path: '', message: 'the body is not as long as Content-Length says' }]),
  // The caller went away in the middle of the body; nobody reads the answer, and it is no failure of the service.
  ECONNRESET: () => validationFailed([{ path: '', message: 'the body ended early' }]),
  FST_ERR_BAD_URL: () => validationFailed([{ path: '', message: 'the path is not valid percent-encoding' }]),
};

/** Turns whatever was thrown into the error body of the contract. What is not meant for callers goes to the log alone. */
export default fp(
  async (app) => {
    const refusals = new RefusalLog(app.log);
    app.decorate('refusals', refusals);
    app.decorateRequest('isCounted', false);
    app.addHook('onClose', async () => refusals.flush());
    app.setErrorHandler(answer);
    app.setNotFoundHandler((request, reply) => answer(new DomainError('not_found', 'No such route'), request, reply));
  },
  { name: 'error-handler' },
);

/** Sends the answer that belongs to an error. */
export function answer(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = toDomainError(thrown);
  if (!error) {
    request.log.error({ err: thrown }, 'request failed');
    return send(reply, {
      status: 500,
      code: 'internal_error',
      message: 'The service failed to answer this request',
    });
  }
  if (error.code === 'unavailable' && !(error instanceof HungUp)) request.server.refusals.add(request, error);
  if (error instanceof Unauthorized) refuse(error, request, reply);
  if (error.retryAfter !== undefined) void reply.header('retry-after', error.retryAfter);
  const more = error instanceof InsufficientCredits ? error.shortage : {};
  return send(reply, {
    status: statuses[error.code],
    code: error.code,
    message: error.message,
    faults: error.faults,
    more,
  });
}

/** Says which credential is wanted (RFC 9110 §11.6.1), and to the log alone what was wrong with the one given. */
function refuse({ credential, reason }: Unauthorized, request: FastifyRequest, reply: FastifyReply): void {
  request.log.info({ credential, reason }, 'refused');
  const scheme = { key: 'X-API-Key', session: 'Bearer', login: undefined }[credential];
  if (scheme) void reply.header('www-authenticate', scheme);
}

function toDomainError(thrown: unknown): DomainError | undefined {
  if (thrown instanceof DomainError) return thrown;
  return frameworkErrors[(thrown as FastifyError | undefined)?.code ?? '']?.() ?? fromDatabase(thrown);
}

/** An error answer is never larger. */
const mostBytes = 64 * 1024;

interface ErrorAnswer {
  status: number;
  code: string;
  message: string;
  faults?: readonly Fault[];
  /** Members beside those that every error has. */
  more?: object;
}

/** Sends an error body: the one place where its size is bounded. */
function send(reply: FastifyReply, { status: statusCode, code, message, faults = [], more = {} }: ErrorAnswer) {
  const isAnonymous = statusCode === 401 || statusCode === 403;
  const said = isAnonymous ? { statusCode } : { statusCode, error: STATUS_CODES[statusCode], code };
  const body = { ...said, message: cutText(message), ...more };
  const room = mostBytes - Buffer.byteLength(JSON.stringify({ ...body, errors: [] }));
  const errors = listFaults(faults, maxFaults, room);
  const answered = errors.length > 0 ? { ...body, errors } : body;
  return reply.code(statusCode).type('application/json; charset=utf-8').serializer(JSON.stringify).send(answered);
}
