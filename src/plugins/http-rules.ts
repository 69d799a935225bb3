import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import fp from 'fastify-plugin';
import { validationFailed, type DomainError } from '../errors.ts';
import { bodyOf, refuseOnSocket, watchRequests, type Refusal } from './answers/client-error.ts';
import { requestId } from './watching/request-log.ts';

/**
 * Fastify plugin that rejects requests which violate rules of HTTP (RFC 9110 and 9112) that Node does not check. Also
 * replaces some of Node's error responses by responses in the format of this API.
 */
export default fp(
  async (app) => {
    app.addHook('onRequest', (request, reply, done) => {
      const fault = faultOf(request.raw);
      if (fault) void reply.header('connection', 'close'); // sender and proxy may disagree where the next request begins
      done(fault);
    });
    const unwatch = watchRequests();
    app.addHook('onClose', async () => unwatch());
    // Without these listeners Node destroys the socket of a CONNECT, and a socket error ends the process.
    app.server.on('connect', (request, socket) => {
      socket.on('error', () => socket.destroy());
      refuseOnSocket(socket as Socket, connectRefusal, requestId(request), ['allow: ']);
    });
    app.server.on('checkExpectation', refuseExpectation);
  },
  { name: 'http-rules' },
);

const connectRefusal: Refusal = [405, 'method_not_allowed', 'CONNECT is not supported: this service is not a proxy'];
const expectationRefusal: Refusal = [417, 'expectation_failed', 'The only supported expectation is 100-continue'];

function refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
  const [status] = expectationRefusal;
  const body = bodyOf(expectationRefusal);
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'x-request-id': requestId(request),
    connection: 'close',
  };
  response.writeHead(status, headers).end(body);
}

/**
 * Request headers that may occur only once. If such a header occurred twice, a proxy and this service could use
 * different values.
 */
const single = new Set(['host', 'authorization', 'content-type', 'idempotency-key']);

/** Returns an error if a request violates a rule of HTTP, otherwise undefined. */
function faultOf({ headers, rawHeaders, httpVersion }: IncomingMessage): DomainError | undefined {
  if (headers.host === undefined && httpVersion === '1.1') return refusal('the header Host is missing');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return refusal('the only supported Transfer-Encoding is chunked');
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (single.has(name) && seen.size === seen.add(name).size) return refusal(`the header ${name} is sent twice`);
  }
  return undefined;
}

const refusal = (message: string): DomainError => validationFailed([{ path: '', message }]);
