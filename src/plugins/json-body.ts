import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { DomainError, validationFailed } from '../errors.ts';
import { NoBody } from '../schemas/wire.ts';
import { countMembers, maxJsonDepth, shapeOf } from '../text/json-text.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The bytes of the request body as they were sent; empty if there was no body. */
    bodyBytes: Buffer;
  }
  interface FastifyContextConfig {
    /** Whether the body is a file (file-body.ts), so it is neither parsed nor validated. */
    takesFile?: true;
  }
}

const nothing = Buffer.alloc(0);
const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Parses request bodies as JSON. An empty or missing body counts as `{}`. A route that declares no body accepts only
 * `{}`.
 */
export default fp(
  async (app) => {
    const parse = app.getDefaultJsonParser('error', 'error');
    app.decorateRequest('bodyBytes');
    app.addHook('onRequest', (request, _reply, done) => {
      request.bodyBytes = nothing;
      done();
    });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
      request.bodyBytes = bytes as Buffer;
      if (bytes.length === 0) return done(null, undefined);
      if (isEncoded(request)) return done(new DomainError('unsupported_media_type', 'The body must not be compressed'));
      const text = decode(bytes as Buffer);
      if (text === undefined) return done(refusal('the body is not valid UTF-8'));
      const { depth, names } = shapeOf(bytes as Buffer);
      if (depth > maxJsonDepth) return done(refusal(`the body is nested deeper than ${maxJsonDepth} levels`));
      void parse(request, text, (error, value) => {
        if (error) return done(refusal('the body is not valid JSON'));
        if (countMembers(value) < names) return done(refusal('an object of the body names the same property twice'));
        return done(null, value);
      });
    });
    app.addHook('onRoute', ({ schema, config }) => {
      if (schema?.response && !config?.takesFile) schema.body ??= NoBody;
    });
    app.addHook('preValidation', (request, _reply, done) => {
      if (request.body === undefined && request.routeOptions.schema?.body) request.body = {};
      done();
    });
  },
  { name: 'json-body' },
);

const refusal = (message: string): DomainError => validationFailed([{ path: '', message }]);

/** Returns whether the body is compressed or otherwise encoded, such as with gzip (RFC 9110 §8.4). */
function isEncoded({ headers }: FastifyRequest): boolean {
  const encoding = headers['content-encoding'];
  return encoding !== undefined && encoding.trim().toLowerCase() !== 'identity';
}

/** Decodes UTF-8 bytes to text. Returns undefined if the bytes are not valid UTF-8. */
function decode(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
