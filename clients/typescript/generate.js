// Writes src/generated from the OpenAPI document: the types of all requests and responses, and a table of the operations.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const source = new URL(process.env.OPENAPI ?? '../../test/contract/openapi.json', import.meta.url);
const folder = new URL('src/generated/', import.meta.url);

const document = JSON.parse(await readFile(source, 'utf8'));
const resolved = (schema) =>
  schema?.$ref
    ? schema.$ref
        .split('/')
        .slice(1)
        .reduce((part, key) => part[key], document)
    : schema;

/** Where a request for a page says which one it wants. */
const placeOfPages = (body, query) =>
  'paginate' in body ? 'paginate' : 'cursor' in body ? 'root' : query.includes('cursor') ? 'query' : undefined;

const operations = {};
for (const [path, methods] of Object.entries(document.paths))
  for (const [method, operation] of Object.entries(methods)) {
    const parameters = (operation.parameters ?? []).map((one) => one.name?.toLowerCase());
    const [, success] = Object.entries(operation.responses).find(([status]) => status < '400');
    const types = Object.keys(success.content ?? {});
    const body = resolved(operation.requestBody?.content?.['application/json']?.schema)?.properties ?? {};
    const query = (operation.parameters ?? []).filter((one) => one.in === 'query').map((one) => one.name);
    const answer = resolved(success.content?.['application/json']?.schema);
    operations[operation.operationId] = {
      method: method.toUpperCase(),
      path,
      takes: operation.requestBody ? Object.keys(operation.requestBody.content)[0] : undefined,
      isKeyed: parameters.includes('idempotency-key') || undefined,
      isRead:
        method === 'get' || /^(list|count|export|match|suggest|read)[A-Z]/.test(operation.operationId) || undefined,
      returns: types.length === 0 ? 'nothing' : types.includes('application/json') ? 'json' : 'file',
      mayBeNull: answer?.anyOf?.some(({ type }) => type === 'null') || undefined,
      query: query.length > 0 ? query : undefined,
      // The feed has no last page: `events.follow` reads it.
      pages: answer?.type === 'array' && !success.headers?.['x-more'] ? placeOfPages(body, query) : undefined,
    };
  }

await mkdir(folder, { recursive: true });
await writeFile(new URL('schema.ts', folder), astToString(await openapiTS(document)));
await writeFile(
  new URL('operations.ts', folder),
  `// Generated from the OpenAPI document.\nexport const operations = ${JSON.stringify(operations, null, 2)} as const;\n`,
);
