import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { validationFailed } from '../../errors.ts';
import { findUnstorableText } from '../../text/unstorable.ts';
import { compile, type Validator } from '../../validation/validator.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True if the request body is a batch. An invalid item in its array `items` does not make the whole body invalid.
     */
    isBatch?: true;
  }
}

export default fp(
  async (app) => {
    app.setValidatorCompiler(({ schema }) => compile(schema as object));
    app.addHook('preValidation', refuseUnstorableText);
  },
  { name: 'validation', dependencies: ['json-body'] },
);

/**
 * Rejects a request body that contains text which PostgreSQL cannot store, such as the character U+0000. Does not check
 * the items of a batch, because each item is validated separately.
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

const withoutItems = (body: unknown): unknown =>
  typeof body === 'object' &&
  body !== null &&
  !Array.isArray(body) &&
  Array.isArray((body as { items?: unknown }).items)
    ? { ...body, items: [] }
    : body;
