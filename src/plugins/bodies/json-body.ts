import { isUtf8 } from 'node:buffer';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { DomainError, validationFailed } from '../../errors.ts';
import { yieldToEventLoop } from '../../process/event-loop.ts';
import { NoBody } from '../../schemas/base/wire.ts';
import { parseJson } from '../../text/parse-json.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The unparsed bytes of the request body. Empty if the request has no body. */
    bodyBytes: Buffer;
  }
  interface FastifyContextConfig {
    /** True if the request body is a file. Such a body is neither parsed nor validated (see `file-body.ts`). */
    takesFile?: true;
  }
}

/** A body of more bytes is large. Large bodies are parsed one per round of the event loop. */
const largeBytes = 1024 * 1024;

const nothing = Buffer.alloc(0);

/**
 * Fastify plugin that parses request bodies as JSON. An empty or missing body is treated as `{}`. If a route declares
 * no schema for the body, only `{}` is accepted.
 */
export default fp(
  async (app) => {
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
  },
  { name: 'json-body', dependencies: ['services', 'requester'] },
);

const refusal = (fault: string): DomainError => validationFailed([{ path: '', message: `the body ${fault}` }]);

const hasOtherType = ({ headers: { 'content-type': type }, server }: FastifyRequest): boolean =>
  type !== undefined && (type !== 'application/json' || !server.hasContentTypeParser(type));

/** Returns false if a request has no body. Its content type does not matter then. */
const hasBody = ({ headers }: FastifyRequest): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** Returns true if the body has a content encoding, such as gzip (RFC 9110 §8.4). */
function isEncoded({ headers }: FastifyRequest): boolean {
  const encoding = headers['content-encoding'];
  return encoding !== undefined && encoding.trim().toLowerCase() !== 'identity';
}

/** Returns a UTF-8 text without the byte order mark at its start. */
const withoutMark = (text: Buffer): Buffer =>
  text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? text.subarray(3) : text;
