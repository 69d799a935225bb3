import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../errors.ts';

/**
 * Lets the routes of this Fastify instance take files as request bodies: of any content type, and not read before the
 * handler does it with `fileOf`.
 */
export function takeFiles(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _body, done) => done(null, undefined));
}

/**
 * Returns the file in the body of a request as pieces, unpacked if it was sent with `Content-Encoding: gzip`. No piece is
 * read before it is needed, so the memory is constant. If the caller of this function stops early, the rest of the body is
 * discarded.
 * @param maxBytes maximum size of the file, unpacked
 * @throws payload_too_large as soon as the file is known to be larger; unsupported_media_type for another encoding
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
  for await (const piece of isPacked ? unpacked(raw) : piecesOf(raw)) {
    bytes += piece.length;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    yield piece;
  }
}

/** Returns the pieces of a stream. The stream is not destroyed when the loop over them ends early. */
const piecesOf = (stream: Readable): AsyncIterable<Buffer> => stream.iterator({ destroyOnReturn: false });

async function* unpacked(raw: IncomingMessage): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  const fail = (error: Error) => void gunzip.destroy(error);
  // Not `pipeline`: it would destroy the request with the stream, which closes the connection before the response.
  raw.once('error', fail).pipe(gunzip);
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (error) {
    if (!isGzipFault(error)) throw error;
    throw validationFailed([{ path: '', message: 'the body is not valid gzip' }]);
  } finally {
    raw.unpipe(gunzip).off('error', fail);
  }
}

const isGzipFault = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('Z_');
