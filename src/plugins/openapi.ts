import { STATUS_CODES } from 'node:http';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifySchema, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import packageJson from '../../package.json' with { type: 'json' };
import { DomainError } from '../errors.ts';
import { FileBody } from '../schemas/imports.ts';
import type { Access } from '../schemas/scopes.ts';
import { policiesOf } from './rate-limits.ts';

type Json = Record<string, unknown>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether a successful response has an `ETag` header with the version of the record. */
    etag?: true;
  }
}

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
          license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
        },
        servers: [{ url: app.config.PUBLIC_URL ?? '/' }],
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
      transform: ({ schema, url, route }) => ({ schema: describeRoute(schema ?? {}, url, route), url }),
      transformObject: (document) =>
        nameComponents(freeBodies(('openapiObject' in document ? document.openapiObject : {}) as Json)),
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

/** Completes a route's schema for the OpenAPI document: adds headers, operation id, rate limits and security. */
function describeRoute(schema: FastifySchema, url: string, route: RouteOptions): FastifySchema {
  const { body, response, ...rest } = schema as FastifySchema & { response?: Record<string, Json> };
  const method = String(route.method);
  const bodiless = method === 'GET' || method === 'HEAD' || method === 'DELETE';
  return {
    ...rest,
    ...(bodiless || !hasFields(body) ? {} : { body: withItems(body) }),
    ...(route.config?.takesFile ? { body: FileBody } : {}),
    response: describeResponses(route, body, response),
    ...describeHeaders(route, response),
    operationId: operationId(method, url),
    ...limitsOf(route),
    ...security(route.config?.access),
  };
}

/**
 * Returns the OpenAPI operation id of a route: `postContactsList` for `POST /api/ext/contacts/list`, `getContactsById`
 * for `GET /api/ext/contacts/:id`.
 */
function operationId(method: string, url: string): string {
  const words = url
    .replace(/^\/api\/(ext\/)?/, '/')
    .replace(/:(\w)/g, 'by-$1')
    .split(/[^A-Za-z0-9]+/);
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

/** Adds to each response of a route its headers and a description (the name of its status). */
const describeResponses = (route: RouteOptions, body: unknown, response: Record<string, Json> = {}): Json =>
  Object.fromEntries(
    Object.entries(response).map(([status, schema]) => [
      status,
      { ...schema, headers: answerHeaders(route, body, status), 'x-response-description': STATUS_CODES[status] },
    ]),
  );

/** Returns the headers of a response for the OpenAPI document. */
function answerHeaders({ config }: RouteOptions, body: unknown, status: string): Json {
  const isSuccess = status.startsWith('2');
  return {
    'x-request-id': header(
      'Identifies the request in the logs: the value that the caller sent in this header, or a new one.',
    ),
    ...(isSuccess && config?.etag ? { etag: header('The version of the record, for `If-Match`.') } : {}),
    ...(isSuccess && takesCursor(body)
      ? { 'x-next-cursor': header('Cursor of the next page; absent when this page is not full.') }
      : {}),
    ...(isSuccess && config?.idempotent
      ? {
          'idempotency-replayed': header(
            '`true` when this is the stored response to an earlier request with the same key.',
          ),
        }
      : {}),
    ...(status === '401' ? { 'www-authenticate': header('How to authenticate (RFC 9110).') } : {}),
    ...(status === '401' ? {} : limitHeaders(config)),
    ...(status === '503' || status === '429' ? { 'retry-after': header('Seconds after which to try again.') } : {}),
  };
}

/**
 * Returns the rate limit headers of a route's responses for the OpenAPI document. Empty for a route without rate
 * limits.
 */
const limitHeaders = (config: FastifyContextConfig = {}): Json =>
  policiesOf(config).length === 0
    ? {}
    : {
        'ratelimit-policy': header('The rate limits that count this request: `q` requests in `w` seconds.'),
        ratelimit: header('What remains of each limit: `r` requests, until it is reset in `t` seconds.'),
      };

const header = (description: string): Json => ({ type: 'string', description });

/** Returns whether a request body has a field `cursor`, directly or in its field `paginate`. */
function takesCursor(body: unknown): boolean {
  const fields = (body as { properties?: Record<string, { properties?: object }> } | undefined)?.properties ?? {};
  return 'cursor' in fields || 'cursor' in (fields['paginate']?.properties ?? {});
}

/** Returns the request headers that a route supports, for the OpenAPI document. */
function describeHeaders({ config }: RouteOptions, response: object = {}): Json {
  const headers = {
    ...(config?.idempotent ? { 'idempotency-key': idempotencyKey } : {}),
    ...(412 in response ? { 'if-match': ifMatch } : {}),
  };
  return Object.keys(headers).length > 0 ? { headers: { type: 'object', properties: headers } } : {};
}

const idempotencyKey = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  description:
    'The first successful response to this key is stored for 24 hours and returned to retries of the same request.',
};

