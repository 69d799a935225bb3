import { STATUS_CODES } from 'node:http';
import type { FastifyContextConfig, FastifySchema, RouteOptions } from 'fastify';
import { customPattern } from '../schemas/filters.ts';
import { documentedFormats } from '../schemas/formats.ts';
import type { ErrorCode } from '../errors.ts';
import { FileBody } from '../schemas/imports.ts';
import { scopesOf, type Access, type Scope } from '../schemas/scopes.ts';
import { ErrorBody, Refusal } from '../schemas/wire.ts';
import { statuses } from './error-handler.ts';
import { policiesOf } from './rate-limits.ts';

type Schema = Record<string, unknown>;

const documentedRequest = (schema: Schema): Schema => documented(schema, documentedFormats);

/** Returns a response's schema without the formats `name`, `key-name` and `domain`, which only this service defines. */
const documentedResponse = (schema: Schema): Schema => documented(schema, shownFormats);

const { country, currency } = documentedFormats;
const shownFormats: typeof documentedFormats = {
  country: country!,
  currency: currency!,
  name: {},
  'key-name': {},
  domain: {},
};

function documented(schema: Schema, formats: typeof documentedFormats): Schema {
  // A boolean that is always true: with its enum, Java clients do not compile.
  if (schema['type'] === 'boolean') return withoutDefault(without(schema, ['enum', 'const']));
  const format = formats[schema['format'] as string];
  const {
    'x-distinct-ids': isDistinct,
    'x-canonical-id': _id,
    'x-domain': _domain,
    'x-max-conditions': _max,
    'x-rules': _rules,
    ...said
  } = format ? { ...without(schema, ['format']), ...format } : schema;
  const part = (one: Schema) => documented(one, formats);
  const walked = Object.fromEntries(
    Object.entries(withoutDefault(said)).map(([key, value]) => [key, documentedPart(key, value, part)]),
  );
  return isDistinct ? withDistinct(walked) : withCustomFields(walked);
}

/**
 * Describes conditions on custom fields by `patternProperties`, which match only names of custom fields. With
 * `additionalProperties`, some generated clients use this schema for all conditions.
 */
const withCustomFields = (schema: Schema): Schema =>
  isSchema(schema['additionalProperties']) && isSchema(schema['propertyNames']) && 'pattern' in schema['propertyNames']
    ? { ...schema, patternProperties: { [customPattern]: schema['additionalProperties'] }, additionalProperties: true }
    : schema;

/**
 * Moves the default of an optional member to its description. Some generated clients require every member that has a
 * default.
 */
function withoutDefault({ default: value, ...schema }: Schema): Schema {
  if (value === undefined) return schema;
  const { description } = schema as { description?: string };
  return {
    ...schema,
    description: [description, `Default: \`${JSON.stringify(value).replaceAll('"', '')}\`.`].filter(Boolean).join(' '),
  };
}

const without = (schema: Schema, keywords: string[]): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => !keywords.includes(key)));

function documentedPart(key: string, value: unknown, part: (schema: Schema) => Schema): unknown {
  if (key === 'items' || key === 'additionalProperties') return isSchema(value) ? part(value) : value;
  if (key === 'anyOf' || key === 'oneOf') return (value as Schema[]).map((one) => withoutFormat(part(one)));
  if (key !== 'properties') return value;
  return Object.fromEntries(Object.entries(value as Schema).map(([name, one]) => [name, part(one as Schema)]));
}

/** Removes `format` from one alternative of a union, because Java clients do not compile with it. The pattern stays. */
function withoutFormat(schema: Schema): Schema {
  const rest = without(schema, ['format']);
  const { items, properties } = rest;
  return {
    ...rest,
    ...(isSchema(items) && { items: withoutFormat(items) }),
    ...(isSchema(properties) &&
      !('required' in rest) && {
        properties: Object.fromEntries(
          Object.entries(properties).map(([name, one]) => [name, withoutFormat(one as Schema)]),
        ),
      }),
  };
}

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null;

