import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** An error response that is sent without Fastify, because the request has no route. */
export type Refusal = readonly [status: number, code: string, message: string];

/** The responses to errors of Node's HTTP parser, by Node's error code. */
const refusals: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time'],
};
const malformed: Refusal = [400, 'validation_failed', 'The request is not valid HTTP'];

/** The response object of the latest request of each connection. */
const latest = new WeakMap<Duplex, ServerResponse>();

/** The diagnostics channel on which Node announces each HTTP request of this process, before any handler runs. */
const requestStart = 'http.server.request.start';

/**
 * Starts to record the latest request of each connection, for all HTTP servers of the process.
 * @returns a function that stops recording
 */
export function watchRequests(): () => void {
  const note = (message: unknown): void => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    latest.set(request.socket, response);
  };
  subscribe(requestStart, note);
  return () => void unsubscribe(requestStart, note);
}

/** The response objects of requests that may take longer to arrive than other requests. */
const patient = new WeakSet<ServerResponse>();

/**
 * Exempts a request from the server's time limit for the arrival of a whole request (`requestTimeout`), until its response
 * starts.
 */
export const exemptFromTimeout = (response: ServerResponse): void => void patient.add(response);

function isExempt(socket: Socket): boolean {
  const response = latest.get(socket);
  return response !== undefined && patient.has(response) && !response.headersSent;
}

/**
 * Sends an error response to a request that is not valid HTTP, and closes its connection. Sends nothing if the caller
 * could take this for the response to another request.
 */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isExempt(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable || !isNextToAnswer(socket)) return void socket.destroy();
  answerOnSocket(socket, refusals[error.code ?? ''] ?? malformed, randomUUID());
}

/**
 * Returns true if the caller of an invalid request would take a response sent now on this connection as the response to
 * that request, because all earlier requests have been answered.
 */
function isNextToAnswer(socket: Socket): boolean {
  const response = latest.get(socket);
  if (!response) return true;
  if (response.req.complete) return response.writableFinished;
  // The fault is in the body of the latest request, so that request is the faulty one.
  return !response.headersSent && response.socket !== null; // null while earlier responses are pending
}

/** Returns the JSON body of an error response. */
export const bodyOf = ([statusCode, code, message]: Refusal): string =>
  JSON.stringify({ statusCode, error: STATUS_CODES[statusCode], code, message });

/** Milliseconds that a caller has to read an error response before its connection is closed by force. */
const lingering = 5_000;

/**
 * Writes an error response directly to a connection that Node's HTTP server no longer handles. Then closes the
 * connection, by force after five seconds.
 */
export function answerOnSocket(socket: Duplex, refusal: Refusal, requestId: string, headers: string[] = []): void {
  const [status] = refusal;
  const body = bodyOf(refusal);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
    ...headers,
  ];
  const timer = setTimeout(() => socket.destroy(), lingering).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.resume(); // discards further data, so that the end of the stream is noticed
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
