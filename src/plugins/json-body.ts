import fp from 'fastify-plugin';
import { validationFailed } from '../errors.ts';
import { NoBody } from '../schemas/wire.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body as it was sent; empty when there was none. */
    bodyBytes: Buffer;
  }
}

const nothing = Buffer.alloc(0);
const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Bodies are JSON. An empty one with the JSON content type counts as no body, and no body as `{}`, so that a call without
 * one meets the same checks; a route that declares no body takes `{}` alone.
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
      const text = decode(bytes as Buffer);
      if (text === undefined) return done(validationFailed([{ path: '', message: 'the body is not valid UTF-8' }]));
      void parse(request, text, (error, value) => {
        if (error) return done(validationFailed([{ path: '', message: 'the body is not valid JSON' }]));
        return done(null, value);
      });
    });
    app.addHook('onRoute', ({ schema }) => {
      if (schema?.response) schema.body ??= NoBody;
    });
    app.addHook('preValidation', (request, _reply, done) => {
      if (request.body === undefined && request.routeOptions.schema?.body) request.body = {};
      done();
    });
  },
  { name: 'json-body' },
);

function decode(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