function withDistinct(schema: Schema): Schema {
  if (schema['type'] === 'array') return { ...schema, uniqueItems: true };
  const arrays = Object.entries(schema['properties'] as Record<string, Schema>);
  return {
    ...schema,
    properties: Object.fromEntries(arrays.map(([name, array]) => [name, { ...array, uniqueItems: true }])),
  };
}

type Json = Record<string, unknown>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if a successful response has the header `ETag`, which contains the version of the record. */
    etag?: true;
    isCounted?: true;
    /** True if a successful response has the header `x-change-id`, unless nothing changed. */
    isChange?: true;
    /** True if every response of the route has the headers `x-more` and `x-next-cursor`. */
    hasMoreHeader?: true;
  }
}

/**
 * Adds to the schema of a route what the OpenAPI document shows: request and response headers, rate limits, the
 * security requirement, and a sentence about the required permission.
 */
export function describeRoute(schema: FastifySchema, route: RouteOptions): FastifySchema {
  const { body, response, ...rest } = schema as FastifySchema & { response?: Record<string, Json> };
  const method = String(route.method);
  const bodiless = method === 'GET' || method === 'HEAD' || method === 'DELETE';
  const access = route.config?.access as DocumentedAccess;
  return {
    ...rest,
    description: [rest.description, accessText(access)].join('\n\n'),
    ...(bodiless || !hasFields(body) ? {} : { body: withItems(body) }),
    ...(route.config?.takesFile ? { body: FileBody } : {}),
    response: describeResponses(route, body, response),
    ...describeHeaders(route, response),
    ...limitsOf(route),
    ...security(access),
  };
}

function withItems(body: unknown): unknown {
  const { properties } = body as { properties: Record<string, Json> };
  const { 'x-batch-items': item, ...items } = properties['items'] ?? {};
  return item === undefined
    ? body
    : { ...(body as Json), properties: { ...properties, items: { ...items, items: item } } };
}

const hasFields = (body: unknown): boolean =>
  Object.keys((body as { properties?: object } | undefined)?.properties ?? {}).length > 0;

type DocumentedAccess = Exclude<Access, { page: unknown }> | undefined;

function accessText(access: DocumentedAccess): string {
  if (!access || 'public' in access) return 'Needs no credential.';
  if ('session' in access) return `Needs a session${access.session === 'admin' ? ' of an admin' : ''}.`;
  if ('scope' in access) return `Needs the scope \`${access.scope}\`.`;
  const named = (scopes: readonly Scope[]) => scopes.map((scope) => `\`${scope}\``);
  if ('allScopes' in access) return `Needs the scopes ${named(access.allScopes).join(' and ')}.`;
  return `Needs one of the scopes ${named(access.anyScope).join(', ')}.`;
}

// OpenAPI has no standard field for the scopes of API keys.
function security(access: DocumentedAccess): Json {
  if (!access || 'public' in access) return { security: [] };
  if ('session' in access) return { security: [{ session: [] }], 'x-role': access.session };
  const needed = 'anyScope' in access ? 'one' : 'all';
  return { security: [{ apiKey: [] }], 'x-required-scopes': scopesOf(access), 'x-scopes-needed': needed };
}

function limitsOf({ config = {} }: RouteOptions): Json {
  const policies = policiesOf(config);
  return policies.length > 0 ? { 'x-rate-limits': policies } : {};
}

const describeResponses = (route: RouteOptions, body: unknown, response: Record<string, Json> = {}): Json =>
  Object.fromEntries(
    Object.entries(response).map(([status, schema]) => [
      status,
      {
        ...errorBody(Number(status), schema),
        headers: headersOf(route, body, status),
        'x-response-description': describeStatus(Number(status)),
      },
    ]),
  );

