import type { FastifyReply, FastifyRequest } from 'fastify';
import { openExport, type ExportedRecords } from '../../files/open-export.ts';
import { contentTypes, type ExportFormat, type GivenFields } from '../../schemas/files.ts';
import { sendFile } from './send-file.ts';

/**
 * Streams records as a file while they are read from the database. If reading fails or the request times out, the
 * connection is closed before the end of the response. So the caller can detect that the file is incomplete.
 */
export async function sendExport(
  request: FastifyRequest,
  reply: FastifyReply,
  records: ExportedRecords,
  asked: { format: ExportFormat; fields?: GivenFields },
): Promise<FastifyReply> {
  const { format } = asked;
  return sendFile(request, reply, {
    read: () => openExport(records, asked),
    type: contentTypes[format],
    name: `${records.title.toLowerCase()}.${format}`,
    noun: 'export',
  });
}
