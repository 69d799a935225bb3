import type { FastifyReply, FastifyRequest } from 'fastify';
import { openExport, type ExportedRecords } from '../../files/open-export.ts';
import { contentTypes, type ExportFormat, type GivenFields } from '../../schemas/files.ts';
import { sendFile } from './send-file.ts';

/** A request to export records of any kind as a file. */
type ExportRequest = FastifyRequest<{ Body: { format: ExportFormat; fields?: GivenFields } }>;

/**
 * Streams records as a file while they are read from the database. If reading fails or the request times out, the
 * connection is closed before the end of the response. So the caller can detect that the file is incomplete.
 */
export async function sendExport(
  request: ExportRequest,
  reply: FastifyReply,
  records: ExportedRecords,
): Promise<FastifyReply> {
  const { format } = request.body;
  return sendFile(request, reply, {
    read: () => openExport(records, request.body),
    type: contentTypes[format],
    name: `${records.title.toLowerCase()}.${format}`,
    noun: 'export',
  });
}