const statusTexts: Record<number, string> = {
  400: 'The request is not valid. `errors` names every fault.',
  401: 'The credential is missing, wrong, expired or revoked. Always the same text, whatever the cause.',
  402: 'There are too few credits, or the spend cap of the key leaves too few. Nothing was started.',
  403: 'The credential does not allow this call. Always the same text.',
  404: 'The record, or one that the body refers to, does not exist or belongs to another customer.',
  409: 'The request conflicts with the state of a record, or a request with this `Idempotency-Key` is still running.',
  410: 'The event at the cursor is not kept any more. Export all records anew.',
  412: 'The record has changed since the version in `If-Match`. Nothing was written.',
  413: 'The body is too large.',
  415: 'The body is not `application/json`; of a file: its `Content-Encoding` is not supported.',
  422: 'The `Idempotency-Key` was used for another request.',
  429: 'A rate limit is used up; the message names it. Try again after `Retry-After` seconds.',
  500: 'The service failed. Whether something was written is unknown, unless the request had an `Idempotency-Key`.',
  503: 'The service is overloaded or a part of it is unavailable. Try again after `Retry-After` seconds.',
};

const describeStatus = (status: number): string => statusTexts[status] ?? STATUS_CODES[status]!;

const sharedTitles = new Set<unknown>([ErrorBody.title, Refusal.title]);

const fixedFields = ['statusCode', 'error', 'code'] as const;

function errorBody(status: number, schema: Json): Json {
  const properties = schema['properties'] as Record<string, Json> | undefined;
  if (status < 400 || !properties || !('statusCode' in properties)) return schema;
  const codes = Object.keys(statuses).filter((code) => statuses[code as ErrorCode] === status);
  const [code = 'internal_error'] = codes;
  const values = { statusCode: [status], error: [STATUS_CODES[status]!], code: codes.length > 0 ? codes : [code] };
  const fixed = fixedFields
    .filter((name) => name in properties)
    .map((name) => [name, { ...properties[name], enum: values[name] }]);
  const name = code.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const title = sharedTitles.has(schema['title']) ? name : schema['title'];
  return { ...schema, title, properties: { ...properties, ...Object.fromEntries(fixed) } };
}

function headersOf({ config, schema }: RouteOptions, body: unknown, status: string): Json {
  const isSuccess = status.startsWith('2');
  return {
    'x-request-id': answerHeaders['x-request-id'],
    ...(isSuccess && config?.etag ? { etag: answerHeaders.etag } : {}),
    ...(isSuccess && [body, schema?.querystring].some(takesCursor)
      ? { 'x-next-cursor': answerHeaders['x-next-cursor'] }
      : {}),
    ...(isSuccess && config?.hasMoreHeader ? { 'x-more': answerHeaders['x-more'] } : {}),
    ...(isSuccess && config?.concurrent === 'exports' ? { 'x-events-cursor': answerHeaders['x-events-cursor'] } : {}),
    ...(isSuccess && status !== '202' && config?.isChange ? { 'x-change-id': answerHeaders['x-change-id'] } : {}),
    ...(isSuccess && config?.isCounted ? { 'x-as-of': answerHeaders['x-as-of'] } : {}),
    ...(isSuccess && config?.idempotent ? { 'idempotency-replayed': answerHeaders['idempotency-replayed'] } : {}),
    ...(status === '403' ? { 'x-required-scope': answerHeaders['x-required-scope'] } : {}),
    ...(status === '401' ? { 'www-authenticate': answerHeaders['www-authenticate'] } : limitHeaders(config)),
    ...(status === '503' || status === '429' ? { 'retry-after': answerHeaders['retry-after'] } : {}),
  };
}

const limitHeaders = (config: FastifyContextConfig = {}): Json =>
  policiesOf(config).length === 0
    ? {}
    : { 'ratelimit-policy': answerHeaders['ratelimit-policy'], ratelimit: answerHeaders.ratelimit };

function takesCursor(body: unknown): boolean {
  const fields = (body as { properties?: Record<string, { properties?: object }> } | undefined)?.properties ?? {};
  return 'cursor' in fields || 'cursor' in (fields['paginate']?.properties ?? {});
}

const item = String.raw`"[a-z]+"`;

