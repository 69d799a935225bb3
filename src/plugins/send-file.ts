import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerHungUp } from '../requester.ts';

/** A text file that is sent while it is read. */
interface TextFile {
  lines: AsyncIterable<string>;
  /** Its content type. */
  type: string;
  name: string;
  /** What log lines call it. */
  noun: string;
}

/**
 * Sends a file while it is read. If reading fails half-way, or the time of the request is up, the connection is broken,
 * so that nobody takes the beginning of the file for all of it.
 */
export function sendText(
  request: FastifyRequest,
  reply: FastifyReply,
  { lines, type, name, noun }: TextFile,
): FastifyReply {
  const file = Readable.from(lines, { signal: request.requester.signal! });
  file.once('close', () => logCut(request, file, noun));
  return reply.type(type).header('content-disposition', `attachment; filename="${name}"`).send(file);
}

/** Logs that a file ended before its end. Its response has no status for that, so it has no other log line. */
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
