import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { validationFailed } from '../errors.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import { compile, type Validator } from '../validation/validator.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the body is a batch: its array `items` can contain invalid items, which do not make the body invalid. */
    isBatch?: true;
  }
}

/**
 * Validates all requests with the schemas of their routes. An invalid request is rejected with a `validation_failed`
 * error.
 */
export default fp(
  async (app) => {
    app.setValidatorCompiler(({ schema }) => compile(schema as object));
    app.addHook('preValidation', refuseUnstorableText);
  },
  { name: 'validation', dependencies: ['json-body'] },
);

/**
 * Rejects a body with text that PostgreSQL cannot store, such as the character U+0000. In a batch, such text in an item
 * is a fault of this item only.
 */
async function refuseUnstorableText(request: FastifyRequest): Promise<void> {
  // The body is valid UTF-8, so only a `\u` escape can produce such text.
  if (!request.bodyBytes.includes(String.raw`\u`)) return;
  const isBatch = request.routeOptions.config.isBatch === true;
  const unstorable = findUnstorableText(isBatch ? withoutItems(request.body) : request.body);
  if (unstorable.length === 0) return;
  const validate = request.getValidationFunction('body') as unknown as Validator | undefined;
  const paths = new Set(unstorable.map(({ path }) => path));
  const others = validate?.faultsOf(request.body).filter(({ path }) => !paths.has(path)) ?? [];
  throw validationFailed([...unstorable, ...others]);
}

/** Returns the body of a batch without its items. A body that is no object is returned unchanged. */
const withoutItems = (body: unknown): unknown =>
  typeof body === 'object' &&
  body !== null &&
  !Array.isArray(body) &&
  Array.isArray((body as { items?: unknown }).items)
    ? { ...body, items: [] }
    : body;
