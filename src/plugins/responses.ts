import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import type { FastifyReply, FastifyRequest, FastifySerializerCompiler, RouteOptions } from 'fastify';
import { plugin } from './plugin.ts';
import { Readable } from 'node:stream';
import type { Access } from '../schemas/scopes.ts';
import { ApprovalNeeded } from '../schemas/accounts.ts';
import { ErrorBody, Refusal } from '../schemas/wire.ts';
import { CallerHungUp } from '../access/credentials.ts';
import { openExport, type ExportedRecords, type ExportRequest } from '../files/write-records.ts';
import { contentTypes } from '../schemas/files.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if the route responds to an unknown id with 200 and the body `null`, instead of with 404. */
    nullForUnknown?: true;
  }
}

/**
 * Fastify plugin that requires every route to declare its responses. An undeclared success status becomes an error,
 * because the fields of its body would not be filtered.
 */
export default plugin({ name: 'declared-responses' }, async (app) => {
  app.setSerializerCompiler(serializerOf);
  app.addHook('onRoute', (route) => {
    if (route.schema?.hide) return;
    if (!route.schema?.response)
      throw new Error(`${String(route.method)} ${route.url} does not declare its responses: add schema.response`);
    route.schema.response = { ...commonErrorsByStatus(route), ...route.schema.response };
  });
  // Not preSerialization: that hook is called for objects only.
  app.addHook('onSend', (request, reply, payload, done) => {
    const declared = request.routeOptions.schema?.response as Record<number, unknown> | undefined;
    const isSlip = reply.statusCode < 400 && declared && !(reply.statusCode in declared);
    if (isSlip) done(undeclared(request, reply));
    else done(null, payload);
  });
});

const compileSerializer = SerializerSelector()({}, {});
const serializers = new WeakMap<object, ReturnType<typeof compileSerializer>>();

/** Returns a serializer that is compiled at its first use. All routes that send the schema share it. */
const serializerOf: FastifySerializerCompiler<object> = (route) => (value) => {
  let serialize = serializers.get(route.schema);
  if (!serialize) serializers.set(route.schema, (serialize = compileSerializer(route as never)));
  return serialize(value);
};

const undeclared = ({ method, routeOptions }: FastifyRequest, { statusCode }: FastifyReply): Error =>
  new Error(`${method} ${routeOptions.url} sends the undeclared status ${statusCode}`);

function commonErrorsByStatus(route: RouteOptions): Record<number, unknown> {
  const access: Access | undefined = route.config?.access;
  const guarded = access !== undefined && !('public' in access);
  const withBody = route.schema?.body !== undefined;
  return {
    ...(withBody || route.schema?.params ? { 400: ErrorBody } : {}),
    ...(guarded ? { 401: Refusal, 403: Refusal, 429: ErrorBody } : {}),
    ...(route.schema?.params && !route.config?.nullForUnknown ? { 404: ErrorBody } : {}),
    ...(route.config?.mayNeedApproval ? { 202: ApprovalNeeded } : {}),
    ...(route.config?.idempotent ? { 409: ErrorBody, 422: ErrorBody } : {}),
    ...(withBody ? { 413: ErrorBody, 415: ErrorBody } : {}),
    500: ErrorBody,
    503: ErrorBody,
  };
}

interface StreamedFile {
  /** Starts to read the file. If it throws, the caller gets an error response. Not called for a HEAD request. */
  read: () => Promise<AsyncIterable<string | Buffer>>;
  type: string;
  name: string;
  noun: string;
}

/**
 * Streams a file as the response. If reading fails or the request times out, closes the connection before the end, so
 * that the caller can detect an incomplete file.
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
  // RFC 6266 writes a name with other than ASCII characters in another way.
  const given = /^[\w .-]+$/.test(name) ? `="${name}"` : `*=UTF-8''${encodeURIComponent(name)}`;
  return reply.type(type).header('content-disposition', `attachment; filename${given}`).send(file);
}

/**
 * Logs a file that was not sent completely. The status of the response does not show this, because it was sent before
 * the file.
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

export async function sendExport(
  request: FastifyRequest,
  reply: FastifyReply,
  records: ExportedRecords,
  asked: ExportRequest,
  name = records.title.toLowerCase(),
): Promise<FastifyReply> {
  const { format } = asked;
  return sendFile(request, reply, {
    read: () => openExport(records, asked),
    type: contentTypes[format],
    name: `${name}.${format}`,
    noun: 'export',
  });
}
