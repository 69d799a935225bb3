import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { unavailable } from '../../errors.ts';
import { Gate, type Release } from '../../limits/gate.ts';
import { addressGroup } from '../../network/address-group.ts';
import { chunkBytes } from '../../queries/imports/import-files.ts';
import { serviceItself } from '../../credentials/requester.ts';

declare module 'fastify' {
  interface FastifyRequest {
    releaseBody: Release | undefined;
  }
}

/**
 * Fastify plugin that bounds the memory that request bodies and responses hold (`MAX_BUFFERED_MB`), and shares it
 * fairly between customers. A body for which there is no room is rejected with 503 before it is read. The response of a
 * read is then replaced by 503, and the response of a write waits for room. Files are streamed: an upload or a download
 * counts with the part of the file that is in memory, and is rejected with 503 at its start if there is no room.
 */
export default fp(
  async (app) => {
    const budget = new Gate({ name: 'buffers', limit: app.config.MAX_BUFFERED_MB * 2 ** 20 });
    // A body or response that is larger than half of the budget counts as half.
    const counted = (bytes: number): number => Math.min(bytes, budget.limit / 2);
    app.decorateRequest('releaseBody', undefined);
    app.addHook('preParsing', (request, reply, payload, done) => {
      const isDownload = sendsFile(request);
      const bytes = counted(bodyBytes(request) + (isDownload ? chunkBytes : 0));
      if (bytes === 0) return done(null, payload);
      const release = budget.tryTake(holderOf(request), bytes);
      if (!release) return done(noRoom());
      if (!isDownload) request.releaseBody = release;
      keep(reply, release);
      return done(null, payload);
    });
    app.addHook('onSend', (request, reply, payload, done) => {
      // The body is done with. Two requests that kept theirs while they wait for room would wait for each other.
      request.releaseBody?.();
      const bytes = counted(responseBytes(payload));
      // Malformed HTTP is refused before its request has a requester.
      if (bytes === 0 || reply.raw.destroyed || !request.requester) return done(null, payload);
      const holder = holderOf(request);
      const release = budget.tryTake(holder, bytes);
      if (release) keep(reply, release);
      else if (reply.statusCode < 400) {
        if (isRead(request)) return done(noRoom());
        const finish = () => done(null, payload); // also if the caller has hung up
        const reserved = budget.take({ customerId: holder, signal: closed(reply) }, bytes);
        return void reserved.then((late) => keep(reply, late)).then(finish, finish);
      }
      return done(null, payload); // counted, or an error: these are small, and sent in place of what has no room
    });
  },
  // After `auth`, which sets the request's customer.
  { name: 'buffer-budget', dependencies: ['auth', 'requester'] },
);

const noRoom = () => unavailable('The service is at its limit');

/** Keeps reserved bytes until the response is sent or the caller has hung up. */
function keep({ raw }: FastifyReply, release: Release): void {
  if (raw.destroyed || raw.writableFinished) release();
  else raw.once('close', release);
}

function closed({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  raw.once('close', () => controller.abort());
  return controller.signal;
}

const holderOf = ({ requester, address }: FastifyRequest): string =>
  requester.customerId === serviceItself ? `address ${addressGroup(address)}` : requester.customerId;

/**
 * Returns the number of bytes of a request body that are in memory at the same time: the size that the request
 * announces, or the limit of its route if it announces none. Of a file, only one chunk is in memory.
 */
function bodyBytes({ headers, routeOptions }: FastifyRequest): number {
  if (routeOptions.config.takesFile) return chunkBytes;
  const limit = routeOptions.bodyLimit;
  if (headers['transfer-encoding'] !== undefined) return limit;
  const length = Number(headers['content-length'] ?? 0);
  return length > limit ? 0 : length; // a body past the limit is rejected with 413, and not read
}

/**
 * Returns true if the response is a file. Its text is made and sent in pieces that are much smaller than `chunkBytes`,
 * and at most one piece is made before the caller has taken the one before. So `chunkBytes` is the room of a download.
 */
const sendsFile = ({ routeOptions: { config } }: FastifyRequest): boolean => !!config.isLong && !config.takesFile;

function responseBytes(payload: unknown): number {
  if (typeof payload === 'string') return Buffer.byteLength(payload);
  return Buffer.isBuffer(payload) ? payload.length : 0;
}

/** Returns true if a request only reads. Some writes need only the scope to read, such as the copy of a list. */
function isRead({ method, routeOptions }: FastifyRequest): boolean {
  const { access, idempotent } = routeOptions.config;
  if (method === 'GET' || method === 'HEAD') return true;
  return access !== undefined && 'scope' in access && access.scope.endsWith(':read') && !idempotent;
}
