import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * An error response that is sent without Fastify, because Fastify does not handle the request (for example malformed
 * HTTP).
 */
export type Refusal = readonly [status: number, code: string, message: string];

/** The error responses for requests that Node's HTTP parser rejects, by Node's error code. */
const refusals: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time'],
};
const malformed: Refusal = [400, 'validation_failed', 'The request is not valid HTTP'];

/** For each connection, the response object of the latest request on the connection. */
const latest = new WeakMap<Duplex, ServerResponse>();

/** The diagnostics channel on which Node announces each HTTP request of this process, before any handler runs. */
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

/** The response objects of requests that are exempt from the server's `requestTimeout`, for example file uploads. */
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

/** Sends an error response to a request that is not valid HTTP, and closes the connection. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isExempt(socket)) return;
  if (error.code === 'ECONNRESET') return void socket.destroy();
  refuseOnSocket(socket, refusals[error.code ?? ''] ?? malformed, randomUUID());
}

/**
 * Sends an error response on a connection that Node's HTTP server no longer handles, and closes the connection. If the
 * caller could mistake the error response for the response to an earlier request, closes the connection without a
 * response.
 */
export function refuseOnSocket(socket: Socket, refusal: Refusal, requestId: string, headers: string[] = []): void {
  if (!socket.writable || !isNextToAnswer(socket)) return void socket.destroy();
  answerOnSocket(socket, refusal, requestId, headers);
}

/**
 * Returns true if all requests before the invalid request have got their responses. Only then does the caller
 * understand that an error response belongs to the invalid request.
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

/** Time between an error response and the forced close of the connection (ms). */
const lingering = 5_000;

/**
 * Writes an error response directly to a connection, and closes the connection. After five seconds, the connection is
 * closed by force.
 */
function answerOnSocket(socket: Duplex, refusal: Refusal, requestId: string, headers: string[]): void {
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
