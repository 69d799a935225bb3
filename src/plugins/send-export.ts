import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { columnsOf } from '../files/columns.ts';
import { fileText, recordWriter } from '../files/write-records.ts';
import { contentTypes, type FileFields, type FileFormat, type GivenFields } from '../schemas/files.ts';

/**
 * Sends records as a file while they are read. If reading fails half-way, or the time of the request is up, the
 * connection is broken, so that nobody takes the beginning of the file for all of it.
 * @param name the name of the file, without its ending
 * @param read starts to read the records, page by page
 */
export async function sendExport(
  { body, requester }: FastifyRequest<{ Body: { format: FileFormat; fields?: GivenFields } }>,
  reply: FastifyReply,
  { fields, name, read }: { fields: FileFields; name: string; read: () => Promise<AsyncGenerator<object[]>> },
): Promise<FastifyReply> {
  const { format } = body;
  const writer = recordWriter(format, columnsOf(fields, body.fields, format));
  // An error of the first page becomes an error response: nothing has been sent yet.
  const pages = await read();
  return reply
    .type(contentTypes[format])
    .header('content-disposition', `attachment; filename="${name}.${format}"`)
    .send(Readable.from(fileText(writer, pages), { signal: requester.signal! }));
}
