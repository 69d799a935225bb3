import { isUtf8 } from 'node:buffer';
import type { FastifyRequest, FastifyInstance, FastifyReply } from 'fastify';
import { plugin } from './plugin.ts';
import type { IncomingMessage } from 'node:http';
import { finished, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { DomainError, validationFailed, type Fault, unavailable } from '../errors.ts';
import { yieldToEventLoop, TimeSlice } from '../process/event-loop.ts';
import { NoBody } from '../schemas/wire.ts';
import { parseJson, findUnstorableText } from '../text/json.ts';
import { compile, type Validator, checkItems } from '../validation/validator.ts';
import { isGzipFault } from '../files/encodings.ts';
import { ConcurrencyLimiter, FairSemaphore } from '../access/concurrency-limiter.ts';
import type { Batch, Outcome, ReadOutcome } from '../queries/records/batches.ts';
import { batchStatuses, maxBatchFaults } from '../schemas/batches.ts';
import type { batchAnswer, BatchAnswer, BatchBody, BatchKind, BatchOperation } from '../schemas/batches.ts';
import { cutText } from './error-handler.ts';

declare module 'fastify' {
  interface FastifyRequest {
    bodyBytes: Buffer;
  }
  interface FastifyContextConfig {
    takesFile?: true;
  }
}

/** Size from which a body counts as large (bytes). Large bodies are parsed one per round of the event loop. */
const largeBytes = 1024 * 1024;

const nothing = Buffer.alloc(0);

/**
 * Fastify plugin that parses request bodies as JSON. An empty or missing body is treated as `{}`. If a route declares
 * no schema for the body, only `{}` is accepted.
 */
export const jsonBody = plugin({ name: 'json-body', dependencies: ['services', 'requester'] }, async (app) => {
  app.decorateRequest('bodyBytes');
  app.addHook('onRequest', (request, _reply, done) => {
    request.bodyBytes = nothing;
    if (hasOtherType(request) && !hasBody(request)) request.headers = { 'content-type': undefined };
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    request.bodyBytes = bytes;
    if (bytes.length === 0) return done(null, undefined);
    if (isEncoded(request)) return done(new DomainError('unsupported_media_type', 'The body must not be compressed'));
    const parse = (): void => {
      if (!isUtf8(bytes)) return done(refusal('is not valid UTF-8'));
      const { value, fault } = parseJson(withoutMark(bytes).toString());
      return fault === undefined ? done(null, value) : done(refusal(fault));
    };
    if (bytes.length <= largeBytes) return parse();
    // Large bodies that arrive together would block the event loop together.
    const { signal } = request.requester;
    return void yieldToEventLoop()
      .then(() => signal?.throwIfAborted())
      .then(parse, done);
  });
  app.addHook('onRoute', ({ schema, config }) => {
    if (schema?.response && !config?.takesFile) schema.body ??= NoBody;
  });
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body === undefined && request.routeOptions.schema?.body) request.body = {};
    done();
  });
});

const refusal = (fault: string): DomainError => validationFailed([{ path: '', message: `the body ${fault}` }]);

const hasOtherType = ({ headers: { 'content-type': type }, server }: FastifyRequest): boolean =>
  type !== undefined && (type !== 'application/json' || !server.hasContentTypeParser(type));

const hasBody = ({ headers }: FastifyRequest): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

function isEncoded({ headers }: FastifyRequest): boolean {
  const encoding = headers['content-encoding'];
  return encoding !== undefined && encoding.trim().toLowerCase() !== 'identity';
}

const withoutMark = (text: Buffer): Buffer =>
  text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? text.subarray(3) : text;

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True if the request body is a batch. Then an invalid item in its array `items` does not make the whole body
     * invalid.
     */
    isBatch?: true;
  }
}

export const validation = plugin({ name: 'validation', dependencies: ['json-body'] }, async (app) => {
  app.setValidatorCompiler(({ schema }) => compile(schema as object));
  app.addHook('preValidation', refuseUnstorableText);
});

/**
 * Rejects a request body that contains text which PostgreSQL cannot store, such as the character U+0000. Does not check
 * the items of a batch, because each item is validated separately.
 */
async function refuseUnstorableText(request: FastifyRequest): Promise<void> {
  // The body is valid UTF-8, so only a `\u` escape can produce such text.
  if (!request.bodyBytes.includes(String.raw`\u`)) return;
  const isBatch = request.routeOptions.config.isBatch === true;
  const unstorable = findUnstorableText(isBatch ? withoutItems(request.body) : request.body);
  if (unstorable.length === 0) return;
  const validate = request.getValidationFunction('body') as unknown as Validator | undefined;
  const paths = new Set(unstorable.map(({ path }) => path));
  const others = validate?.faultsOf(request.body).filter(({ path }) => !paths.has(path)) ?? [];
  throw validationFailed([...unstorable, ...others]);
}

const withoutItems = (body: unknown): unknown =>
  typeof body === 'object' &&
  body !== null &&
  !Array.isArray(body) &&
  Array.isArray((body as { items?: unknown }).items)
    ? { ...body, items: [] }
    : body;

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
 * Streams the file in the body of a request in chunks, so it is never completely in memory. Decompresses the file if
 * the request has the header `Content-Encoding: gzip`.
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

