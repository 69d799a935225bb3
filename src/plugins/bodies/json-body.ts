import { isUtf8 } from 'node:buffer';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { DomainError, validationFailed } from '../../errors.ts';
import { Gate } from '../../limits/gate.ts';
import type { Requester } from '../../credentials/requester.ts';
import { NoBody } from '../../schemas/base/wire.ts';
import { parseInPieces, type ParsedJson } from '../../text/json-pieces.ts';
import {
  countMembers,
  maxJsonDepth,
  parsePlain,
  PrototypeNamed,
  prototypeNamed,
  shapeOf,
} from '../../text/json-text.ts';

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

/**
 * Maximum size of a JSON body that is parsed in one step (bytes). Larger bodies are parsed in several steps, so that
 * they do not block the event loop.
 */
const maxUnbroken = 1024 * 1024;

const nothing = Buffer.alloc(0);

/**
 * Fastify plugin that parses request bodies as JSON. An empty or missing body is treated as `{}`. If a route declares
 * no schema for the body, only `{}` is accepted.
 */
export default fp(
  async (app) => {
    const { REQUEST_TIMEOUT_MS } = app.config;
    // A parsed body needs many times the memory of its text, so large ones are parsed one at a time.
    const parsing = new Gate({ name: 'large_bodies', limit: 1, maxWaiting: 10_000, maxWaitMs: REQUEST_TIMEOUT_MS });
    const patient = ({ customerId, signal }: Requester): Requester => ({
      customerId,
      ...(signal && { signal }),
      waitMs: REQUEST_TIMEOUT_MS,
    });
    app.decorateRequest('bodyBytes');
    app.addHook('onRequest', (request, _reply, done) => {
      request.bodyBytes = nothing;
      done();
    });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
      request.bodyBytes = bytes;
      if (bytes.length === 0) return done(null, undefined);
      if (isEncoded(request)) return done(new DomainError('unsupported_media_type', 'The body must not be compressed'));
      if (!isUtf8(bytes)) return done(refusal('the body is not valid UTF-8'));
      const { depth, names } = shapeOf(bytes);
      if (depth > maxJsonDepth) return done(refusal(`the body is nested deeper than ${maxJsonDepth} levels`));
      const end = ({ value, names: found }: ParsedJson): void =>
        found < names ? done(refusal('an object of the body names the same property twice')) : done(null, value);
      const refuse = (error: unknown): void =>
        done(refusal(`the body ${error instanceof PrototypeNamed ? prototypeNamed : 'is not valid JSON'}`));
      if (bytes.length > maxUnbroken)
        return void parsing
          .run(patient(request.requester), () =>
            parseInPieces(withoutMark(bytes), parsePlain).then(
              (parsed) => () => end(parsed),
              (error: unknown) => () => refuse(error),
            ),
          )
          .then((finish) => finish(), done);
      let value: unknown;
      try {
        value = parsePlain(withoutMark(bytes).toString());
      } catch (error) {
        return refuse(error);
      }
      return end({ value, names: countMembers(value) });
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

const refusal = (message: string): DomainError => validationFailed([{ path: '', message }]);

/** Returns true if the body has a content encoding, such as gzip (RFC 9110 §8.4). */
function isEncoded({ headers }: FastifyRequest): boolean {
  const encoding = headers['content-encoding'];
  return encoding !== undefined && encoding.trim().toLowerCase() !== 'identity';
}

/** Returns a UTF-8 text without the byte order mark at its start. */
const withoutMark = (text: Buffer): Buffer =>
  text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? text.subarray(3) : text;
