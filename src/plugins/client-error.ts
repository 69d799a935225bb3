import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import { randomUUID } from 'node:crypto';

/** An error answer that no route and no hook can give. */
export type Refusal = readonly [status: number, code: string, message: string];

/** What HTTP itself could not make sense of. */
const refusals: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time'],
};
const malformed: Refusal = [400, 'validation_failed', 'The request is not valid HTTP'];

/** The answer to the latest request of each connection. */
const latest = new WeakMap<Duplex, ServerResponse>();

/** Node publishes each request of each HTTP server of the process here, before any handler runs. */
const requestStart = 'http.server.request.start';

/**
 * Notes each request, so that none gets a second answer. An event of the main server would not do: with HOST=localhost
 * Fastify opens a second server for the other address.
 * @returns a function that ends this
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
 * Answers what is no valid request in the words of the contract, and ends its connection. Where the caller would take this
 * for the answer to another request, the connection ends without it.
 */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || !isNextToAnswer(socket)) return void socket.destroy();
  answerOnSocket(socket, refusals[error.code ?? ''] ?? malformed, randomUUID());
}

/** Whether every request before has its answer, and the latest is either that or has a fault in its body. */
function isNextToAnswer(socket: Socket): boolean {
  const response = latest.get(socket);
  if (!response) return true;
  if (response.req.complete) return response.writableFinished;
  return !response.headersSent && response.socket !== null; // null while it waits for the answers before
}

/** The error body of a refusal, as JSON. */
export const bodyOf = ([statusCode, code, message]: Refusal): string =>
  JSON.stringify({ statusCode, error: STATUS_CODES[statusCode], code, message });

/** How long a caller has to take its answer and close the connection, in ms. */
const lingering = 5_000;

/** Writes an answer on a connection that HTTP no longer handles, and ends the connection, whether or not the caller does. */
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
  socket.resume(); // what is still sent would keep the end from being seen
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
