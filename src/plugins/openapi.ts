import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import swagger from '@fastify/swagger';
import fp from 'fastify-plugin';
import packageJson from '../../package.json' with { type: 'json' };
import { publicUrl } from '../process/config.ts';
import { nameComponents } from './openapi/components.ts';
import { describeBodies, describeRoute } from './openapi/operations.ts';
import { tags } from './openapi/tags.ts';

type Json = Record<string, unknown>;

/**
 * The introduction to the API, in Markdown. It is the first part of the OpenAPI document and of the interactive
 * documentation. Its first example names the address of the service in development.
 */
const introduction = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8');

/**
 * Fastify plugin that serves the OpenAPI 3.1 document of the API at `/openapi.json`. The document is generated from the
 * schemas of the routes.
 */
export default fp(
  async (app) => {
    await app.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: {
          title: 'Sales Data API',
          version: packageJson.version,
          description: introduction.replaceAll('http://127.0.0.1:3000', () => publicUrl(app.config)),
          contact: {
            name: 'The operator of this service',
            ...(app.config.PUBLIC_URL === undefined ? {} : { url: app.config.PUBLIC_URL }),
          },
          license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
        },
        servers: [{ url: app.config.PUBLIC_URL ?? '/', description: 'This service' }],
        tags: [...tags],
        components: {
          securitySchemes: {
            apiKey: {
              type: 'apiKey',
              in: 'header',
              name: 'Authorization',
              description: '`X-API-Key <key>`: the literal word, a space, the key.',
            },
            session: { type: 'http', scheme: 'bearer', description: 'The token that login returns.' },
          },
        },
      },
      transform: ({ schema, url, route }) => ({
        schema: schema?.hide ? schema : describeRoute(schema ?? {}, route),
        url,
      }),
      transformObject: (document) =>
        nameComponents(describeBodies(('openapiObject' in document ? document.openapiObject : {}) as Json)),
    });
    // Serialised and compressed once: the document is large, and anybody may request it any number of times.
    let serialised: ReturnType<typeof serialise> | undefined;
    app.get('/openapi.json', { config: { access }, schema: { hide: true } }, async ({ headers }, reply) => {
      const { plain, compressed, tag } = (serialised ??= serialise(app.swagger()));
      void reply.header('etag', tag).header('cache-control', 'no-cache').header('vary', 'accept-encoding');
      if (headers['if-none-match'] === tag) return reply.code(304).send();
      void reply.type('application/json; charset=utf-8');
      if (!/\bgzip\b/.test(headers['accept-encoding'] ?? '')) return reply.send(plain);
      return reply.header('content-encoding', 'gzip').send(compressed);
    });
  },
  { name: 'openapi', dependencies: ['services'] },
);

const access = { public: true } as const;

/** The tag is weak because the plain and the compressed form share it. */
function serialise(document: object) {
  const plain = Buffer.from(JSON.stringify(document));
  const tag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
  return { plain, compressed: gzipSync(plain), tag };
}
