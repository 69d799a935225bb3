import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifyReply } from 'fastify';
import fp from 'fastify-plugin';
import packageJson from '../../package.json' with { type: 'json' };
import { DomainError } from '../errors.ts';
import { nameComponents } from './openapi/components.ts';
import { describeBodies, describeRoute } from './openapi/operations.ts';
import { tags } from './openapi/tags.ts';

type Json = Record<string, unknown>;

/**
 * Serves the API contract as an OpenAPI 3.1 document at `/openapi.json`, and as interactive documentation at `/docs`.
 * The document is generated from the schemas of the routes.
 */
export default fp(
  async (app) => {
    await app.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: {
          title: 'Sales Data API',
          version: packageJson.version,
          description:
            'Contacts, companies, lists, products, opportunities, pipelines, a prospect catalog and jobs that spend credits.',
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
      transform: ({ schema, url, route }) => ({ schema: describeRoute(schema ?? {}, route), url }),
      transformObject: (document) =>
        nameComponents(describeBodies(('openapiObject' in document ? document.openapiObject : {}) as Json)),
    });
    // Serialised once and cached: the document is large, and anybody may request it any number of times.
    let bytes: Buffer | undefined;
    const sendDocument: SendDocument = (reply) => {
      bytes ??= Buffer.from(JSON.stringify(app.swagger()));
      return reply.type('application/json; charset=utf-8').send(bytes);
    };
    app.get('/openapi.json', { config: { access }, schema: { hide: true } }, async (_request, reply) =>
      sendDocument(reply),
    );
    await app.register(documentation, { sendDocument });
  },
  { name: 'openapi', dependencies: ['services'] },
);

const access = { public: true } as const;

/** Pattern for the names of the files of the documentation pages. All these files come from one npm package. */
const fileName = /^[a-z][a-z0-9.-]{0,63}$/i;

/** Sends the OpenAPI document as the response to a request. */
type SendDocument = (reply: FastifyReply) => FastifyReply;

/**
 * Serves the documentation pages, without authentication. All their files come from an installed npm package, none from
 * other servers.
 */
async function documentation(app: FastifyInstance, { sendDocument }: { sendDocument: SendDocument }): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, access };
  });
  app.addHook('onRequest', async ({ params, headers }) => {
    const file = (params as Record<string, string | undefined>)['*'];
    if (file !== undefined && !fileName.test(file)) throw new DomainError('not_found', 'No such route');
    // Ignore these headers and send whole files: the package's responses to them are not errors of the contract.
    for (const header of ['range', 'if-match', 'if-unmodified-since']) delete headers[header];
  });
  // The package's own route would serialise the document on each request.
  app.addHook('preHandler', async ({ routeOptions }, reply) =>
    routeOptions.url === '/docs/json' ? sendDocument(reply) : undefined,
  );
  await app.register(swaggerUi, { routePrefix: '/docs', uiConfig: { persistAuthorization: true, deepLinking: true } });
}