const ifMatch = { type: 'string', description: 'The `ETag` that the record must have; `*` accepts any.' };

/** Returns the schema of a body. Describes the items of a batch, which are not validated with the body. */
function withItems(body: unknown): unknown {
  const { properties } = body as { properties: Record<string, Json> };
  const { 'x-batch-items': item, ...items } = properties['items'] ?? {};
  return item === undefined
    ? body
    : { ...(body as Json), properties: { ...properties, items: { ...items, items: item } } };
}

const hasFields = (body: unknown): boolean =>
  Object.keys((body as { properties?: object } | undefined)?.properties ?? {}).length > 0;

function security(access: Access | undefined): Json {
  if (!access || 'public' in access) return { security: [] };
  if ('session' in access) return { security: [{ session: [] }], 'x-role': access.session };
  if ('allScopes' in access) return { security: [{ apiKey: access.allScopes }] };
  const scopes = 'scope' in access ? [access.scope] : access.anyScope;
  return { security: scopes.map((scope) => ({ apiKey: [scope] })) };
}

/** Returns the rate limits of a route for the OpenAPI document. */
function limitsOf({ config = {} }: RouteOptions): Json {
  const policies = policiesOf(config);
  return policies.length > 0 ? { 'x-rate-limits': policies } : {};
}

/** Marks each request body of the OpenAPI document as optional if all its fields are optional. */
function freeBodies(document: Json): Json {
  const operations = Object.values(document['paths'] as Record<string, Record<string, Operation>>).flatMap((path) =>
    Object.values(path),
  );
  for (const { requestBody } of operations) {
    const schemas = Object.values(requestBody?.content ?? {}).map(({ schema }) => schema);
    if (requestBody && schemas.every(({ required = [] }) => required.length === 0)) requestBody.required = false;
  }
  return document;
}

/** The parts of an operation in the OpenAPI document that this program reads or changes. */
interface Operation {
  requestBody?: { required: boolean; content: Record<string, { schema: { required?: string[] } }> };
}

/**
 * Moves the schemas that have a title, and all response headers, to the `components` of the OpenAPI document. Generated
 * clients then get named types.
 */
export function nameComponents(document: Json): Json {
  const schemas: Json = {};
  const headers: Json = {};
  /** @param isProperties whether the keys of the node are names of properties, so that `headers` is only a name */
  const hoist = (node: unknown, isProperties = false): unknown => {
    if (Array.isArray(node)) return node.map((one) => hoist(one));
    if (typeof node !== 'object' || node === null) return node;
    const walked = Object.fromEntries(
      Object.entries(node).map(([key, value]) => [
        key,
        key === 'headers' && !isProperties ? hoistHeaders(value as Json) : hoist(value, key === 'properties'),
      ]),
    );
    if (typeof walked['title'] !== 'string' || !('type' in walked)) return walked;
    const { title, ...schema } = walked;
    schemas[title] = schema;
    return { $ref: `#/components/schemas/${title}` };
  };
  const hoistHeaders = (given: Json): Json => {
    Object.assign(headers, given);
    return Object.fromEntries(Object.keys(given).map((name) => [name, { $ref: `#/components/headers/${name}` }]));
  };
  const paths = hoist(document['paths']);
  const components = { ...(document['components'] as Json), schemas: sorted(schemas), headers: sorted(headers) };
  return { ...document, paths, components };
}

const sorted = (named: Json): Json =>
  Object.fromEntries(Object.entries(named).toSorted(([one], [other]) => (one < other ? -1 : 1)));
