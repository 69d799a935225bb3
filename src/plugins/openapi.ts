import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import swagger from '@fastify/swagger';
import { plugin } from './plugin.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { publicUrl } from '../process/config.ts';
import { describeBodies, describeRoute } from './openapi-operations.ts';

const tags = [
  { name: 'contacts', description: 'People that you know: read, search, count, write and export them.' },
  { name: 'companies', description: 'The companies of contacts and opportunities.' },
  {
    name: 'lists',
    description: 'Groups of contacts. Members are added by hand, or enter and leave by the rules of the list.',
  },
  {
    name: 'imports',
    description: 'Records from files: CSV, NDJSON or XLSX with up to 1,000,000 records. Workers write them.',
  },
  { name: 'products', description: 'What you sell, with its list price.' },
  { name: 'opportunities', description: 'Possible sales: who may buy which products, and how far it has come.' },
  {
    name: 'activities',
    description: 'Notes, tasks, calls, meetings and e-mails with contacts, companies and opportunities.',
  },
  {
    name: 'pipelines',
    description: 'The stages through which opportunities go. Pipelines are set up by the operator, and only read here.',
  },
  {
    name: 'prospects',
    description:
      'The catalog of people that you can unlock. Reading it costs nothing; addresses and numbers are masked until a ' +
      'prospect is unlocked. Every success has the status 201 here.',
  },
  {
    name: 'jobs',
    description:
      'Work that takes longer than a call and spends credits: unlocking prospects and verifying e-mail addresses. A call ' +
      'starts a job; read the job until it ends, then read its results.',
  },
  { name: 'fields', description: 'What the fields of records are, for programs that map or show them.' },
  { name: 'history', description: 'Who has changed what, with the values before and after.' },
  { name: 'events', description: 'What changed, in an order in which a reader misses nothing.' },
  { name: 'customer', description: 'The account that the API key belongs to: subscription, users and credits.' },
  { name: 'api keys', description: 'API keys are managed by admins, in a session. API keys cannot manage keys.' },
  {
    name: 'approvals',
    description: 'Large calls of API keys with `approve_over`, which wait until an admin approves them.',
  },
  {
    name: 'webhooks',
    description:
      'Events that are sent to your own service when something changes. Endpoints are managed by admins in a session, or by keys with the scope `webhooks:manage`.',
  },
  {
    name: 'sessions',
    description: 'Users log in here. The token of a session manages API keys and webhooks, and nothing else.',
  },
  { name: 'health', description: 'For operators and load balancers.' },
] as const;

type Json = Record<string, unknown>;

/**
 * Moves repeated parts of an OpenAPI document to its section `components`: schemas with a title, response headers, and
 * the error responses of operations with rate limits. Generated clients then get named types, and the document is
 * smaller.
 * @throws Error if two different components have the same name.
 */
export function nameComponents(document: Json): Json {
  const schemas = new Components('schemas');
  const headers = new Components('headers');
  const responses = new Components('responses');
  const hoist = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(hoist);
    if (typeof node !== 'object' || node === null) return node;
    const walked = Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, data.has(key) ? value : hoist(value)]),
    );
    return isTitled(walked) ? referTo(schemas, walked) : walked;
  };
  const paths = Object.fromEntries(
    Object.entries(document['paths'] as Record<string, Json>).map(([path, operations]) => [
      path,
      Object.fromEntries(
        Object.entries(operations).map(([method, operation]) => [
          method,
          hoist(withResponses(operation as Operation, headers, responses)),
        ]),
      ),
    ]),
  );
  const components = {
    ...(document['components'] as Json),
    responses: hoist(responses.sorted()),
    schemas: schemas.sorted(),
    headers: headers.sorted(),
  };
  return { ...document, paths, components };
}

const data = new Set(['example', 'examples', 'enum', 'const', 'default']);

interface Titled extends Json {
  title: string;
}

const isTitled = (node: Json): node is Titled =>
  typeof node['title'] === 'string' && ['type', 'anyOf', 'oneOf'].some((keyword) => keyword in node);

/**
 * Adds a schema with a title to the components, and returns a reference to it. If the schema allows null, the reference
 * does too.
 */
function referTo(schemas: Components, { title, ...schema }: Titled): Json {
  const types: unknown = schema['type'];
  if (!Array.isArray(types) || !types.includes('null')) return schemas.add(title, schema);
  const [type] = types.filter((one) => one !== 'null') as string[];
  return { anyOf: [schemas.add(title, { ...schema, type }), { type: 'null' }] };
}

interface Operation {
  'x-rate-limits'?: unknown;
  responses?: Record<string, Response>;
}

interface Response {
  headers?: Record<string, Json>;
  content?: Record<string, { schema: Json }>;
}

// Operations without rate limits have other headers in their error responses.
function withResponses(operation: Operation, headers: Components, errors: Components): Json {
  const isLimited = 'x-rate-limits' in operation;
  const responses = Object.entries(operation.responses ?? {}).map(([status, response]) => {
    const named = Object.entries(response.headers ?? {}).map(([name, header]) => [name, headers.add(name, header)]);
    const described = { ...response, headers: Object.fromEntries(named) };
    const title = response.content?.['application/json']?.schema['title'];
    const isCommon = isLimited && status >= '400' && typeof title === 'string';
    return [status, isCommon ? errors.add(title, described) : described];
  });
  return { ...operation, responses: Object.fromEntries(responses) };
}

class Components {
  readonly #kind: string;
  readonly #named = new Map<string, Json>();

  constructor(kind: string) {
    this.#kind = kind;
  }

  /**
   * Adds a component and returns a reference to it. If the component already exists with a different description, the
   * reference contains the new description.
   * @throws Error if a different component with this name exists.
   */
  add(name: string, component: Json): Json {
    const { description, examples: _, ...rest } = component;
    const known = this.#named.get(name);
    const reference = { $ref: `#/components/${this.#kind}/${name}` };
    if (!known) {
      this.#named.set(name, component);
      return reference;
    }
    const { description: knownDescription, examples: __, ...knownRest } = known;
    if (JSON.stringify(knownRest) !== JSON.stringify(rest))
      throw new Error(`The OpenAPI document has two different ${this.#kind} with the name ${name}`);
    return knownDescription === description ? reference : { ...reference, description };
  }

  sorted(): Json {
    return Object.fromEntries([...this.#named].toSorted(([one], [other]) => (one < other ? -1 : 1)));
  }
}

const introduction = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8');

/**
 * Fastify plugin that serves the OpenAPI 3.1 document of the API at `/openapi.json`. The document is generated from the
 * schemas of the routes.
 */
export default plugin({ name: 'openapi', dependencies: ['services'] }, async (app) => {
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
});

const access = { public: true } as const;

/** Returns the document as JSON, the same compressed, and its ETag. The tag is weak, because both forms share it. */
function serialise(document: object) {
  const plain = Buffer.from(JSON.stringify(document));
  const tag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
  return { plain, compressed: gzipSync(plain), tag };
}
