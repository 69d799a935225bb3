import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { randomUUID } from 'node:crypto';

/** What HTTP itself could not make sense of, so that no route and no hook ever sees it: its status, code and message. */
const refusals: Record<string, [status: number, code: string, message: string]> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time'],
};
const malformed = [400, 'validation_failed', 'The request is not valid HTTP'] as const;

/** Answers such a request in the words of the contract, and ends its connection. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const [statusCode, code, message] = refusals[error.code ?? ''] ?? malformed;
  const body = JSON.stringify({ statusCode, error: STATUS_CODES[statusCode], code, message });
  const head = [
    `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${randomUUID()}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
