import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerHungUp } from '../../credentials/requester.ts';

interface StreamedFile {
  /** Starts to read the file. An error becomes an error response. Not called for a HEAD request. */
  read: () => Promise<AsyncIterable<string | Buffer>>;
  type: string;
  name: string;
  /** The word for this kind of file in log lines, such as `export`. */
  noun: string;
}

/**
 * Streams a file as the response. If reading fails or the request times out, the connection is closed before the
 * end of the response. So the caller can detect that the file is incomplete.
 */
export async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { read, type, name, noun }: StreamedFile,
): Promise<FastifyReply> {
  // Fastify would read the whole file of a HEAD request, to drop it. An empty stream gets no `Content-Length`.
  const pieces = request.method === 'HEAD' ? [] : await read();
  const file = Readable.from(pieces, { signal: request.requester.signal! });
  file.once('close', () => logCut(request, file, noun));
  return reply.type(type).header('content-disposition', `attachment; filename="${name}"`).send(file);
}

/**
 * Writes a log line if a file was not sent completely. The status of the response was already sent, so it does not show
 * the failure.
 */
function logCut(
  { log, caller: { customerId: customer }, requester: { signal } }: FastifyRequest,
  file: Readable,
  noun: string,
): void {
  if (file.readableEnded) return;
  const error: unknown = signal!.aborted ? signal!.reason : file.errored;
  if (error instanceof CallerHungUp) log.info({ customer }, `${noun} cut: the caller has hung up`);
  else log.warn({ customer, err: (error as Error | null)?.cause ?? error }, `${noun} cut: it failed half-way`);
}
