import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyBaseLogger, FastifyRequest, FastifyError, FastifyReply } from 'fastify';
import { plugin } from './plugin.ts';
import {
  DomainError,
  fromDatabase,
  maxFaults,
  TooExpensive,
  Unauthorized,
  validationFailed,
  noRoute,
} from '../errors.ts';
import type { Fault, ErrorCode } from '../errors.ts';
import { withoutStack } from '../process/logger.ts';
import { CallerHungUp } from '../access/credentials.ts';
import { loggedRefusal } from './request-log.ts';

const maxTextLength = 500;

export const cutText = (text: string): string =>
  (text.length > maxTextLength ? `${text.slice(0, maxTextLength - 1)}…` : text).toWellFormed();

/**
 * Returns the invalid values for an error response. Shortens long texts, and omits the last values if the list is too
 * long.
 * @param bytes maximum size of the list as JSON, without its brackets
 */
function listFaults(faults: readonly Fault[], max: number, bytes: number): Fault[] {
  const listed: Fault[] = [];
  let room = bytes;
  for (const { path, message } of faults.slice(0, max)) {
    const fault = { path: cutText(path), message: cutText(message) };
    room -= Buffer.byteLength(JSON.stringify(fault)) + 1;
    if (room < 0) break;
    listed.push(fault);
  }
  return listed;
}

export type Refusal = readonly [status: number, code: string, message: string];

const refusals: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time'],
};
const malformed: Refusal = [400, 'validation_failed', 'The request is not valid HTTP'];

const latest = new WeakMap<Duplex, ServerResponse>();

const requestStart = 'http.server.request.start';

/**
 * Starts to record the latest request of each connection, for all HTTP servers of the process.
 * @returns A function that stops recording.
 */
export function watchRequests(): () => void {
  const note = (message: unknown): void => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    latest.set(request.socket, response);
  };
  subscribe(requestStart, note);
  return () => void unsubscribe(requestStart, note);
}

const patient = new WeakSet<ServerResponse>();

/**
 * Exempts a request from the server's `requestTimeout`, which limits the time until the whole request has arrived. The
 * exemption ends when the response starts.
 */
export const exemptFromTimeout = (response: ServerResponse): void => void patient.add(response);

function isExempt(socket: Socket): boolean {
  const response = latest.get(socket);
  return response !== undefined && patient.has(response) && !response.headersSent;
}

export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isExempt(socket)) return;
  if (error.code === 'ECONNRESET') return void socket.destroy();
  refuseOnSocket(socket, refusals[error.code ?? ''] ?? malformed, randomUUID());
}

/**
 * Sends an error response on a connection that Node's HTTP server no longer handles, and closes the connection. Sends
 * nothing if the caller could take the error response for the response to an earlier request.
 */
export function refuseOnSocket(socket: Socket, refusal: Refusal, requestId: string, headers: string[] = []): void {
  if (!socket.writable || !isNextToAnswer(socket)) return void socket.destroy();
  const [status] = refusal;
  const body = bodyOf(refusal);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'x-content-type-options: nosniff',
    'connection: close',
    ...headers,
  ];
  const timer = setTimeout(() => socket.destroy(), lingering).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.resume(); // discards further data, so that the end of the stream is noticed
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/**
 * Returns true if all requests before the invalid request have got their responses. Only then does the caller
 * understand to which request an error response belongs.
 */
function isNextToAnswer(socket: Socket): boolean {
  const response = latest.get(socket);
  if (!response) return true;
  if (response.req.complete) return response.writableFinished;
  // The fault is in the body of the latest request, so that request is the faulty one.
  return !response.headersSent && response.socket !== null; // null while earlier responses are pending
}

export const bodyOf = ([statusCode, code, message]: Refusal): string =>
  JSON.stringify({ statusCode, error: STATUS_CODES[statusCode], code, message });

const lingering = 5_000;

declare module 'fastify' {
  interface FastifyRequest {
    /** True if `RefusalLog` has counted this request in its summary. The request then has no log line of its own. */
    isCounted: boolean;
  }
}

const intervalMs = 1_000;

interface Counted {
  message: string;
  cause: Record<string, unknown> | undefined;
  count: number;
  example: string;
}

/**
 * Logs requests that get the response 503. Thousands of requests per second can get 503. Therefore writes at most one
 * log line per second, with the number of requests for each reason.
 */
class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #reasons = new Map<string, Counted>();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: FastifyBaseLogger) {
    this.#log = log;
  }

  add(request: FastifyRequest, error: DomainError): void {
    request.isCounted = true;
    const cause = error.cause === undefined ? undefined : withoutStack(error.cause);
    const name = `${error.message} ${String(cause?.['code'])}`;
    const counted = this.#reasons.get(name) ?? { message: error.message, cause, count: 0, example: request.id };
    counted.count += 1;
    this.#reasons.set(name, counted);
    if (!this.#timer) this.flush();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#reasons.size === 0) return;
    const reasons = [...this.#reasons.values()];
    this.#reasons.clear();
    this.#log.warn({ count: reasons.reduce((sum, { count }) => sum + count, 0), reasons }, 'requests not answered');
    this.#timer = setTimeout(() => this.flush(), intervalMs).unref();
  }
}

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

export default plugin({ name: 'error-handler' }, async (app) => {
  const refusals = new RefusalLog(app.log);
  app.decorate('refusals', refusals);
  app.decorateRequest('isCounted', false);
  app.addHook('onClose', async () => refusals.flush());
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) => sendError(noRoute(), request, reply));
});

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

function refuse({ credential, reason }: Unauthorized, request: FastifyRequest, reply: FastifyReply): void {
  request.log.info({ credential, reason }, 'refused');
  const scheme = { key: 'X-API-Key', session: 'Bearer', login: undefined }[credential];
  const isForm = reason === 'missing' || reason === 'wrong_scheme';
  if (scheme) void reply.header('www-authenticate', isForm ? `${scheme} error="${reason}"` : scheme);
}

/**
 * Returns the record ids that an error response contains. `matching_ids`: several records that match a value, although
 * only one may match. `merged_into`: the record into which the requested one was merged.
 */
const idsIn = ({ matchingIds, mergedInto }: DomainError): object => ({
  ...(matchingIds ? { matching_ids: matchingIds } : {}),
  ...(mergedInto === undefined ? {} : { merged_into: mergedInto }),
});

function toDomainError(thrown: unknown, request: FastifyRequest): DomainError | undefined {
  if (thrown instanceof DomainError) return thrown;
  return frameworkErrors[(thrown as FastifyError | undefined)?.code ?? '']?.(request) ?? fromDatabase(thrown);
}

const maxBytes = 64 * 1024;

export interface ErrorAnswer {
  status: number;
  code: string;
  message: string;
  faults?: readonly Fault[];
  more?: object;
}

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
