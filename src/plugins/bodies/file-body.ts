import type { IncomingMessage } from 'node:http';
import { finished, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../../errors.ts';

const anyFile = 'application/octet-stream';

/**
 * Lets all routes of this Fastify instance receive files of any content type as request bodies. Fastify does not read
 * such a body: the route handler must read it with `fileOf`.
 */
export function takeFiles(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(anyFile, (_request, _body, done) => done(null, undefined));
  // Fastify rejects a content type that is no media type, also if a parser takes all types.
  app.addHook('onRequest', (request, _reply, done) => {
    if (/^\s*multipart\//i.test(request.headers['content-type'] ?? '')) return done(formRefused());
    request.headers = { 'content-type': anyFile };
    done();
  });
}

// Its boundaries would be read as records.
const formRefused = (): DomainError =>
  new DomainError('unsupported_media_type', 'Send the bytes of the file as the body (curl -T FILE), not a form');

/**
 * Streams the file in the body of a request. Decompresses the file if the request has the header `Content-Encoding:
 * gzip`. The file is read piece by piece, so it is never completely in memory.
 * @param maxBytes The maximum size of the decompressed file.
 * @throws DomainError `payload_too_large` if the file is larger than `maxBytes`.
 * @throws DomainError `unsupported_media_type` if the file has a content encoding other than gzip.
 */
export function fileOf({ raw, headers }: FastifyRequest, maxBytes: number): AsyncGenerator<Buffer> {
  const isPacked = isGzip(headers['content-encoding']);
  if (!isPacked && Number(headers['content-length']) > maxBytes) throw tooLarge(maxBytes);
  return readFile(raw, { isPacked, maxBytes });
}

function isGzip(encoding: string | undefined): boolean {
  switch (encoding?.trim().toLowerCase() ?? 'identity') {
    case 'identity':
    case '':
      return false;
    case 'gzip':
    case 'x-gzip':
      return true;
    default:
      throw new DomainError('unsupported_media_type', 'The file must be sent as it is or with Content-Encoding: gzip');
  }
}

const tooLarge = (maxBytes: number): DomainError =>
  new DomainError('payload_too_large', `The file is larger than ${maxBytes / 1024 / 1024} MiB`);

async function* readFile(
  raw: IncomingMessage,
  { isPacked, maxBytes }: { isPacked: boolean; maxBytes: number },
): AsyncGenerator<Buffer> {
  let bytes = 0;
  try {
    for await (const piece of isPacked ? unpacked(raw) : piecesOf(raw)) {
      bytes += piece.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield piece;
    }
  } finally {
    // Discards the rest of a refused file: a caller who still sends when the connection closes would not get the response.
    raw.resume();
  }
}

/** Returns an iterator over the chunks of a stream. Does not destroy the stream if the iteration ends early. */
const piecesOf = (stream: Readable): AsyncIterable<Buffer> => stream.iterator({ destroyOnReturn: false });

async function* unpacked(raw: IncomingMessage): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  // Not `pipeline`: it would destroy the request with the stream, which closes the connection before the response.
  raw.pipe(gunzip);
  // The caller may have hung up before: a listener for errors would then wait for ever.
  const unwatch = finished(raw, { writable: false }, (error) => {
    if (error) gunzip.destroy(error);
  });
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (error) {
    if (!isGzipFault(error)) throw error;
    throw validationFailed([{ path: '', message: 'the body is not valid gzip' }]);
  } finally {
    unwatch();
    raw.unpipe(gunzip);
  }
}

const isGzipFault = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('Z_');