/** Headers of responses, other than those of HTTP itself. Web pages of other origins may read them, too. */
export const answerHeaders = {
  etag: { type: 'string', pattern: '^"[^"]+"$', description: 'The version of the record, for `If-Match`.' },
  'x-next-cursor': {
    type: 'string',
    description: 'Cursor of the next page; absent when this page is not full.',
  },
  'x-events-cursor': {
    type: 'string',
    description: 'From this cursor on, the feed of changes tells what changes after the export has begun.',
  },
  'x-more': {
    type: 'string',
    enum: ['true', 'false'],
    description: 'Whether more can be read at once. Then `x-next-cursor` is there, too, even if the page is empty.',
  },
  'x-as-of': {
    type: 'string',
    description: 'When the count began that the response shows; absent if the response is as of now.',
  },
  'x-change-id': {
    type: 'string',
    format: 'uuid',
    description:
      'Id of the change that the call made: its events have it as `change_id`, and `POST /api/ext/changes/{id}/undo` takes ' +
      'it back. Absent if no record changed.',
  },
  'idempotency-replayed': {
    type: 'string',
    enum: ['true'],
    description: 'Present when this is the stored response to an earlier request with the same key.',
  },
  'www-authenticate': {
    type: 'string',
    description:
      'How to authenticate (RFC 9110), with `error="missing"` or `error="wrong_scheme"` if the request has no credential ' +
      'of this form.',
  },
  'x-required-scope': {
    type: 'string',
    description:
      'The scope that the key lacks, or several, separated by blanks, of which one is enough. Absent if none is missing.',
  },
  'ratelimit-policy': {
    type: 'string',
    pattern: `^${item};q=[0-9]+;w=[0-9]+(, ${item};q=[0-9]+;w=[0-9]+)*$`,
    examples: ['"default";q=6000;w=60'],
    description: 'The rate limits that count this request: `q` requests in `w` seconds.',
  },
  ratelimit: {
    type: 'string',
    pattern: `^${item};r=[0-9]+;t=[0-9]+(, ${item};r=[0-9]+;t=[0-9]+)*$`,
    examples: ['"default";r=5998;t=42'],
    description: 'What remains of each limit: `r` requests, until it is reset in `t` seconds.',
  },
  'retry-after': { type: 'integer', minimum: 1, description: 'Seconds after which to try again.' },
  'x-request-id': {
    type: 'string',
    pattern: '^[A-Za-z0-9._-]{1,64}$',
    description: 'Identifies the request in the logs: the value that the caller sent in this header, or a new one.',
  },
} satisfies Json;

function describeHeaders({ config }: RouteOptions, response: object = {}): Json {
  const supported = {
    ...(config?.idempotent ? { 'idempotency-key': idempotencyKey } : {}),
    ...(412 in response ? { 'if-match': ifMatch } : {}),
  };
  return Object.keys(supported).length > 0 ? { headers: { type: 'object', properties: supported } } : {};
}

const idempotencyKey = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  pattern: '^[ -~]+$',
  description:
    'The first successful response to this key is stored for 24 hours and returned to retries of the same request.',
};

const ifMatch = { type: 'string', description: 'The `ETag` that the record must have; `*` accepts any.' };

interface Operation {
  requestBody?: { required: boolean; content: Record<string, { schema: Json }> };
  parameters?: { schema: Json }[];
  responses: Record<string, { content?: Record<string, { schema: Json }> }>;
}

/**
 * Replaces the formats and keywords that only this service defines with standard JSON Schema, in all schemas of an
 * OpenAPI document. Marks a request body as optional if all its fields are optional.
 */
export function describeBodies(document: Json): Json {
  const paths = document['paths'] as Record<string, Record<string, Operation>>;
  for (const { requestBody, parameters = [], responses } of Object.values(paths).flatMap((path) =>
    Object.values(path),
  )) {
    const media = Object.values(requestBody?.content ?? {});
    for (const part of [...media, ...parameters]) part.schema = documentedRequest(part.schema);
    for (const part of Object.values(responses).flatMap(({ content = {} }) => Object.values(content)))
      part.schema = documentedResponse(part.schema);
    if (requestBody && media.every(({ schema }) => schema['type'] === 'object' && !('required' in schema)))
      requestBody.required = false;
  }
  return document;
}
