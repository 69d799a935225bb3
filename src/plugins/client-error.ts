import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** An error response that is sent without a route or a hook. */
export type Refusal = readonly [status: number, code: string, message: string];

/** Responses to Node's HTTP parser errors, by error code. */
const refusals: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time'],
};
const malformed: Refusal = [400, 'validation_failed', 'The request is not valid HTTP'];

/** The response to the latest request of each connection. */
const latest = new WeakMap<Duplex, ServerResponse>();

/** Node publishes each request of each HTTP server of the process here, before any handler runs. */
const requestStart = 'http.server.request.start';

/**
 * Records the latest request of each connection, so that no request gets a second response. The `request` event of the
 * main server is not enough: with HOST=localhost Fastify opens a second server for the other address.
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

/**
 * Answers a request that is not valid HTTP with an error body of the contract, and closes its connection. Closes
 * without an answer if the caller could take it for the response to another request.
 */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || !isNextToAnswer(socket)) return void socket.destroy();
  answerOnSocket(socket, refusals[error.code ?? ''] ?? malformed, randomUUID());
}

/**
 * Returns whether the next response on a connection belongs to the faulty request: all earlier requests are answered,
 * and the latest is either one of them or has the fault in its body.
 */
function isNextToAnswer(socket: Socket): boolean {
  const response = latest.get(socket);
  if (!response) return true;
  if (response.req.complete) return response.writableFinished;
  return !response.headersSent && response.socket !== null; // null while earlier responses are pending
}

/** Returns the JSON error body of a refusal. */
export const bodyOf = ([statusCode, code, message]: Refusal): string =>
  JSON.stringify({ statusCode, error: STATUS_CODES[statusCode], code, message });

/** How long a caller may take to read its response and close the connection (ms). */
const lingering = 5_000;

/**
 * Writes an error response to a connection that Node's HTTP server no longer handles, then closes the connection, even
 * if the caller does not.
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
