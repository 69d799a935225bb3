import type { FastifyReply, FastifyRequest } from 'fastify';
import { columnsOf } from '../../files/columns.ts';
import { fileText, recordWriter } from '../../files/write-records.ts';
import { contentTypes, type FileFields, type FileFormat, type GivenFields } from '../../schemas/files.ts';
import { sendText } from './send-file.ts';

/** A request to export records of any kind as a file. */
type ExportRequest = FastifyRequest<{ Body: { format: FileFormat; fields?: GivenFields } }>;

/**
 * Streams records as a file while they are read from the database. If reading fails or the request times out, the
 * connection is closed before the end of the response. So the caller can detect that the file is incomplete.
 * @param name The file name without its extension.
 * @param read Starts to read the records. Returns them page by page.
 */
export async function sendExport(
  request: ExportRequest,
  reply: FastifyReply,
  { fields, name, read }: { fields: FileFields; name: string; read: () => Promise<AsyncGenerator<object[]>> },
): Promise<FastifyReply> {
  const { format, fields: given } = request.body;
  const writer = recordWriter(format, columnsOf(fields, given, format));
  const readText = async () => fileText(writer, await read());
  return sendText(request, reply, {
    read: readText,
    type: contentTypes[format],
    name: `${name}.${format}`,
    noun: 'export',
  });
}