export async function batchOf<T extends BatchOperation>(
  { body, bodyBytes }: Pick<FastifyRequest<{ Body: BatchBody }>, 'body' | 'bodyBytes'>,
  kind: BatchKind,
  operation: T,
): Promise<Omit<Batch, 'operation'> & { operation: T }> {
  const { items, match = 'id', atomic: isAtomic = false, purge: isPurged = false } = body;
  // The body is valid UTF-8, so only a `\\u` escape can produce text that cannot be stored.
  const mayBeUnstorable = bodyBytes.includes(String.raw`\u`);
  return {
    operation,
    match,
    isAtomic,
    isPurged,
    items: await checkItems({ kind, operation, match, mayBeUnstorable }, items),
  };
}

/**
 * Limits how many responses with records are serialised at once. A response can have 13 MB, and many would block the
 * event loop.
 */
const recordAnswers = new ConcurrencyLimiter({ name: 'record_answers', limit: 2 });

/** Sends the results of a batch read. Serialises them one by one, with pauses in which other requests are served. */
export async function sendRecords(
  { requester: { customerId, signal } }: FastifyRequest,
  reply: FastifyReply,
  schema: ReturnType<typeof batchAnswer>,
  read: () => Promise<ReadOutcome<object>[]>,
): Promise<FastifyReply> {
  const textOf = reply.compileSerializationSchema(schema.properties.data.properties.results.items);
  return recordAnswers.run({ customerId, signal: signal! }, async () => {
    const { data, ...head } = answerOf(await read());
    const slice = new TimeSlice();
    const parts = [];
    for (const result of data.results) {
      if (slice.isOver) await slice.pause();
      parts.push(Buffer.from(`${parts.length > 0 ? ',' : ''}${textOf(result)}`));
    }
    const [start, end] = [JSON.stringify({ ...head, data: { counts: data.counts } }).slice(0, -2), ']}}'];
    const text = Buffer.concat([Buffer.from(`${start},"results":[`), ...parts, Buffer.from(end)]);
    return reply.type('application/json; charset=utf-8').send(text);
  });
}

export function answerOf(outcomes: readonly (Outcome | ReadOutcome<object>)[]): BatchAnswer {
  const counts = Object.fromEntries(batchStatuses.map((status) => [status, 0])) as BatchAnswer['data']['counts'];
  for (const { status } of outcomes) counts[status] += 1;
  const { failed } = counts;
  const message = failed === 0 ? 'Batch done' : `Batch done, ${failed} of ${outcomes.length} items failed`;
  return { success: failed === 0, message, data: { counts, results: resultsOf(outcomes) } };
}

function resultsOf(outcomes: readonly (Outcome | ReadOutcome<object>)[]): BatchAnswer['data']['results'] {
  let room = maxBatchFaults.inAll;
  return outcomes.map((outcome, index) => {
    if (outcome.status !== 'failed') return { index, ...outcome };
    const faults = outcome.error.faults.slice(0, Math.min(maxBatchFaults.ofItem, room));
    room -= faults.length;
    return { index, status: outcome.status, error: errorOf(outcome.error, faults) };
  });
}

const errorOf = ({ code, message, matchingIds }: DomainError, faults: Fault[]) => ({
  code,
  message: cutText(message),
  ...(faults.length > 0
    ? { errors: faults.map((fault) => ({ path: cutText(fault.path), message: cutText(fault.message) })) }
    : {}),
  ...(matchingIds ? { matching_ids: matchingIds } : {}),
});

/** Maximum size of a body that does not count toward the limit of memory (bytes). */
const smallBytes = 64 * 1024;

// After `auth`, which sets the request's customer.
/**
 * Fastify plugin that limits the memory for request bodies to `MAX_BUFFERED_MB`. One customer can use at most half of it.
 * A body without room is rejected with 503 before it is read. Files are streamed, so they do not count.
 */
export const bodyMemory = plugin({ name: 'body-memory', dependencies: ['auth', 'requester'] }, async (app) => {
  const memory = new FairSemaphore(app.config.MAX_BUFFERED_MB * 2 ** 20);
  app.addHook('preParsing', (request, reply, payload, done) => {
    const bytes = bodyBytes(request);
    const { customerId } = request.requester;
    if (bytes <= smallBytes || reply.raw.destroyed) return done(null, payload);
    if (!memory.tryTake(customerId, bytes)) return done(unavailable('The service is at its limit'));
    reply.raw.once('close', () => memory.release(customerId, bytes));
    return done(null, payload);
  });
});

function bodyBytes({ headers, routeOptions }: FastifyRequest): number {
  if (routeOptions.config.takesFile) return 0;
  const limit = routeOptions.bodyLimit;
  if (headers['transfer-encoding'] !== undefined) return limit;
  const length = Number(headers['content-length'] ?? 0);
  return length > limit ? 0 : length; // a body above the limit is rejected with 413 and not read
}
